"""Training pairs that are read and cleaned anew each time they are gone through: the corpus may be of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from selfattn.data.corpus.cleaning import CleaningOptions, clean_rows, median_ratio, unlikely
from selfattn.data.corpus.cleaning_report import CleaningReport, PartReport, Tally
from selfattn.data.corpus.components import digest
from selfattn.data.corpus.sources import PairSource
from selfattn.data.pairs import Pair

_SAMPLE = 10_000  # pairs whose median ratio of lengths stands for the corpus'


@dataclass(eq=False)
class PairStream:
    """Clean pairs, in the order of the source.

    Args:
        source: read anew by every iterator.
        options: what to clean; `duplicates` is not heeded.
        length_ratio: characters of target to expect for one of source; None without a limit.
        held_out: digests of the sources, and of the targets, that are left out (`components.digest`).

    Attributes:
        report: what became of all training pairs, once an iterator has come to its end; None before.
    """

    source: PairSource
    options: CleaningOptions
    length_ratio: float | None
    held_out: tuple[frozenset[bytes], frozenset[bytes]] = (frozenset(), frozenset())
    report: PartReport | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[Pair]:
        """Read the pairs from the beginning."""
        tally, kept = Tally(self.source.label), 0
        sources, targets = self.held_out
        limit = self.options.max_ratio
        for line, source, target in clean_rows(self.source.rows(), self.options, tally, limited=True):
            if self.length_ratio and limit and unlikely(len(source), len(target), self.length_ratio, limit):
                tally.drop("length ratio", line)
            elif digest(source) in sources or digest(target) in targets:
                tally.drop("shared with valid or test", line)
            else:
                kept += 1
                yield Pair(source, target)
        self.report = tally.report("train", kept)


def open_stream(
    sources: Mapping[str, PairSource], options: CleaningOptions
) -> tuple[PairStream, dict[str, list[Pair]], CleaningReport]:
    """Read the held-out parts into memory and the beginning of train, to learn the ratio of lengths.

    Args:
        sources: of ``"train"``, ``"valid"`` and ``"test"``.
        options: what to clean.

    Returns:
        The stream, the held-out parts, and the report on these.

    Raises:
        UserError: a source cannot be read, or there is no pair in it.
    """
    held: dict[str, list[Pair]] = {}
    reports = []
    for name in ("valid", "test"):
        tally = Tally(sources[name].label)
        rows = clean_rows(sources[name].rows(), options, tally, limited=False)
        held[name] = [Pair(source, target) for _, source, target in rows]
        reports.append(tally.report(name, len(held[name])))
        reports[-1].refuse_empty(sources[name].label)
    tally = Tally(sources["train"].label)
    first = list(islice(clean_rows(sources["train"].rows(), options, tally, limited=True), _SAMPLE))
    if not first:
        tally.report("train", 0).refuse_empty(sources["train"].label)
    expected = None
    if options.max_ratio is not None:
        lengths = np.array([(len(source), len(target)) for _, source, target in first], dtype=np.uint32).T
        expected = options.length_ratio or median_ratio(*lengths)
    pairs = [*held["valid"], *held["test"]] if options.overlap else []
    keys = frozenset(digest(pair.source) for pair in pairs), frozenset(digest(pair.target) for pair in pairs)
    return PairStream(sources["train"], options, expected, keys), held, CleaningReport(tuple(reports), (), expected)
