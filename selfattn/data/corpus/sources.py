"""Sources of the parts of a corpus, which can be read repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from selfattn.data.readers.lines import file_sha256
from selfattn.data.readers.records import BadRecord, RawPair, file_records
from selfattn.errors import SettingError


@dataclass(frozen=True)
class PairSource:
    """Raw pairs.

    Attributes:
        label: what places are named by, such as the file's name.
        rows: reads them from the beginning.
        settings: what tells these data from others, as values for JSON.
    """

    label: str
    rows: Callable[[], Iterator[RawPair | BadRecord]]
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CorpusFiles:
    """Files of a corpus: for each part two parallel files (source, target), or one file with both sides.

    Args:
        train: for training.
        valid: for validation; default None: held out from train.
        test: for the test; default None: held out from train.
        columns: of source and target in a file with both sides, by name or by number from 1; default: source and
            target in CSV and JSON lines, 1 and 2 in TSV. See `selfattn.data.readers.records.file_records`.

    Raises:
        UserError: a part has no file or more than two.

    Example:
        >>> CorpusFiles((Path("train.en"), Path("train.de"))).valid is None
        True
    """

    train: tuple[Path, ...]
    valid: tuple[Path, ...] | None = None
    test: tuple[Path, ...] | None = None
    columns: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Count the files."""
        for part in ("train", "valid", "test"):
            paths = getattr(self, part)
            if paths is not None and len(paths) not in (1, 2):
                raise SettingError(f"`{part}`: {len(paths)} files; give one with both sides, or two: source and target")


def file_sources(files: CorpusFiles) -> dict[str, PairSource]:
    """Open the files of a corpus.

    Returns:
        A source for each of ``"train"``, ``"valid"`` and ``"test"`` that is given, in this order.

    Raises:
        UserError: a file is missing or cannot be read. What else is wrong with it shows as it is read.
    """
    sources = {}
    for part in ("train", "valid", "test"):
        paths: tuple[Path, ...] | None = getattr(files, part)
        if paths is not None:
            label = ", ".join(path.name for path in paths)
            hashes = [{"path": str(path), "sha256": file_sha256(path)} for path in paths]
            sources[part] = PairSource(label, partial(file_records, paths, files.columns), {"files": hashes})
    return sources
