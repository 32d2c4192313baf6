"""Options of `compare outputs`. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Gt, Le

from selfattn.comparison.options import Lang
from selfattn.errors import SettingError
from selfattn.settings import LARGEST
from selfattn.words.messages import SOURCE


@dataclass(frozen=True, kw_only=True)
class OutputsOptions:
    """What is judged, and how.

    Attributes:
        reference: File of the right outputs, one a line. Every file may also be FILE:COLUMN of a TSV or CSV file, with
            the column's name or number.
        system: A system and its output files, one for each training: NAME=FILE,FILE,... Repeat for each system.
        metric: Metrics by name, separated by commas, such as bleu or exact_match. The first decides.
        out: Directory for report, results and all outputs.
        source: File of the inputs. Items with the same input count as repeats.
        language: Language of the references, a code or an English name, for metrics that cut texts into words.
        tags: File with the kind of each item, for scores by kind.
        train: File of the training's targets, to count how often training shows a word.
        margin: Smallest difference that matters, in points.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
        lang: Language of the report and of the printed summary.
    """

    repeated: ClassVar[tuple[str, ...]] = ("system",)

    reference: str
    system: tuple[str, ...]
    metric: tuple[str, ...]
    out: Path
    source: str | None = None
    language: str | None = None
    tags: str | None = None
    train: str | None = None
    margin: Annotated[float, Gt(0), Le(LARGEST)] | None = None
    encoding: str | None = None
    lang: Lang = SOURCE


def systems_of(texts: Sequence[str]) -> dict[str, list[str]]:
    """Read systems with their files as the command line has them.

    Raises:
        SettingError: no name or no file, or a name twice.

    Example:
        >>> systems_of(["A=a1.txt,a2.txt", "B=b1.txt"])
        {'A': ['a1.txt', 'a2.txt'], 'B': ['b1.txt']}
    """
    systems: dict[str, list[str]] = {}
    for text in texts:
        name, _, files = text.partition("=")
        paths = files.split(",")
        if not name or not all(paths):
            raise SettingError(f"`system` {text}: expected NAME=FILE,FILE,... with a file for each training")
        if name in systems:
            raise SettingError(f"`system` {name}: named twice; give all files of a system at once: {name}=FILE,FILE")
        systems[name] = paths
    return systems
