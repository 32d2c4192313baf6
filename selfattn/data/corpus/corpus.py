"""Corpora of real text: files or a dataset of the Hub, cleaned, in three parts that share no sentence with training.

The test part of a run is made again from its settings.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from selfattn.data.corpus.cleaning import CleaningOptions, Tally, clean_rows, is_unlikely
from selfattn.data.corpus.hub import hub_sources
from selfattn.data.pairs import Pair
from selfattn.data.readers import PairSource, RawPair, chosen_columns, file_sha256, file_sources
from selfattn.data.splits import Splits, repeated
from selfattn.errors import SettingError, UserError
from selfattn.streams import generator

_HELD_OUT = ("valid", "test")
_LOOKED_THROUGH = 1_000_000  # pairs of a corpus that subwords are made of
_SAMPLE = 10_000  # pairs of a stream whose median ratio of lengths is used for all
_ADVICE = "name pairs to test on: `data` SOURCE TARGET, or one file of pairs"

_NOT_LETTERS = re.compile(r"[\W_]+")


def loose(text: str) -> str:
    """Return the letters and digits of a text, case ignored; a text without any stays as it is.

    Example:
        >>> loose("I'm tired!") == loose("I’m tired."), loose("?!")
        (True, '?!')
    """
    return _NOT_LETTERS.sub("", text.casefold()) or text


def components_of(pairs: Sequence[Pair]) -> NDArray[np.int64]:
    """Number the connected components of pairs: pairs that share a source or a target, directly or through others.

    Args:
        pairs: compared by `loose`.

    Returns:
        [n] number of each pair's component, from 0 in the order of their first pairs.

    Example:
        >>> components_of([Pair("Hi.", "Salut !"), Pair("Hi!", "Bonjour."), Pair("Go.", "Va !")]).tolist()
        [0, 0, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[tuple[str, str], int] = {}
    sources = [numbers.setdefault(("source", loose(pair.source)), len(numbers)) for pair in pairs]
    targets = [numbers.setdefault(("target", loose(pair.target)), len(numbers)) for pair in pairs]
    edges = np.ones(len(pairs), dtype=np.bool_), (sources, targets)
    graph = coo_array(edges, shape=(len(numbers), len(numbers)))
    labels = connected_components(graph, directed=False)[1][sources]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse], dtype=np.int64)


def hold_out_components(components: NDArray[np.int64], sizes: tuple[int, ...], seed: int = 0) -> NDArray[np.int8]:
    """Assign connected components of pairs to parts.

    Components are taken in a random order, for one part after the other, where they fit. Large components (short
    sentences with many translations) therefore stay in the first part more often than small ones.

    Args:
        components: [n] number of each pair's component.
        sizes: pairs of the second part, the third, and so on.
        seed: of the order; default 0.

    Returns:
        [n] the part of each pair, from 0. A part is smaller than its size only where no component fits any more.

    Example:
        >>> hold_out_components(np.array([0, 0, 1]), (1,)).tolist()
        [0, 0, 1]
    """
    members = np.bincount(components)
    order = torch.randperm(len(members), generator=generator(seed, "split")).tolist()
    parts = np.zeros(len(members), dtype=np.int8)
    for part, free in enumerate(sizes, 1):
        for component in order:
            if not free:
                break
            if not parts[component] and members[component] <= free:
                parts[component] = part
                free -= int(members[component])
    return np.asarray(parts[components])


@dataclass(frozen=True, eq=False)
class PairStream:
    """Clean training pairs in the order of the source, read and cleaned again on every pass.

    Attributes:
        source: read from the start by every iterator.
        options: what to clean; `duplicates` does not apply.
        length_ratio: expected characters of target for one of source; None without a limit.
        held_out: sources, and targets, that are left out.
    """

    source: PairSource
    options: CleaningOptions
    length_ratio: float | None
    held_out: tuple[frozenset[str], frozenset[str]]

    def __iter__(self) -> Iterator[Pair]:
        """Read the pairs from the start."""
        limit = self.options.max_ratio
        for row in clean_rows(self.source.rows(), self.options, Tally("train", self.source.label), limited=True):
            if self.length_ratio and limit and is_unlikely(row, self.length_ratio, limit):
                continue
            if row.source not in self.held_out[0] and row.target not in self.held_out[1]:
                yield Pair(row.source, row.target)


@dataclass(frozen=True)
class CleanCorpus:
    """A clean corpus.

    Attributes:
        train: pairs for training; or a stream, which can be read repeatedly.
        valid: pairs for validation.
        test: pairs for the test.
        notes: what cleaning did, in lines; for a stream, to valid and test.
        settings: where the pairs come from and what was done to them, as values for JSON.
    """

    train: Sequence[Pair] | PairStream
    valid: Sequence[Pair]
    test: Sequence[Pair]
    notes: Sequence[str]
    settings: dict[str, Any]


def read_corpus(
    sources: Mapping[str, PairSource],
    *,
    cleaning: CleaningOptions | None = None,
    streaming: bool = False,
    held_out: int | None = None,
    split_seed: int = 0,
) -> CleanCorpus:
    """Read and clean a corpus.

    Streaming, training pairs are read and cleaned again in every epoch. Repeated pairs then stay in, the length ratio
    is that of the first 10,000 pairs, and valid and test must be given. Otherwise all pairs are held in memory.

    Args:
        sources: from `file_sources` or `hub_sources`.
        cleaning: default `CleaningOptions()`.
        streaming: see above; default False.
        held_out: pairs to hold out from train for each missing part; default: a twentieth, at most 2,000. No
            sentence is in two parts then, on either side; case, spaces and punctuation are ignored.
        split_seed: of the held-out parts; default 0.

    Raises:
        UserError: something cannot be read, or nothing is left of a part; the message says what to do.
    """
    options = cleaning or CleaningOptions()
    missing = [name for name in _HELD_OUT if name not in sources]
    if not missing and (held_out is not None or split_seed):
        raise SettingError("valid and test are given, nothing is held out: leave out `held_out` and `split_seed`")
    if streaming and missing:
        raise SettingError(f"a stream is not divided: give {' and '.join(missing)} too, or leave out `streaming`")
    tallies, rows = {}, {}
    for name, source in sources.items():
        tallies[name] = Tally(name, source.label)
        clean = clean_rows(source.rows(), options, tallies[name], limited=name == "train")
        rows[name] = list(islice(clean, _SAMPLE) if streaming and name == "train" else clean)
        tallies[name].refuse_empty(len(rows[name]))
    parts = {name: _pairs(some) for name, some in rows.items() if name != "train"}
    shared, notes, expected = _texts([pair for part in parts.values() for pair in part]), [], None
    if options.max_ratio is not None:
        expected = float(np.median([len(row.target) / len(row.source) for row in rows["train"]]))
        notes.append(f"target length expected: {expected:.2f} characters for one of the source")
    lines = [line for name, part in parts.items() for line in tallies[name].lines(len(part))]
    settings: dict[str, Any] = {"cleaning": asdict(options), "streaming": streaming}
    settings["sources"] = {name: source.settings for name, source in sources.items()}
    if missing:
        settings |= {"held_out": held_out, "split_seed": split_seed}
    settings["length_ratio"] = expected
    if streaming:
        train = PairStream(sources["train"], options, expected, shared if options.overlap else _texts([]))
        return CleanCorpus(train, parts["valid"], parts["test"], [*lines, *notes], settings)
    pairs, overlaps = _kept(rows.pop("train"), tallies["train"], options, expected, parts, shared)
    tallies["train"].refuse_empty(len(pairs))
    if missing:
        divided, note = _hold_out(pairs, missing, held_out, split_seed, tallies["train"].label)
        pairs, parts, overlaps = divided["train"], parts | divided, [note, *overlaps]
    moved = {name: len(parts[name]) for name in missing}
    settings["parts"] = {name: _identified(part) for name, part in sorted((parts | {"train": pairs}).items())}
    notes = [*tallies["train"].lines(len(pairs), moved), *lines, *overlaps, *notes]
    return CleanCorpus(pairs, parts["valid"], parts["test"], notes, settings)


def _pairs(rows: Iterable[RawPair]) -> list[Pair]:
    return [Pair(row.source, row.target) for row in rows]


def _texts(pairs: Iterable[Pair]) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(pair.source for pair in pairs), frozenset(pair.target for pair in pairs)


def _identified(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the number of pairs, and the SHA-256 of their texts, each followed by a line feed."""
    checksum = hashlib.sha256()
    for pair in pairs:
        checksum.update(f"{pair.source}\n{pair.target}\n".encode())
    return {"pairs": len(pairs), "sha256": checksum.hexdigest()}


def _kept(
    rows: list[RawPair],
    tally: Tally,
    options: CleaningOptions,
    expected: float | None,
    parts: Mapping[str, Sequence[Pair]],
    shared: tuple[frozenset[str], frozenset[str]],
) -> tuple[list[Pair], list[str]]:
    """Return the training pairs to keep, and lines on the pairs that the held-out parts share with train."""

    def left(step: str, is_bad: Callable[[RawPair], bool]) -> list[RawPair]:
        bad = {row.line for row in rows if is_bad(row)}
        for line in sorted(bad):
            tally.drop(step, line)
        return [row for row in rows if row.line not in bad]

    if expected is not None and (limit := options.max_ratio):
        rows = left("length ratio", lambda row: is_unlikely(row, expected, limit))
    if options.duplicates:
        first: dict[tuple[str, str], int] = {}
        for row in rows:
            first.setdefault((row.source, row.target), row.line)
        rows = left("duplicate", lambda row: first[row.source, row.target] != row.line)
    sources, targets = _texts(_pairs(rows)) if parts else (frozenset(), frozenset())
    notes = []
    for name, pairs in parts.items():
        known = [(pair.source in sources, pair.target in targets) for pair in pairs]
        source, target = (sum(side) for side in zip(*known, strict=True))
        either = sum(map(any, known))
        notes.append(f"{name}: {either:,} of its pairs shared with train ({source:,} by source, {target:,} by target)")
    if options.overlap:
        rows = left("shared with valid or test", lambda row: row.source in shared[0] or row.target in shared[1])
    return _pairs(rows), notes


def _hold_out(
    pairs: Sequence[Pair], missing: list[str], held_out: int | None, seed: int, label: str
) -> tuple[dict[str, list[Pair]], str]:
    """Return the pairs of train and of the missing parts, and a line on how they were divided."""
    names, components = " and ".join(f"`{name}`" for name in missing), components_of(pairs)
    size = min(len(pairs) // 20, 2000) if held_out is None else held_out
    if not size:
        raise SettingError(f"{label}: {len(pairs):,} pairs are left, too few to hold out {names}; give more, or files")
    codes = hold_out_components(components, (size,) * len(missing), seed).tolist()
    parts: dict[str, list[Pair]] = {name: [] for name in ("train", *missing)}
    for pair, code in zip(pairs, codes, strict=True):
        parts[["train", *missing][code]].append(pair)
    if empty := [name for name, part in parts.items() if not part]:
        wrong = f"cannot hold {size:,} of {len(pairs):,} pairs out for {empty[0]} so that no sentence is in two parts"
        raise SettingError(f"{label}: {wrong}; give files with {names}, or another number with `held_out`")
    sizes = np.bincount(components)
    return parts, (
        f"{' and '.join(missing)}: held out of train by sentence (seed {seed}): {len(sizes):,} groups of pairs that "
        f"share a source or a target, the largest of {sizes.max():,}, none divided"
    )


class CorpusPairs(Splits):
    """A corpus of real text, cleaned, in three parts.

    Args:
        parts: the clean corpus.
        languages: of source and target.
        seed: of the order in which an epoch that is not the whole corpus goes through it.
    """

    def __init__(self, parts: CleanCorpus, languages: tuple[str, str], seed: int) -> None:
        where = {"kind": "corpus", "source_language": languages[0], "target_language": languages[1]}
        super().__init__(where | parts.settings, f"{_name(parts.settings)}, test part", parts.notes)
        self.parts, self.seed = parts, seed

    def sample(self) -> Sequence[Pair]:
        """Return the first training pairs, for the vocabulary."""
        return list(islice(self.parts.train, _LOOKED_THROUGH))

    def train(self, epoch: int, count: int | None) -> Iterable[Pair]:
        """Return the training part, or the next `count` pairs of an endless run through it in ever new order."""
        train = self.parts.train
        if count is None:
            return train
        if isinstance(train, PairStream):
            raise SettingError("`items_per_epoch` and `quick` are not for streams; give `max_steps` instead")
        return repeated(train, count, start=epoch * count, seed=self.seed)

    def validation(self, count: int) -> list[Pair]:
        """Return the first pairs of the validation part."""
        return list(islice(self.parts.valid, count))

    def test(self, count: int | None) -> list[Pair]:
        """Return the test part, at most `count` pairs."""
        return list(islice(self.parts.test, count))


def read_again(settings: Mapping[str, Any]) -> CorpusPairs:
    """Read the corpus of a run again, for its test part.

    Args:
        settings: of the run's data, as :attr:`CorpusPairs.settings` gave them.

    Raises:
        UserError: the settings are broken, or the corpus is missing or has changed.
    """
    try:
        sources, cleaning = settings["sources"], CleaningOptions(**settings["cleaning"])
        streaming, held_out = bool(settings["streaming"]), settings.get("held_out")
        languages = str(settings["source_language"]), str(settings["target_language"])
        hub, columns = sources["train"].get("hub"), chosen_columns(sources["train"]["columns"] or ())
        files = {name: [Path(file["path"]) for file in source.get("files", ())] for name, source in sources.items()}
        seed = int(settings.get("split_seed", 0))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SettingError(f"evaluate: the settings of the run's data are broken; {_ADVICE}") from None
    try:
        if hub and columns:
            opened = hub_sources(hub, sources["train"].get("config"), columns, streaming=streaming)
        else:
            opened = file_sources(files, columns)
        parts = read_corpus(opened, cleaning=cleaning, streaming=streaming, held_out=held_out, split_seed=seed)
    except UserError as error:
        raise SettingError(f"evaluate: the run's own test part cannot be read: {error}; or {_ADVICE}") from None
    if _identity(parts.settings) != _identity(settings):
        raise SettingError(f"evaluate: {_name(settings)} has changed since this run was trained; {_ADVICE}")
    return CorpusPairs(parts, languages, 0)


def is_held_out_of(settings: Mapping[str, Any], data: Sequence[Path]) -> bool:
    """Return whether a run was trained on these files, with a test part held out of them.

    Raises:
        UserError: a file cannot be read.
    """
    sources = settings.get("sources", {})
    if "test" in sources or "files" not in sources.get("train", {}):
        return False
    return [file_sha256(path) for path in data] == [file["sha256"] for file in sources["train"]["files"]]


def _identity(settings: Mapping[str, Any]) -> Any:
    """Return what identifies the test part: the checksum of its texts, or for a stream its files."""
    return settings["parts"]["test"] if "parts" in settings else settings["sources"]["test"]


def _name(settings: Mapping[str, Any]) -> str:
    sources = settings["sources"]
    source = sources.get("test", sources["train"])
    return str(source["hub"]) if "hub" in source else " ".join(file["path"] for file in source["files"])
