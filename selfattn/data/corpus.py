"""Corpora of real text: files or a dataset of the Hub, cleaned, in three parts that share no sentence with training.

Each text is cleaned by :func:`selfattn.data.pairs.clean_text`, as every input of a model is. Pairs that are broken, not
UTF-8, empty or too long are left out; once all pairs are known, so are unlikely lengths, repeated pairs and pairs that
held-out parts have.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from selfattn.console import counting
from selfattn.data.pairs import Pair, clean_text
from selfattn.data.readers.pairs import PairSource
from selfattn.data.readers.rows import BadRecord, RawPair, is_encodable
from selfattn.data.splits import FiniteSplits, MixedSplits, Mixture
from selfattn.errors import SettingError, UserError, as_options, number_of, say
from selfattn.processes import paused_collector
from selfattn.streams import generator

_SHORT = 10.0  # characters added to both lengths before they are compared: ratios of short texts vary by chance


@dataclass(frozen=True)
class CleaningOptions:
    """What to clean. No limit applies to valid and test, so that scores are those of the complete files.

    Attributes:
        max_characters: longest text of either side in a training pair; default 1,000; None for no limit.
        max_ratio: how many times longer or shorter than expected the target of a training pair may be; default 3;
            None for no limit. See `is_unlikely`.
        duplicates: leave out repeated training pairs; default True.
        overlap: leave out training pairs whose source or target stands in valid or test; default True.
    """

    max_characters: int | None = 1000
    max_ratio: float | None = 3.0
    duplicates: bool = True
    overlap: bool = True


class Tally:
    """Counts of what cleaning did to one part, with the first place of each step.

    Args:
        part: ``"train"``, ``"valid"`` or ``"test"``.
        label: start of the places, such as the file's name.

    Attributes:
        read: lines or records read.
        dropped: number of lines left out by each step; a line counts for the first step only.

    Example:
        >>> tally = Tally("train", "a.tsv")
        >>> tally.read = 2
        >>> tally.drop("broken", BadRecord(2, "1 column(s), not 2"), "1 column(s), not 2")
        >>> print("\\n".join(tally.lines(1)))
        train: 2 read, 1 kept, 1 left out
          left out, broken: 1 (first a.tsv:2 1 column(s), not 2)
    """

    def __init__(self, part: str, label: str) -> None:
        self.part = part
        self.label = label
        self.read = 0
        self.dropped: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def drop(self, step: str, row: RawPair | BadRecord, detail: str = "") -> None:
        """Count the lines of a row that a step leaves out."""
        self.dropped[step] += row.lines if isinstance(row, BadRecord) else 1
        self._first.setdefault(step, f"{row.file or self.label}:{row.line} {detail}".rstrip())

    def lines(self, pairs: int, moved: Mapping[str, int] | None = None) -> list[str]:
        """Return the counts as text.

        Args:
            pairs: number of pairs in the part now.
            moved: pairs that were held out of this part, by part; default none.
        """
        parts = "".join(f", {count:,} moved to {name}" for name, count in (moved or {}).items())
        counts = f"{self.part}: {self.read:,} read, {pairs:,} kept, {self.dropped.total():,} left out{parts}"
        return [counts, *(f"  left out, {step}" for step in self.steps())]

    def refuse_empty(self, pairs: int, about: Callable[[], Sequence[str]] = tuple) -> None:
        """Raise where no pair is left.

        Args:
            pairs: number of pairs in the part now.
            about: says how its files are understood; see `PairSource`.

        Raises:
            UserError: with the counts and the first places.
        """
        if not pairs:
            steps = "; ".join(self.steps()) or "there was none"
            understood = "".join(f"; {line}" for line in about())
            raise UserError(f"{self.label}: no pair is left for {self.part} after cleaning ({steps}){understood}")

    def steps(self) -> list[str]:
        """Return how many lines each step left out, with the first place."""
        return [f"{step}: {count:,} (first {self._first[step]})" for step, count in self.dropped.items()]


def clean_rows(
    rows: Iterable[RawPair | BadRecord], options: CleaningOptions, tally: Tally, *, limited: bool
) -> Iterator[RawPair]:
    """Clean pairs one by one, and count in the tally what is left out.

    Args:
        rows: as read.
        options: what to clean.
        tally: of the part.
        limited: whether `max_characters` applies, as it does for training pairs.

    Returns:
        The pairs that are kept, clean, in order.
    """
    for row in rows:
        if isinstance(row, BadRecord):
            tally.read += row.lines
            tally.drop("broken", row, row.reason)
            continue
        tally.read += 1
        if not is_encodable(row.source, row.target):
            tally.drop("invalid UTF-8", row)
            continue
        source = clean_text(row.source)
        target = clean_text(row.target)
        tag = clean_text(row.tag) if row.tag else ""
        longest = max(len(source), len(target))
        if not source or not target:
            tally.drop("empty", row)
        elif limited and options.max_characters and longest > options.max_characters:
            tally.drop("too long", row, f"{longest:,} characters")
        elif source == row.source and target == row.target and tag == row.tag:
            yield row
        else:
            yield RawPair(row.line, source, target, row.file, tag)


def is_unlikely(pair: RawPair, expected: float, limit: float) -> bool:
    """Tell whether a target is more than `limit` times longer, or shorter, than its source lets expect.

    10 characters are added to both lengths first, so that "Hi." may become "안녕하세요.".

    Args:
        pair: a clean pair.
        expected: characters of target for one of source, such as the median of a corpus.
        limit: at least 1.

    Example:
        >>> [is_unlikely(RawPair(1, 30 * "a", n * "b"), expected=0.5, limit=4) for n in (5, 91)]
        [False, True]
    """
    expected_target = expected * len(pair.source) + _SHORT
    actual = len(pair.target) + _SHORT
    return actual > limit * expected_target or expected_target > limit * actual


_MANY = 500_000  # pairs from which on streaming is proposed
_SAMPLE = 10_000  # pairs of a stream whose median ratio of lengths is used for all
_ADVICE = "name pairs to test on: `data` SOURCE TARGET, or one file of pairs"

# Of ASCII, what is neither a letter nor a digit, but for the line feed.
_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum() and chr(code) != "\n")
_BLOCK = 1000  # pairs whose texts are hashed together


def loose(texts: Sequence[str]) -> list[str]:
    """Return the letters and digits of each text, case ignored; a text without any stays as it is.

    Args:
        texts: clean, so without line feeds.

    Example:
        >>> loose(["I'm tired!", "I’m tired.", "?!"])
        ['imtired', 'imtired', '?!']
    """
    kept = "\n".join(texts).casefold().encode("utf-8", "surrogatepass").translate(None, _SIGNS)
    lines = kept.decode("utf-8", "surrogatepass").split("\n")
    # Further signs than those of ASCII are rare, and take several times as long.
    found = [line if line.isalnum() else "".join(filter(str.isalnum, line)) for line in lines]
    return [letters or text for letters, text in zip(found, texts, strict=True)]


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

    sources = _numbered(pair.source for pair in pairs)
    targets = _numbered(pair.target for pair in pairs) + len(pairs)
    edges = np.ones(len(pairs), dtype=np.bool_), (sources, targets)
    graph = coo_array(edges, shape=(2 * len(pairs), 2 * len(pairs)))
    labels = connected_components(graph, directed=False)[1][sources]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse], dtype=np.int64)


def _numbered(texts: Iterable[str]) -> NDArray[np.int64]:
    """Number texts, those alike by `loose` the same, from 0.

    Their hashes stand for texts: with a million texts, the chance is 1 in 30 million that two of them have the same
    one, which then only keeps their pairs in one part.
    """
    hashes = array("q")
    stream = iter(texts)
    while block := list(islice(stream, _BLOCK)):
        hashes.extend(map(hash, loose(block)))
    numbers = np.unique(np.frombuffer(hashes, dtype=np.int64), return_inverse=True)[1]
    return np.asarray(numbers, dtype=np.int64)


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
        options: what to clean.
        length_ratio: expected characters of target for one of source; None without a limit.
        held_out: sources, and targets, of the held-out parts.
        passes: number of pairs of every complete pass so far; behind the first one, the cleaning report is told.
    """

    source: PairSource
    options: CleaningOptions
    length_ratio: float | None
    held_out: tuple[frozenset[str], frozenset[str]]
    passes: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Pair]:
        """Read the pairs from the start, repeated ones as often as they come."""
        tally = Tally("train", self.source.label)
        count = 0
        for pair in self.pairs(
            clean_rows(self.source.rows(), self.options, tally, limited=True), tally, duplicates=True
        ):
            count += 1
            yield pair
        if not self.passes:
            for line in tally.lines(count):
                say(line)
        self.passes.append(count)

    def pairs(self, rows: Iterable[RawPair], tally: Tally, *, duplicates: bool) -> Iterator[Pair]:
        """Leave out pairs of unlikely lengths, repeated pairs, and pairs with a text of the held-out parts.

        Args:
            rows: clean.
            tally: counts what is left out.
            duplicates: keep repeated pairs, and none in memory.
        """
        seen: set[Pair] = set()  # of texts alone; most pairs are nothing more, and take no memory twice
        ratio = self.length_ratio
        limit = self.options.max_ratio
        for row in rows:
            pair = Pair(row.source, row.target, row.tag)
            texts = Pair(row.source, row.target) if row.tag else pair
            if ratio and limit and is_unlikely(row, ratio, limit):
                tally.drop("length ratio", row)
            elif texts in seen:
                tally.drop("duplicate", row)
            elif self.options.overlap and (row.source in self.held_out[0] or row.target in self.held_out[1]):
                tally.drop("shared with valid or test", row)
            else:
                yield pair
            if not duplicates:
                seen.add(texts)


@paused_collector()
def read_corpus(
    sources: Mapping[str, PairSource],
    languages: tuple[str, str],
    seed: int = 0,
    *,
    cleaning: CleaningOptions,
    streaming: bool = False,
    held_out: int | None = None,
    split_seed: int = 0,
    test_set: str = "",
    further: Mapping[str, PairSource] | None = None,
    mixture: Mixture | None = None,
) -> FiniteSplits:
    """Read and clean a corpus.

    Streaming, training pairs are read and cleaned again in every epoch. Repeated pairs then stay in, the length ratio
    is that of the first 10,000 pairs, and valid and test must be given. Otherwise all pairs are held in memory.

    Args:
        sources: `PairFiles`, or what `hub_sources` returns, for ``"train"``, and for ``"valid"`` and ``"test"`` where
            they are not held out of train.
        languages: of source and target.
        seed: see `FiniteSplits`; default 0.
        cleaning: what to clean.
        streaming: see above; default False.
        held_out: pairs to hold out from train for each missing part; default: a twentieth, at most 2,000. No
            sentence is in two parts then, on either side; case, spaces and punctuation are ignored.
        split_seed: of the held-out parts; default 0.
        test_set: name of the test part, which decides, where there are further ones; default none.
        further: further test sets by name; default none.
        mixture: shares of the corpora that the training part consists of, whose labels are the files of its records;
            default all pairs once an epoch. Not for streams.

    Raises:
        UserError: something cannot be read, or nothing is left of a part; the message says what to do.
    """
    missing = [name for name in ("valid", "test") if name not in sources]
    if not missing and (held_out is not None or split_seed):
        raise SettingError("valid and test are given, nothing is held out: leave out `held_out` and `split_seed`")
    if streaming and missing:
        raise SettingError(f"a stream is not divided: give {' and '.join(missing)} too, or leave out `streaming`")
    tallies = {}
    rows = {}
    tests = {f"test {name}": source for name, source in (further or {}).items()}
    for name, source in (*sources.items(), *tests.items()):
        tallies[name] = Tally(name, source.label)
        records = counting(source.rows(), f"reading {source.label}: pairs")
        clean = clean_rows(records, cleaning, tallies[name], limited=name == "train")
        rows[name] = list(islice(clean, _SAMPLE) if streaming and name == "train" else clean)
        tallies[name].refuse_empty(len(rows[name]), source.about)
    train = rows.pop("train")
    copies = copied_note(train)
    parts: dict[str, Any] = {}
    notes: list[str] = []
    held_out_texts: list[Pair] = []
    for name, part in rows.items():
        parts[name] = [Pair(row.source, row.target, row.tag) for row in part]
        notes += tallies[name].lines(len(part))
        held_out_texts += parts[name]
    expected = None
    if cleaning.max_ratio is not None:
        expected = float(np.median([len(row.target) / len(row.source) for row in train]))
    settings: dict[str, Any] = {"kind": "corpus", "source_language": languages[0], "target_language": languages[1]}
    settings |= {"cleaning": asdict(cleaning), "streaming": streaming}
    settings["sources"] = {name: source.settings for name, source in sources.items()}
    if further:
        settings["test_set"] = test_set
        settings["further_tests"] = {name: source.settings for name, source in further.items()}
        notes.insert(0, f"test set {test_set} decides; further test sets: {', '.join(further)}")
    beside = {name: parts[f"test {name}"] for name in further or ()}
    if missing:
        settings |= {"held_out": held_out, "split_seed": split_seed}
    settings["length_ratio"] = expected
    texts = frozenset(pair.source for pair in held_out_texts), frozenset(pair.target for pair in held_out_texts)
    stream = PairStream(sources["train"], cleaning, expected, texts)
    if streaming:
        notes = [*_first_report(stream, train, tallies["train"]), *copies, *notes]
        return FiniteSplits(parts | {"train": stream}, seed, settings, _name(settings), notes, beside)
    read = _taken_out(train) if mixture is None else train  # a mixture asks for the file of each
    pairs = list(stream.pairs(read, tallies["train"], duplicates=not cleaning.duplicates))
    tallies["train"].refuse_empty(len(pairs), sources["train"].about)
    parts |= _hold_out(pairs, missing, held_out, split_seed, tallies["train"]) if missing else {"train": pairs}
    settings["parts"] = {name: _identified(part) for name, part in sorted(parts.items())}
    if len(pairs) > _MANY:
        advice = "`streaming`, with `valid` and `test`, reads them during the training in constant memory"
        notes.append(as_options(f"train: {len(pairs):,} pairs are held in memory; {advice}"))
    moved = {name: len(parts[name]) for name in missing}
    notes = [*tallies["train"].lines(len(parts["train"]), moved), *copies, *notes]
    for source in (*sources.values(), *tests.values()):
        notes += [f"  {line}" for line in source.about()]
    if mixture is None:
        return FiniteSplits(parts, seed, settings, _name(settings), notes, beside)
    mixed = MixedSplits(parts, seed, settings, _name(settings), notes, beside)
    mixed.mix(mixture, {(row.source, row.target): row.file for row in reversed(train)})
    return mixed


def _taken_out(rows: list[RawPair]) -> Iterator[RawPair]:
    """Yield the rows of a list in their order and take them out, so that each is freed at once."""
    rows.reverse()
    while rows:
        yield rows.pop()


def copied_note(pairs: Sequence[RawPair]) -> list[str]:
    """Return a line that warns where more than half of the targets are their sources; none otherwise.

    Either the task is to copy, or one side was read twice.

    Example:
        >>> copied_note([RawPair(1, "a", "a"), RawPair(2, "b", "b"), RawPair(3, "c", "d")])
        ['warning: the target is the source in 2 of 3 training pairs; unless that is the task, check files and columns']
    """
    count = sum(pair.source == pair.target for pair in pairs)
    if 2 * count <= len(pairs):
        return []
    share = f"{count:,} of {number_of(len(pairs), 'training pair')}"
    return [f"warning: the target is the source in {share}; unless that is the task, check files and columns"]


def _first_report(stream: PairStream, first: list[RawPair], tally: Tally) -> list[str]:
    """Return lines about the first pairs of a stream; the stream itself tells the full report behind its first pass.

    Args:
        stream: of the training pairs.
        first: pairs, before repeated texts and those of other parts are left out.
        tally: of these pairs.
    """
    if len(first) < _SAMPLE:  # all of them
        return ["train: streamed, so it is read and cleaned again in every epoch"]
    kept = sum(1 for _ in stream.pairs(first, tally, duplicates=True))
    note = f"train: streamed, so cleaning reports behind the first pass; of the first {len(first):,} pairs:"
    return [note, *(f"  {line}" for line in tally.lines(kept))]


def _identified(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the number of pairs, and the SHA-256 of their texts, each followed by a line feed."""
    checksum = hashlib.sha256()
    for start in range(0, len(pairs), _BLOCK):
        texts = "".join([f"{pair.source}\n{pair.target}\n" for pair in pairs[start : start + _BLOCK]])
        checksum.update(texts.encode())
    return {"pairs": len(pairs), "sha256": checksum.hexdigest()}


def _hold_out(
    pairs: Sequence[Pair], missing: list[str], held_out: int | None, seed: int, tally: Tally
) -> dict[str, list[Pair]]:
    """Return the pairs of train and of the missing parts."""
    size = min(len(pairs) // 20, 2000) if held_out is None else held_out
    codes = hold_out_components(components_of(pairs), (size,) * len(missing), seed).tolist()
    parts: dict[str, list[Pair]] = {name: [] for name in ("train", *missing)}
    for pair, code in zip(pairs, codes, strict=True):
        parts[["train", *missing][code]].append(pair)
    if empty := [name for name, part in parts.items() if not part]:
        wrong = f"cannot hold {size:,} of {len(pairs):,} pairs out for {empty[0]} so that no sentence is in two parts"
        sources = len({pair.source for pair in pairs})
        targets = len({pair.target for pair in pairs})
        counts = [f"{tally.read:,} read", *tally.steps(), f"different sources: {sources:,}, targets: {targets:,}"]
        advice = "give `valid` and `test`, more pairs, or another number with `held_out`"
        raise SettingError(f"{tally.label}: {wrong} ({'; '.join(counts)}); {advice}")
    return parts


def _name(settings: Mapping[str, Any]) -> str:
    sources = settings["sources"]
    source = sources.get("test", sources["train"])
    return str(source["hub"]) if "hub" in source else " ".join(file["path"] for file in source["files"])
