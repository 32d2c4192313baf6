"""The clean parts of a corpus that is read from end to end: written as Arrow files, to be mapped.

The texts go from file to file; of each pair some 50 bytes stay in memory while the corpus is cleaned, and none after.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfattn.data.corpus.cleaning import CleaningOptions, clean_rows, median_ratio, unlikely
from selfattn.data.corpus.cleaning_report import CleaningReport, PartReport, Shared, Split, Step, Tally
from selfattn.data.corpus.groups import deal, digest, first_of_each, grouped, numbered
from selfattn.data.corpus.mapped import MappedPairs, write_pairs
from selfattn.data.corpus.sources import Source
from selfattn.errors import UserError

HELD_OUT = ("valid", "test")


class _Facts:
    """What is remembered of each pair of a part."""

    def __init__(self) -> None:
        self.lines = array("Q")
        self.lengths = array("I"), array("I")
        self.digests = bytearray(), bytearray()

    def of(self, pairs: Iterable[tuple[int, str, str]]) -> Iterator[tuple[str, str]]:
        """Note the pairs that go through."""
        for line, *texts in pairs:
            self.lines.append(line)
            for side, text in enumerate(texts):
                self.lengths[side].append(len(text))
                self.digests[side].extend(digest(text))
            yield texts[0], texts[1]


class _Numbers:
    """The sources and targets of all parts as numbers: the same text has the same number in every part."""

    def __init__(self, facts: Mapping[str, _Facts]) -> None:
        ends = np.cumsum([len(fact.lines) for fact in facts.values()])[:-1]
        sides = [numbered(b"".join(fact.digests[side] for fact in facts.values())) for side in (0, 1)]
        self.total = max(int(side.max(initial=0)) for side in sides) + 1
        self._of = {name: pair for name, *pair in zip(facts, *(np.split(side, ends) for side in sides), strict=True)}

    def pairs(self, name: str) -> NDArray[np.int64]:
        """One number for each pair of a part; equal pairs have equal ones."""
        source, target = self._of[name]
        return np.asarray(source * self.total + target)

    def known(self, name: str, where: Mapping[str, NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
        """Mark the pairs of a part whose source, and whose target, marked pairs of other parts have."""
        found = []
        for side, numbers in enumerate(self._of[name]):
            there = np.zeros(self.total, dtype=np.bool_)
            for other, marked in where.items():
                there[self._of[other][side][marked]] = True
            found.append(there[numbers])
        return found


def build(
    folder: Path,
    sources: Mapping[str, Source],
    options: CleaningOptions,
    held_out: int | None = None,
    split_seed: int = 0,
) -> tuple[CleaningReport, dict[str, Any]]:
    """Clean a corpus and write its parts.

    Args:
        folder: gets ``train.arrow``, ``valid.arrow`` and ``test.arrow``.
        sources: of ``"train"``, and of the held-out parts that are given.
        options: what to clean.
        held_out: how many pairs to hold out from train for each part that is not given; default None: a twentieth,
            at most 2,000.
        split_seed: that they are dealt by; default 0.

    Returns:
        The report, and of each part the number of pairs and the SHA-256 of their texts.

    Raises:
        UserError: a source cannot be read, or nothing is left of a part.
    """
    tallies = {name: Tally(source.label) for name, source in sources.items()}
    facts = {name: _Facts() for name in sources}
    written = {}
    for name, source in sources.items():
        rows = clean_rows(source.rows(), options, tallies[name], limited=name == "train")
        written[name] = write_pairs(folder / f"{name}.arrow", facts[name].of(rows))
        tallies[name].report(name, written[name][0]).refuse_empty(source.label)
    keep, expected = _ratio_limit(facts["train"], tallies["train"], options)
    numbers = _Numbers(facts)
    if options.duplicates:
        rows_kept = np.flatnonzero(keep)
        repeated = np.zeros_like(keep)
        repeated[rows_kept[~first_of_each(numbers.pairs("train")[rows_kept])]] = True
        _leave_out(keep, repeated, "duplicate", facts["train"], tallies["train"])
    shared = _shared(numbers, facts, keep)
    given = {name: np.ones(len(facts[name].lines), dtype=np.bool_) for name in HELD_OUT if name in facts}
    if options.overlap:
        known = np.logical_or(*numbers.known("train", given))
        _leave_out(keep, known, "shared with valid or test", facts["train"], tallies["train"])
    tallies["train"].report("train", int(keep.sum())).refuse_empty(sources["train"].label)
    missing = [name for name in HELD_OUT if name not in sources]
    split = _split(folder, keep, missing, held_out, split_seed, written, sources["train"].label)
    moved = tuple(Step(name, written[name][0]) for name in missing)
    reports = [tallies["train"].report("train", written["train"][0], moved)]
    for name in HELD_OUT:
        count = written[name][0]
        reports.append(tallies[name].report(name, count) if name in tallies else PartReport(name, count, count))
    held = tuple(Shared(name, 0, 0, 0) for name in missing)
    report = CleaningReport(
        tuple(reports), tuple(sorted(shared + held, key=lambda one: HELD_OUT.index(one.part))), expected, split
    )
    return report, {name: {"pairs": count, "sha256": sha256} for name, (count, sha256) in sorted(written.items())}


def _ratio_limit(facts: _Facts, tally: Tally, options: CleaningOptions) -> tuple[NDArray[np.bool_], float | None]:
    """Mark the training pairs to keep, and return the ratio that they were held against."""
    keep = np.ones(len(facts.lines), dtype=np.bool_)
    if options.max_ratio is None:
        return keep, None
    source, target = (np.frombuffer(side, dtype=np.uint32) for side in facts.lengths)
    expected = options.length_ratio or median_ratio(source, target)
    _leave_out(keep, unlikely(source, target, expected, options.max_ratio), "length ratio", facts, tally)
    return keep, expected


def _leave_out(keep: NDArray[np.bool_], bad: NDArray[np.bool_], step: str, facts: _Facts, tally: Tally) -> None:
    """Take pairs out of those to keep, counting each once."""
    for row in np.flatnonzero(keep & bad).tolist():
        tally.drop(step, facts.lines[row])
    keep &= ~bad


def _shared(numbers: _Numbers, facts: Mapping[str, _Facts], keep: NDArray[np.bool_]) -> tuple[Shared, ...]:
    found = []
    for name in HELD_OUT:
        if name in facts:
            source, target = numbers.known(name, {"train": keep})
            found.append(Shared(name, int(source.sum()), int(target.sum()), int((source | target).sum())))
    return tuple(found)


def _split(
    folder: Path,
    keep: NDArray[np.bool_],
    missing: list[str],
    held_out: int | None,
    seed: int,
    written: dict[str, tuple[int, str]],
    label: str,
) -> Split | None:
    """Write the training pairs that are kept, without those that go to the missing parts, and those parts."""
    if keep.all() and not missing:
        return None
    stage = (folder / "train.arrow").rename(folder / "stage.arrow")
    flags = " and ".join(f"--{name}" for name in missing)
    part = np.full(len(keep), -1, dtype=np.int8)
    kept = int(keep.sum())
    size = min(kept // 20, 2000) if held_out is None else held_out
    if missing and not size:
        raise UserError(
            f"{label}: {kept:,} pairs are left after cleaning, too few to hold {' and '.join(missing)} out; "
            f"give 20 or more, or files with {flags}"
        )
    groups = grouped(_texts(stage, keep)) if missing else np.zeros(kept, dtype=np.int64)
    part[keep] = deal(groups, (size,) * len(missing), seed)
    for code, name in enumerate(["train", *missing]):
        chosen = part == code
        if not chosen.any():
            raise UserError(
                f"{label}: cannot hold {size:,} of {kept:,} pairs out for {name} so that no sentence is in two parts; "
                f"give files with {flags}, or another number with --held-out"
            )
        written[name] = write_pairs(folder / f"{name}.arrow", _texts(stage, chosen))
    stage.unlink()
    if not missing:
        return None
    return Split(tuple(missing), seed, int(groups.max()) + 1, int(np.bincount(groups).max()))


def _texts(path: Path, chosen: NDArray[np.bool_]) -> Iterator[tuple[str, str]]:
    """Read the chosen pairs of a file."""
    return ((pair.source, pair.target) for pair in compress(MappedPairs.open(path), chosen.tolist()))
