"""Clean corpora on disk: cleaned once from end to end, split, written as Arrow files, and mapped from then on.

The texts go from file to file; of each pair some 50 bytes stay in memory while the corpus is cleaned, and none after.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfattn import codec
from selfattn.data.corpus.cleaning import CleaningOptions, clean_rows, median_ratio, unlikely
from selfattn.data.corpus.cleaning_report import CleaningReport, CleaningStep, HoldOut, PartReport, SharedPairs, Tally
from selfattn.data.corpus.components import components_of, digest, first_of_each, hold_out_components, numbered
from selfattn.data.corpus.hub import quiet
from selfattn.data.corpus.mapped import ArrowFile, MappedPairs, write_pairs
from selfattn.data.corpus.sources import PairSource
from selfattn.errors import SettingError, UserError

HELD_OUT = ("valid", "test")
_VERSION = 2  # of what lies in the cache; another one for every change of cleaning or of the split
_RECORD = "corpus.json"


@dataclass(frozen=True)
class CacheRecord(codec.Plain):
    """What lies in the cache beside the pairs of a clean corpus.

    Attributes:
        report: what cleaning did.
        parts: what was written of each part.
    """

    report: CleaningReport
    parts: dict[str, ArrowFile]


def open_cached(
    settings: Mapping[str, Any], write: Callable[[Path], CacheRecord]
) -> tuple[dict[str, MappedPairs], CacheRecord]:
    """Map a clean corpus from the cache of `datasets`; write it there first, if it is not there yet.

    Args:
        settings: what tells this corpus from any other, as values for JSON.
        write: writes the parts into a folder; see `write_corpus`.

    Returns:
        The pairs of each part, and what was written of them.

    Raises:
        UserError: a source cannot be read, nothing is left of a part, or the cache cannot be written or read.
    """
    import datasets

    key = json.dumps([_VERSION, unicodedata.unidata_version, settings], sort_keys=True)
    cache = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / "selfattn"
    folder = cache / hashlib.sha256(key.encode()).hexdigest()[:32]
    if not (folder / _RECORD).is_file():
        try:
            _fill(folder, write)
        except OSError as error:
            raise UserError(
                f"{cache}: cannot be written ({error.strerror or error}); set HF_DATASETS_CACHE to a folder with room"
            ) from None
    corpus = codec.read(CacheRecord, folder / _RECORD, advice="remove its folder, so that it is made again")
    with quiet():
        return {name: MappedPairs.open(folder / f"{name}.arrow") for name in ("train", *HELD_OUT)}, corpus


def _fill(folder: Path, write: Callable[[Path], CacheRecord]) -> None:
    """Write the folder: first under another name, so that it is there with everything in it or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    try:
        codec.write(beside / _RECORD, write(beside))
        os.chmod(beside, 0o755)
        try:
            beside.rename(folder)
        except OSError:
            if not (folder / _RECORD).is_file():  # else another process was first, with the same
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


class _PairFacts:
    """What is remembered of each pair of a part: its line, and the lengths and the digests of its two texts."""

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


def write_corpus(
    folder: Path,
    sources: Mapping[str, PairSource],
    options: CleaningOptions,
    held_out: int | None = None,
    split_seed: int = 0,
) -> CacheRecord:
    """Clean a corpus and write its parts.

    Args:
        folder: gets ``train.arrow``, ``valid.arrow`` and ``test.arrow``.
        sources: of ``"train"``, and of the held-out parts that are given.
        options: what to clean.
        held_out: how many pairs to hold out from train for each part that is not given; default None: a twentieth,
            at most 2,000.
        split_seed: decides which; default 0.

    Raises:
        UserError: a source cannot be read, or nothing is left of a part.
    """
    tallies = {name: Tally(source.label) for name, source in sources.items()}
    facts = {name: _PairFacts() for name in sources}
    written = {}
    for name, source in sources.items():
        rows = clean_rows(source.rows(), options, tallies[name], limited=name == "train")
        written[name] = write_pairs(folder / f"{name}.arrow", facts[name].of(rows))
        tallies[name].report(name, written[name].pairs).refuse_empty(source.label)
    keep, expected, shared = _keep(facts, tallies["train"], options)
    label = sources["train"].label
    tallies["train"].report("train", int(keep.sum())).refuse_empty(label)
    missing = [name for name in HELD_OUT if name not in sources]
    split = None
    if missing or not keep.all():
        stage = (folder / "train.arrow").rename(folder / "stage.arrow")
        parts = np.zeros(int(keep.sum()), dtype=np.int8)
        if missing:
            components = components_of(_texts(stage, keep))
            parts = _hold_out(components, missing, held_out, split_seed, label)
            sizes = np.bincount(components)
            split = HoldOut(tuple(missing), split_seed, len(sizes), int(sizes.max()))
        for code, name in enumerate(["train", *missing]):
            chosen = keep.copy()
            chosen[keep] = parts == code
            written[name] = write_pairs(folder / f"{name}.arrow", _texts(stage, chosen))
        stage.unlink()
    moved = tuple(CleaningStep(name, written[name].pairs) for name in missing)
    reports = [tallies["train"].report("train", written["train"].pairs, moved)]
    for name in HELD_OUT:
        count = written[name].pairs
        reports.append(tallies[name].report(name, count) if name in tallies else PartReport(name, count, count))
    report = CleaningReport(
        tuple(reports), tuple(shared.get(name, SharedPairs(name, 0, 0, 0)) for name in HELD_OUT), expected, split
    )
    return CacheRecord(report, dict(sorted(written.items())))


def _keep(
    facts: Mapping[str, _PairFacts], tally: Tally, options: CleaningOptions
) -> tuple[NDArray[np.bool_], float | None, dict[str, SharedPairs]]:
    """Mark the training pairs to keep, now that all are known.

    Returns:
        [n] the marks, the ratio of lengths that they were held against, and what the held-out parts share with them.
    """
    train = facts["train"]
    keep = np.ones(len(train.lines), dtype=np.bool_)

    def leave_out(step: str, bad: NDArray[np.bool_]) -> None:
        for row in np.flatnonzero(keep & bad).tolist():
            tally.drop(step, train.lines[row])
        keep[bad] = False

    expected = None
    if options.max_ratio is not None:
        source, target = (np.frombuffer(side, dtype=np.uint32) for side in train.lengths)
        expected = options.length_ratio or median_ratio(source, target)
        leave_out("length ratio", unlikely(source, target, expected, options.max_ratio))
    numbers = _numbers(facts)
    if options.duplicates:
        sources, targets = (side[keep] for side in numbers["train"])
        repeated = np.zeros_like(keep)
        repeated[keep] = ~first_of_each(sources * (int(targets.max(initial=0)) + 1) + targets)
        leave_out("duplicate", repeated)
    held = {name: numbers[name] for name in HELD_OUT if name in numbers}
    shared = {}
    for name, sides in held.items():
        known = [np.isin(own, train_side[keep]) for own, train_side in zip(sides, numbers["train"], strict=True)]
        shared[name] = SharedPairs(name, *(int(side.sum()) for side in (*known, np.logical_or(*known))))
    if options.overlap and held:
        sides_of_all = zip(numbers["train"], *held.values(), strict=True)
        known = [np.isin(own, np.concatenate(others)) for own, *others in sides_of_all]
        leave_out("shared with valid or test", np.logical_or(*known))
    return keep, expected, shared


def _numbers(facts: Mapping[str, _PairFacts]) -> dict[str, tuple[NDArray[np.int64], ...]]:
    """Number the sources and the targets of all parts: the same text has the same number in every part."""
    ends = np.cumsum([len(fact.lines) for fact in facts.values()])[:-1]
    sides = (numbered(b"".join(fact.digests[side] for fact in facts.values())) for side in (0, 1))
    return dict(zip(facts, zip(*(np.split(side, ends) for side in sides), strict=True), strict=True))


def _hold_out(
    components: NDArray[np.int64], missing: list[str], held_out: int | None, seed: int, label: str
) -> NDArray[np.int8]:
    """Return for each pair that is kept its part: 0 for training, then the missing ones."""
    kept = len(components)
    arguments = " and ".join(f"`{name}`" for name in missing)
    size = min(kept // 20, 2000) if held_out is None else held_out
    if not size:
        raise SettingError(
            f"{label}: {kept:,} pairs are left after cleaning, too few to hold {' and '.join(missing)} out; "
            f"give 20 or more, or files with {arguments}"
        )
    parts = hold_out_components(components, (size,) * len(missing), seed)
    for code, name in enumerate(["train", *missing]):
        if not (parts == code).any():
            raise SettingError(
                f"{label}: cannot hold {size:,} of {kept:,} pairs out for {name} so that no sentence is in two parts; "
                f"give files with {arguments}, or another number with `held_out`"
            )
    return parts


def _texts(path: Path, chosen: NDArray[np.bool_]) -> Iterator[tuple[str, str]]:
    """Read the chosen pairs of a file."""
    return ((pair.source, pair.target) for pair in compress(MappedPairs.open(path), chosen.tolist()))
