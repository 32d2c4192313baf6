"""Sources of the parts of a corpus, which can be read repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from selfattn.data.readers.lines import file_sha256
from selfattn.data.readers.records import BadRecord, RawPair, file_records


@dataclass(frozen=True)
class PairSource:
    """Raw pairs of one part.

    Attributes:
        label: start of the places in messages, such as the file's name.
        rows: reads the pairs from the beginning.
        settings: JSON values from which the source can be opened again.
    """

    label: str
    rows: Callable[[], Iterator[RawPair | BadRecord]]
    settings: dict[str, Any]


def file_sources(files: Mapping[str, Sequence[Path]], columns: tuple[str, str] | None = None) -> dict[str, PairSource]:
    """Open the files of a corpus.

    Args:
        files: for ``"train"``, and for ``"valid"`` and ``"test"`` where they are not held out of train: two parallel
            files (source, target), or one file with both sides. Parts without files are ignored.
        columns: see `selfattn.data.readers.records.file_records`.

    Raises:
        UserError: a file is missing or cannot be read. Other problems show when it is read.
    """
    sources = {}
    for part, paths in files.items():
        if paths:
            hashes = [{"path": str(path), "sha256": file_sha256(path)} for path in paths]
            settings = {"files": hashes, "columns": columns and list(columns)}
            rows = partial(file_records, tuple(paths), columns)
            sources[part] = PairSource(", ".join(path.name for path in paths), rows, settings)
    return sources
