"""Clean corpora on disk: cleaned once, split, written as Arrow files, and mapped into memory from then on.

While a corpus is cleaned, some 40 bytes of each pair stay in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from selfattn import codec
from selfattn.data.corpus.cleaning import CleaningOptions, Tally, clean_rows, median_ratio, unlikely
from selfattn.data.corpus.components import components_of, digest, hold_out_components
from selfattn.data.corpus.hub import quiet
from selfattn.data.pairs import Pair
from selfattn.data.readers.records import PairSource
from selfattn.errors import SettingError, UserError

if TYPE_CHECKING:
    from datasets import Dataset

HELD_OUT = ("valid", "test")
_VERSION = 4  # of the cache; changes with the cleaning and the split
_RECORD = "corpus.json"
_ROWS = 1000  # rows read or written at once

# Rows: line, characters of source and target, digests of source and target. Columns: the pairs of a part.
Facts = NDArray[np.uint64]


class MappedPairs(Sequence[Pair]):
    """The pairs of a dataset with the columns ``source`` and ``target``; a slice is a list.

    Args:
        dataset: mapped into memory, so that it may be of any size.

    Example:
        >>> from datasets import Dataset
        >>> pairs = MappedPairs(Dataset.from_dict({"source": ["a", "b", "c"], "target": ["1", "2", "3"]}))
        >>> len(pairs), pairs[-1].target, [pair.source for pair in pairs[:2]]
        (3, '3', ['a', 'b'])
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

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
        """Iterate over all pairs in their order, reading some at once."""
        for start in range(0, len(self), _ROWS):
            yield from self[start : start + _ROWS]


@dataclass(frozen=True)
class ArrowFile(codec.Plain):
    """What was written to an Arrow file.

    Attributes:
        pairs: number of pairs.
        sha256: of their texts, in hexadecimal digits: each text in UTF-8 with a line feed behind it, source before
            target.
    """

    pairs: int
    sha256: str


@dataclass(frozen=True)
class CacheRecord(codec.Plain):
    """What lies in the cache beside the pairs of a clean corpus.

    Attributes:
        notes: what cleaning did, in lines.
        parts: the files of the parts.
        length_ratio: expected characters of target for one of source; None without that limit.
    """

    notes: tuple[str, ...]
    parts: dict[str, ArrowFile]
    length_ratio: float | None = None


def open_cached(
    settings: Mapping[str, Any], write: Callable[[Path], CacheRecord]
) -> tuple[dict[str, MappedPairs], CacheRecord]:
    """Map a clean corpus from the cache of `datasets`; write it there first if it is missing.

    Args:
        settings: JSON values that identify the corpus.
        write: writes the parts into a folder; see `write_corpus`.

    Returns:
        The pairs of each part, and the record.

    Raises:
        UserError: a source cannot be read, a part is empty, or the cache cannot be written or read.
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
                f"{cache}: cannot be written ({error.strerror or error}); set HF_DATASETS_CACHE to a writable folder"
            ) from None
    record = codec.read(CacheRecord, folder / _RECORD, advice="remove its folder, so that it is made again")
    with quiet():
        return {name: _mapped(folder / f"{name}.arrow") for name in ("train", *HELD_OUT)}, record


def _fill(folder: Path, write: Callable[[Path], CacheRecord]) -> None:
    """Write the folder under another name and rename it, so that it is complete or missing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    try:
        codec.write(beside / _RECORD, write(beside))
        os.chmod(beside, 0o755)
        try:
            beside.rename(folder)
        except OSError:
            if not (folder / _RECORD).is_file():  # otherwise another process was first, with the same content
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_corpus(
    folder: Path, sources: Mapping[str, PairSource], options: CleaningOptions, held_out: int | None, split_seed: int
) -> CacheRecord:
    """Clean a corpus and write its parts.

    Args:
        folder: gets ``train.arrow``, ``valid.arrow`` and ``test.arrow``.
        sources: of ``"train"``, and of the held-out parts that the user named.
        options: what to clean.
        held_out: pairs to hold out from train for each missing part; None: a twentieth, at most 2,000.
        split_seed: of the held-out parts.

    Raises:
        UserError: a source cannot be read, or a part is empty.
    """
    tallies = {name: Tally(name, source.label) for name, source in sources.items()}
    facts, written = {}, {}
    for name, source in sources.items():
        rows = clean_rows(source.rows(), options, tallies[name], limited=name == "train")
        values = array("Q")
        written[name] = _write_pairs(folder / f"{name}.arrow", _noted(rows, values))
        tallies[name].refuse_empty(written[name].pairs)
        facts[name] = np.frombuffer(values, np.uint64).reshape(-1, 5).T
    keep, expected, shared = _keep(facts, tallies["train"], options)
    tallies["train"].refuse_empty(int(keep.sum()))
    missing, notes = [name for name in HELD_OUT if name not in sources], []
    stage = (folder / "train.arrow").rename(folder / "stage.arrow")
    parts = np.zeros(int(keep.sum()), dtype=np.int8)
    if missing:
        components = components_of(_texts(stage, keep))
        parts = _hold_out(components, missing, held_out, split_seed, tallies["train"].label)
        sizes = np.bincount(components)
        notes = [
            f"{' and '.join(missing)}: held out of train by sentence (seed {split_seed}): {len(sizes):,} groups of "
            f"pairs that share a source or a target, the largest of {sizes.max():,}, none divided"
        ]
    for code, name in enumerate(["train", *missing]):
        chosen = keep.copy()
        chosen[keep] = parts == code
        written[name] = _write_pairs(folder / f"{name}.arrow", _texts(stage, chosen))
    stage.unlink()
    lines = tallies["train"].lines(written["train"].pairs, {name: written[name].pairs for name in missing})
    lines += [line for name in sources if name != "train" for line in tallies[name].lines(written[name].pairs)]
    if expected is not None:
        shared.append(f"target length expected: {expected:.2f} characters for one of the source")
    return CacheRecord((*lines, *notes, *shared), dict(sorted(written.items())), expected)


def _noted(pairs: Iterable[tuple[int, str, str]], values: array[int]) -> Iterator[tuple[str, str]]:
    """Pass pairs on, and append their `Facts`."""
    for line, source, target in pairs:
        values.extend((line, len(source), len(target), digest(source), digest(target)))
        yield source, target


def _keep(
    facts: Mapping[str, Facts], tally: Tally, options: CleaningOptions
) -> tuple[NDArray[np.bool_], float | None, list[str]]:
    """Mark the training pairs to keep.

    Returns:
        [n] the marks, the expected ratio of lengths, and lines on the pairs that the held-out parts share with train.
    """
    lines, sources, targets, *_ = facts["train"]
    digests = facts["train"][3:]
    keep, expected, notes = np.ones(len(lines), dtype=np.bool_), None, []

    def leave_out(step: str, bad: NDArray[np.bool_]) -> None:
        for row in np.flatnonzero(keep & bad).tolist():
            tally.drop(step, int(lines[row]))
        keep[bad] = False

    if options.max_ratio is not None:
        expected = median_ratio(sources, targets)
        leave_out("length ratio", unlikely(sources, targets, expected, options.max_ratio))
    if options.duplicates:
        rows = np.flatnonzero(keep)
        repeated = keep.copy()
        repeated[rows[np.unique(digests[:, rows], axis=1, return_index=True)[1]]] = False
        leave_out("duplicate", repeated)
    held = {name: facts[name][3:] for name in HELD_OUT if name in facts}
    for name, sides in held.items():
        known = [np.isin(side, train[keep]) for side, train in zip(sides, digests, strict=True)]
        source, target, either = (int(marks.sum()) for marks in (*known, known[0] | known[1]))
        notes.append(f"{name}: {either:,} of its pairs shared with train ({source:,} by source, {target:,} by target)")
    if options.overlap and held:
        others = np.concatenate(list(held.values()), axis=1)
        leave_out("shared with valid or test", np.isin(digests[0], others[0]) | np.isin(digests[1], others[1]))
    return keep, expected, notes


def _hold_out(
    components: NDArray[np.int64], missing: list[str], held_out: int | None, seed: int, label: str
) -> NDArray[np.int8]:
    """Return the part of each pair: 0 for training, then the missing parts."""
    pairs, names = len(components), " and ".join(f"`{name}`" for name in missing)
    size = min(pairs // 20, 2000) if held_out is None else held_out
    if not size:
        raise SettingError(
            f"{label}: {pairs:,} pairs are left after cleaning, too few to hold {' and '.join(missing)} out; "
            f"give 20 or more, or files with {names}"
        )
    parts = hold_out_components(components, (size,) * len(missing), seed)
    for code, name in enumerate(["train", *missing]):
        if not (parts == code).any():
            raise SettingError(
                f"{label}: cannot hold {size:,} of {pairs:,} pairs out for {name} so that no sentence is in two parts; "
                f"give files with {names}, or another number with `held_out`"
            )
    return parts


def _write_pairs(path: Path, pairs: Iterable[tuple[str, str]]) -> ArrowFile:
    """Write sources and targets to an Arrow file, some at a time."""
    import pyarrow as pa

    schema = pa.schema([("source", pa.string()), ("target", pa.string())])
    checksum, count, rest = hashlib.sha256(), 0, iter(pairs)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        while rows := list(islice(rest, _ROWS)):
            count += len(rows)
            checksum.update("".join(f"{source}\n{target}\n" for source, target in rows).encode())
            writer.write_batch(pa.record_batch(list(map(list, zip(*rows, strict=True))), schema=schema))
    return ArrowFile(count, checksum.hexdigest())


def _mapped(path: Path) -> MappedPairs:
    from datasets import Dataset

    return MappedPairs(Dataset.from_file(str(path)))


def _texts(path: Path, chosen: NDArray[np.bool_]) -> Iterator[tuple[str, str]]:
    """Read the chosen pairs of a file."""
    return ((pair.source, pair.target) for pair in compress(_mapped(path), chosen.tolist()))
