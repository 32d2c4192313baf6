"""Splits: pairs in three parts, generated, from a finite list, or from several corpora in chosen shares."""

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, TypeVar

from selfattn.data.pairs import Pair, clean_pair
from selfattn.errors import SettingError, UserError, number_of
from selfattn.streams import generator, seed_for

Split = Literal["train", "valid", "test"]
"""The three parts of any data."""


def split_at(place: int) -> Split:
    """Return the part of a place among equal shares of generated data: the first is test, the second valid.

    Example:
        >>> [split_at(place) for place in range(4)]
        ['test', 'valid', 'train', 'train']
    """
    if place == 0:
        return "test"
    return "valid" if place == 1 else "train"


BOOK_SEED = 1984
_SPLIT_SEED = 0  # the same for every run, so that all runs have the same parts
_SAMPLE = 5_000  # generated pairs that the vocabulary and the longest output are taken from
_LOOKED_THROUGH = 1_000_000  # training pairs that the vocabulary is taken from
_IN_VAIN = 20_000  # draws without a new pair, after which there are taken to be no more

_Item = TypeVar("_Item")


class Splits(ABC):
    """Pairs in three parts: training, validation, test.

    Args:
        settings: plain JSON values from which the same data can be made.
        name: of the test part, in reports.
        notes: lines to show when the data are used; default none.
    """

    def __init__(self, settings: Mapping[str, Any], name: str, notes: Sequence[str] = ()) -> None:
        self.settings = dict(settings)
        self.name = name
        self.notes = notes

    is_same_each_epoch = True  # without a number of pairs, every epoch has the same pairs

    @abstractmethod
    def sample(self) -> Sequence[Pair]:
        """Return training pairs for the vocabulary; the same for every seed."""

    @abstractmethod
    def train(self, epoch: int, count: int | None) -> Iterable[Pair]:
        """Return `count` training pairs of an epoch (from 0); all of them for None."""

    @abstractmethod
    def validation(self, count: int) -> list[Pair]:
        """Return validation pairs, at most `count`."""

    @abstractmethod
    def test(self, count: int | None) -> list[Pair]:
        """Return test pairs, at most `count` (None: all); the same for every seed."""

    def fresh_test(self, count: int | None, draw: int) -> list[Pair]:
        """Return another draw of the test part, to confirm a result of the first.

        Args:
            count: as of `test`.
            draw: its number, at least 1.

        Raises:
            SettingError: the test part is finite.
        """
        raise SettingError(f"`test_draw`: {self.name} has one test part, of which no other can be drawn; leave it out")

    def probes(self) -> Mapping[str, Sequence[Pair]]:
        """Return further unseen pairs by name, such as dates of unseen years; default none."""
        return {}

    def further_tests(self) -> Mapping[str, Sequence[Pair]]:
        """Return further test sets by name, beside the one that decides; default none."""
        return {}

    def known(self) -> Sequence[Pair] | None:
        """Return all pairs outside the test part; None where training and test cannot share a pair."""
        return None


class EndlessSplits(Splits):
    """Endless pairs: every epoch is new; validation and test are the same for every seed.

    Args:
        settings: see `Splits`.
        name: see `Splits`.
        seed: of the training pairs.
    """

    def __init__(self, settings: Mapping[str, Any], name: str, seed: int) -> None:
        super().__init__(settings, name)
        self.seed = seed

    @abstractmethod
    def draw(self, part: Split, seed: int, epoch: int, count: int) -> Sequence[Pair]:
        """Return `count` pairs of a part; pairs for validation and test are distinct."""

    def train(self, epoch: int, count: int | None) -> Sequence[Pair]:
        """Return new pairs for an epoch; `count` is required."""
        return self.draw("train", self.seed, epoch, self._required(count, "items_per_epoch"))

    def validation(self, count: int) -> list[Pair]:
        """Return the first validation pairs."""
        return list(self.draw("valid", 0, 0, count))

    def test(self, count: int | None) -> list[Pair]:
        """Return the first test pairs; `count` is required."""
        return list(self.draw("test", 0, 0, self._required(count, "test_items")))

    def fresh_test(self, count: int | None, draw: int) -> list[Pair]:
        """Return test pairs of another seed; draws may share a few pairs."""
        return list(self.draw("test", draw, 0, self._required(count, "test_items")))

    def _required(self, count: int | None, setting: str) -> int:
        if count is None:
            raise SettingError(f"the pairs of {self.name} are endless: give `{setting}`")
        return count


class GeneratedSplits(EndlessSplits):
    """Endless pairs from a function, cleaned. The parts share no source, and every epoch is new.

    Args:
        make: draws a pair.
        seed: of the training pairs; validation and test are the same for every seed.
        settings: what makes the same data again.
        make_test: draws a pair of the test; default as all others.
    """

    def __init__(
        self,
        make: Callable[[random.Random], Pair],
        seed: int,
        settings: Mapping[str, Any],
        make_test: Callable[[random.Random], Pair] | None = None,
    ) -> None:
        super().__init__(settings, "generated pairs", seed)
        self._make = {"train": make, "valid": make, "test": make_test or make}

    def sample(self) -> Sequence[Pair]:
        """Training pairs of seed 0."""
        return self._sample

    @cached_property
    def _sample(self) -> Sequence[Pair]:
        return self.draw("train", 0, 0, _SAMPLE)

    def draw(self, part: Split, seed: int, epoch: int, count: int) -> list[Pair]:
        """Draw pairs until the part is full or no new pair has come for long."""
        chance = random.Random(seed_for(seed, f"data/{part}/{epoch}"))
        pairs: list[Pair] = []
        seen: set[str] = set()
        in_vain = 0
        while len(pairs) < count and in_vain < _IN_VAIN:
            pair = clean_pair(self._make[part](chance))
            in_vain += 1
            # Its text chooses the part: one twentieth each for validation and test.
            place = hashlib.sha256(pair.source.encode()).digest()[0] % 20
            if split_at(place) == part and (part == "train" or pair.source not in seen):
                seen.add(pair.source)
                pairs.append(pair)
                in_vain = 0
        if not pairs:
            raise UserError(f"{part}: of {_IN_VAIN:,} pairs none falls into this part; let more of them differ")
        return pairs


class FiniteSplits(Splits):
    """Pairs in three finite parts, the same for every seed.

    Args:
        parts: pairs of ``"train"``, ``"valid"`` and ``"test"``. Training pairs that are no sequence are a stream, which
            is read again in every epoch.
        seed: of the order in which an epoch that is not the complete training part goes through it.
        settings: see `Splits`.
        name: of the data.
        notes: see `Splits`; default none.
        further: further test sets by name; default none.
    """

    def __init__(
        self,
        parts: Mapping[str, Any],
        seed: int,
        settings: Mapping[str, Any],
        name: str,
        notes: Sequence[str] = (),
        further: Mapping[str, Sequence[Pair]] | None = None,
    ) -> None:
        super().__init__(settings, f"{name}, test part", notes)
        self.parts = parts
        self.seed = seed
        self._further = further or {}

    def sample(self) -> Sequence[Pair]:
        """Return the training part, at most its first million pairs."""
        return list(islice(self.parts["train"], _LOOKED_THROUGH))

    def train(self, epoch: int, count: int | None) -> Iterable[Pair]:
        """Return the training part, or the next `count` pairs of an endless run through it in ever new order."""
        train: Iterable[Pair] = self.parts["train"]
        if count is None:
            return train
        if not isinstance(train, Sequence):
            raise SettingError("`items_per_epoch` and `quick` are not for streams; give `max_steps` instead")
        return next_items(train, count, start=epoch * count, seed=self.seed)

    def validation(self, count: int) -> list[Pair]:
        """Return the first pairs of the validation part."""
        return list(self.parts["valid"][:count])

    def test(self, count: int | None) -> list[Pair]:
        """Return the test part, at most `count` pairs."""
        return list(self.parts["test"][:count])

    def further_tests(self) -> Mapping[str, Sequence[Pair]]:
        """Return the further test sets."""
        return self._further

    def known(self) -> Sequence[Pair] | None:
        """Return training and validation pairs."""
        return [*self.parts["train"], *self.parts["valid"]]


def split_pairs(
    pairs: Sequence[Pair],
    seed: int,
    validation_items: int,
    settings: Mapping[str, Any],
    name: str,
    *,
    book: bool = False,
) -> FiniteSplits:
    """Split a finite list of pairs into three parts.

    A tenth is for the test, then some for validation, the rest for training. The book's file has its own split
    (`book_split`), and its validation pairs are the last of its training part. Other pairs are split by their sources
    (`hold_out`), so that repeated sources are in one part only.

    Args:
        pairs: 100 or more.
        seed: see `FiniteSplits`.
        validation_items: pairs of the validation part; at most a tenth of what the test leaves.
        settings: see `Splits`.
        name: of the data.
        book: whether the pairs are the book's file; default False.

    Raises:
        UserError: too few pairs.

    Example:
        >>> splits = split_pairs([Pair(str(number), "") for number in range(100)], 0, 5, settings={}, name="a.tsv")
        >>> len(splits.train(0, None)), len(splits.validation(5)), len(splits.test(None))
        (85, 5, 10)
    """
    rest, test = book_split(pairs) if book else hold_out(pairs, lambda pair: pair.source)
    count = min(validation_items, len(rest) // 10)
    while not book and 0 < count < len(rest) and rest[-count].source == rest[-count - 1].source:
        count += 1  # equal sources stay together
    if not count or not test:
        sources = len({pair.source for pair in pairs})
        counts = number_of(len(pairs), "pair")
        if sources < len(pairs):
            counts = f"{counts} with {number_of(sources, 'different source')}"
        raise UserError(f"{name}: {counts}, too few for three parts; give 100 or more")
    return FiniteSplits({"train": rest[:-count], "valid": rest[-count:], "test": test}, seed, settings, name)


def next_items(items: Sequence[_Item], count: int, *, start: int, seed: int) -> list[_Item]:
    """Take the next ``count`` items of an endless run through them, every pass in an order of its own.

    Args:
        items: at least one; a mapped file may be of any size, as only the order (8 bytes an item) is in memory.
        count: number of items to take.
        start: number of items taken before.
        seed: of the run; pass ``n`` has its stream ``data/lap/n``.

    Example:
        >>> sorted(next_items("abc", 2, start=0, seed=0) + next_items("abc", 1, start=2, seed=0))
        ['a', 'b', 'c']
    """
    taken: list[_Item] = []
    while len(taken) < count:
        number, place = divmod(start + len(taken), len(items))
        order = _shuffled(len(items), seed, f"data/lap/{number}")
        taken += [items[index] for index in order[place : place + count - len(taken)].tolist()]
    return taken


def _shuffled(count: int, seed: int, stream: str) -> Any:
    """Return the numbers below `count` in a random order, as a tensor."""
    import torch

    return torch.randperm(count, generator=generator(seed, stream))


def hold_out(
    items: Sequence[_Item], key: Callable[[_Item], Hashable], limit: int | None = None
) -> tuple[list[_Item], list[_Item]]:
    """Shuffle items and hold out a tenth of the distinct keys. Items with equal keys stay together.

    Args:
        items: shuffled with a fixed seed.
        key: returns what must not be in both parts.
        limit: largest number of held-out keys; default no limit.

    Returns:
        The rest, and what is held out.

    Example:
        >>> rest, held_out = hold_out(["a"] * 3 + list("bcdefghijk"), key=lambda item: item)
        >>> len(rest) + len(held_out), len(set(held_out)), set(rest) & set(held_out)
        (13, 1, set())
    """
    keys = list(dict.fromkeys(key(item) for item in items))
    order = _shuffled(len(keys), _SPLIT_SEED, "split").tolist()
    count = len(keys) // 10 if limit is None else min(limit, len(keys) // 10)
    place = {keys[index]: rank for rank, index in enumerate(order)}
    shuffled = sorted(items, key=lambda item: place[key(item)])
    cut = sum(place[key(item)] < count for item in items)
    return shuffled[cut:], shuffled[:cut]


def book_split(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Split as the book does: shuffle with NumPy's legacy generator and seed 1984; the last tenth is the test.

    Args:
        pairs: at least 10.

    Returns:
        Training pairs and test pairs, each in shuffled order.

    Raises:
        UserError: fewer than 10 pairs.

    Example:
        >>> train, test = book_split([Pair(str(n), str(n)) for n in range(20)])
        >>> len(train), len(test)
        (18, 2)
    """
    if len(pairs) < 10:
        raise UserError(f"{number_of(len(pairs), 'pair')}, too few to split: the test is a tenth; give 10 or more")
    import numpy as np

    shuffled = list(pairs)
    cut = len(pairs) - len(pairs) // 10
    np.random.RandomState(BOOK_SEED).shuffle(shuffled)  # type: ignore[arg-type]  # a list of any items will do
    return shuffled[:cut], shuffled[cut:]


def seen_in(test: Sequence[Pair], train: Sequence[Pair], *, casefold: bool = False) -> list[bool]:
    """Return for each test pair whether the training pairs contain it (source and target).

    Args:
        test: pairs to look up.
        train: pairs to look among.
        casefold: ignore case; default False.

    Example:
        >>> seen_in([Pair("MAY", "5"), Pair("June", "6")], [Pair("May", "5")], casefold=True)
        [True, False]
    """

    def key(pair: Pair) -> tuple[str, str]:
        return (pair.source.casefold(), pair.target.casefold()) if casefold else (pair.source, pair.target)

    train_keys = {key(pair) for pair in train}
    return [key(pair) in train_keys for pair in test]


@dataclass(frozen=True)
class Mixture:
    """Shares of corpora in a training: by weights, or by their sizes with a temperature.

    Attributes:
        labels: names of the corpora, in the order of the files.
        weights: of the corpora, in proportion to which they are drawn; empty with a temperature.
        temperature: a corpus of n pairs has a share in proportion to n^(1/T): 1 leaves the sizes, a large T makes all
            shares equal (Arivazhagan et al. 2019). None with weights.

    Example:
        >>> Mixture(("a", "b"), (3.0, 1.0)).shares([10, 90])
        [0.75, 0.25]
        >>> Mixture(("a", "b"), temperature=2.0).shares([1, 9])
        [0.25, 0.75]
    """

    labels: tuple[str, ...]
    weights: tuple[float, ...] = ()
    temperature: float | None = None

    def shares(self, sizes: Sequence[int]) -> list[float]:
        """Return the share of each corpus.

        Args:
            sizes: number of pairs of each.
        """
        sampled = self.weights
        if self.temperature is not None:
            largest = max(sizes)
            sampled = tuple((size / largest) ** (1 / self.temperature) for size in sizes)
        total = sum(sampled)
        return [weight / total for weight in sampled]

    def counts(self, sizes: Sequence[int], total: int) -> list[int]:
        """Return how many pairs of each corpus an epoch has.

        The largest remainders are rounded up, so that the numbers add up to the total. Each corpus has at least a pair.

        Args:
            sizes: number of pairs of each corpus.
            total: pairs of an epoch, at least one for each corpus.

        Example:
            >>> Mixture(("a", "b", "c"), (1.0, 1.0, 1.0)).counts([5, 5, 5], 8)
            [3, 3, 2]
        """
        exact = [share * total for share in self.shares(sizes)]
        counts = [max(1, int(number)) for number in exact]
        by_remainder = sorted(range(len(exact)), key=lambda place: counts[place] - exact[place])
        step = 0
        while sum(counts) < total:
            counts[by_remainder[step % len(counts)]] += 1
            step += 1
        while sum(counts) > total:  # tiny shares had a pair each; the largest corpora give them
            counts[counts.index(max(counts))] -= 1
        return counts


class MixedSplits(FiniteSplits):
    """Three parts, of whose training part every epoch has other pairs, in the shares of a mixture.

    An epoch has as many pairs as the training part, unless `items_per_epoch` gives another number. Each corpus is gone
    through in ever new orders: what an epoch does not reach of a large corpus comes in the next, and a small corpus
    repeats. Which pairs an epoch has depends on the seed and its number alone.
    """

    is_same_each_epoch = False

    def mix(self, mixture: Mixture, origins: Mapping[tuple[str, str], str]) -> None:
        """Divide the training part into the corpora that its pairs come from, and add notes.

        Args:
            mixture: the shares.
            origins: the label of each pair's corpus.

        Raises:
            SettingError: no pair of a corpus is left.
        """
        by_label: dict[str, list[Pair]] = {label: [] for label in mixture.labels}
        for pair in self.parts["train"]:
            by_label[origins[pair.source, pair.target]].append(pair)
        for label, pairs in by_label.items():
            if not pairs:
                raise SettingError(f"`data` {label}: no pair of it is left to train on; leave the file out")
        self.mixture = mixture
        self.corpora = list(by_label.values())
        sizes = [len(pairs) for pairs in self.corpora]
        total = sum(sizes)
        counts = mixture.counts(sizes, total)
        lines = []
        for label, share, size, count in zip(mixture.labels, mixture.shares(sizes), sizes, counts, strict=True):
            epoch = f"{number_of(count, 'pair')} an epoch ({count / size:.2f} passes through {size:,})"
            lines.append(f"  {label}: {100 * share:.1f} % of the training, {epoch}")
        self.notes = [*self.notes, f"mixture of {len(sizes)} corpora, {total:,} pairs an epoch:", *lines]
        shares = {"weights": list(mixture.weights)}
        self.settings["mixture"] = shares if mixture.temperature is None else {"temperature": mixture.temperature}

    def train(self, epoch: int, count: int | None) -> Sequence[Pair]:
        """Return the pairs of an epoch, corpus by corpus."""
        sizes = [len(pairs) for pairs in self.corpora]
        total = sum(sizes) if count is None else count
        if total < len(sizes):
            raise SettingError(f"`items_per_epoch` {total}: fewer than the {len(sizes)} corpora; give more")
        mixed: list[Pair] = []
        for place, number in enumerate(self.mixture.counts(sizes, total)):
            seed = seed_for(self.seed, f"data/corpus/{place}")
            mixed += next_items(self.corpora[place], number, start=epoch * number, seed=seed)
        return mixed
