"""Training pairs that are read and cleaned again on every pass, so that the corpus may be of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from selfattn.data.corpus.cleaning import CleaningOptions, Tally, clean_rows, median_ratio, unlikely
from selfattn.data.corpus.components import digest
from selfattn.data.corpus.sources import PairSource
from selfattn.data.pairs import Pair

_SAMPLE = 10_000  # pairs whose median ratio of lengths is used for the corpus


@dataclass(frozen=True, eq=False)
class PairStream:
    """Clean training pairs in the order of the source.

    Attributes:
        source: read from the start by every iterator.
        options: what to clean; `duplicates` does not apply.
        length_ratio: expected characters of target for one of source; None without a limit.
        held_out: digests of the sources, and of the targets, that are left out (`components.digest`).
    """

    source: PairSource
    options: CleaningOptions
    length_ratio: float | None
    held_out: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())

    def __iter__(self) -> Iterator[Pair]:
        """Read the pairs from the start."""
        rows = clean_rows(self.source.rows(), self.options, Tally("train", self.source.label), limited=True)
        for _, source, target in rows:
            expected, limit = self.length_ratio, self.options.max_ratio
            if expected and limit and unlikely(len(source), len(target), expected, limit):
                continue
            if digest(source) not in self.held_out[0] and digest(target) not in self.held_out[1]:
                yield Pair(source, target)


def open_stream(
    sources: Mapping[str, PairSource], options: CleaningOptions
) -> tuple[PairStream, dict[str, list[Pair]], list[str]]:
    """Read the held-out parts into memory, and the start of train for the ratio of lengths.

    Args:
        sources: of ``"train"``, ``"valid"`` and ``"test"``.
        options: what to clean.

    Returns:
        The stream, the held-out parts, and what cleaning did to them in lines.

    Raises:
        UserError: a source cannot be read, or a part is empty.
    """
    parts: dict[str, list[Pair]] = {}
    notes = []
    for name, source in sources.items():
        tally, limited = Tally(name, source.label), name == "train"
        rows = islice(clean_rows(source.rows(), options, tally, limited=limited), _SAMPLE if limited else None)
        parts[name] = [Pair(source, target) for _, source, target in rows]
        tally.refuse_empty(len(parts[name]))
        notes += [] if limited else tally.lines(len(parts[name]))
    expected, first = None, parts.pop("train")
    if options.max_ratio is not None:
        lengths = np.array([(len(pair.source), len(pair.target)) for pair in first]).T
        expected = options.length_ratio or median_ratio(*lengths)
        notes.append(f"target length expected: {expected:.2f} characters for one of the source")
    held = [pair for part in parts.values() for pair in part] if options.overlap else []
    digests = frozenset(digest(pair.source) for pair in held), frozenset(digest(pair.target) for pair in held)
    return PairStream(sources["train"], options, expected, digests), parts, notes
