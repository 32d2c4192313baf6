"""Pairs in an Arrow file that is mapped into memory, so that a corpus may be of any size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, overload

from selfattn.codec import Plain
from selfattn.data.pairs import Pair

if TYPE_CHECKING:
    from datasets import Dataset

_ROWS = 1000  # rows read or written at once


@dataclass(frozen=True)
class ArrowFile(Plain):
    """What was written to an Arrow file.

    Attributes:
        pairs: how many there are.
        sha256: of their texts, in hexadecimal digits: each text in UTF-8 with a line feed behind it, source before
            target.
    """

    pairs: int
    sha256: str


class MappedPairs(Sequence[Pair]):
    """The pairs of a dataset with the columns ``source`` and ``target``; a slice is a list.

    Args:
        dataset: mapped or not.

    Example:
        >>> from datasets import Dataset
        >>> pairs = MappedPairs(Dataset.from_dict({"source": ["a", "b", "c"], "target": ["1", "2", "3"]}))
        >>> len(pairs), pairs[-1].target, [pair.source for pair in pairs[:2]]
        (3, '3', ['a', 'b'])
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    @classmethod
    def open(cls, path: Path) -> MappedPairs:
        """Map a file that `write_pairs` wrote."""
        from datasets import Dataset

        return cls(Dataset.from_file(str(path)))

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.dataset)

    @overload
    def __getitem__(self, place: int) -> Pair: ...
    @overload
    def __getitem__(self, place: slice) -> list[Pair]: ...

    def __getitem__(self, place: int | slice) -> Pair | list[Pair]:
        """Return one pair, or the list of them for a slice."""
        if isinstance(place, slice):
            rows = self.dataset[range(len(self))[place]]
            return [Pair(*texts) for texts in zip(rows["source"], rows["target"], strict=True)]
        row = self.dataset[place]
        return Pair(row["source"], row["target"])

    def __iter__(self) -> Iterator[Pair]:
        """Go through all pairs in their order, reading some at once."""
        for start in range(0, len(self), _ROWS):
            yield from self[start : start + _ROWS]


def write_pairs(path: Path, pairs: Iterable[tuple[str, str]]) -> ArrowFile:
    """Write pairs to an Arrow file, some at a time.

    Args:
        path: the file to write.
        pairs: source and target of each.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = write_pairs(Path(folder, "pairs.arrow"), [("a", "1"), ("b", "2")])
        ...     written.pairs, MappedPairs.open(Path(folder, "pairs.arrow"))[1].source
        (2, 'b')
    """
    import pyarrow as pa

    schema = pa.schema([("source", pa.string()), ("target", pa.string())])
    digest, count, rest = hashlib.sha256(), 0, iter(pairs)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        while rows := list(islice(rest, _ROWS)):
            count += len(rows)
            digest.update("".join(f"{source}\n{target}\n" for source, target in rows).encode())
            sources, targets = zip(*rows, strict=True)
            writer.write_batch(pa.record_batch([list(sources), list(targets)], schema=schema))
    return ArrowFile(count, digest.hexdigest())
