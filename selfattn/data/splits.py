"""Pairs in three parts, wherever they come from: what is trained on, validated on, and tested on."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from selfattn.data.pairs import Pair
from selfattn.errors import SettingError, UserError
from selfattn.streams import seed_for

_SAMPLE = 5_000  # generated pairs that the vocabulary and the longest output are taken from
_TRIES = 1_000  # draws for each pair that is looked for, after which there are taken to be no more


class Splits(ABC):
    """Pairs in three parts that share nothing that they need not."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What makes the same data again, as plain JSON values."""

    @property
    def name(self) -> str:
        """What the data are called where a figure is of their test part."""
        return "test part"

    @property
    def notes(self) -> Sequence[str]:
        """What is to be said of the data once they are used; nothing where nothing was done to them."""
        return ()

    @abstractmethod
    def sample(self) -> Sequence[Pair]:
        """Training pairs that show every character; the same for every seed."""

    @abstractmethod
    def train(self, epoch: int, count: int | None) -> Iterable[Pair]:
        """Training pairs of an epoch, counted from 0; ``None`` asks for as many as there are."""

    @abstractmethod
    def validation(self, count: int) -> list[Pair]:
        """Pairs to choose the best weights by, at most so many."""

    @abstractmethod
    def test(self, count: int | None) -> list[Pair]:
        """Pairs that nothing was chosen by, at most so many; the same for every seed."""

    def probes(self) -> Mapping[str, Sequence[Pair]]:
        """Further unseen pairs by name, such as years that training never shows; default none."""
        return {}

    def known(self) -> Sequence[Pair] | None:
        """Everything that is not test; None where training and test cannot share a pair."""
        return None


class GeneratedSplits(Splits):
    """Pairs that a function draws, without end: the parts share no source, and every epoch is new.

    Args:
        draw: makes one pair by chance.
        seed: of the training pairs; validation and test are the same for every seed.
        settings: what makes the same data again.
    """

    def __init__(self, draw: Callable[[random.Random], Pair], seed: int, settings: Mapping[str, Any]) -> None:
        self._draw, self._seed, self._settings = draw, seed, dict(settings)

    @property
    def settings(self) -> dict[str, Any]:
        """What was given."""
        return self._settings

    @property
    def name(self) -> str:
        """That they are generated."""
        return "generated pairs"

    def sample(self) -> Sequence[Pair]:
        """Training pairs of seed 0."""
        return self._pairs("train", 0, 0, _SAMPLE)

    def train(self, epoch: int, count: int | None) -> list[Pair]:
        """New pairs for every epoch; `count` must be given."""
        if count is None:
            raise SettingError("the pairs are generated without end: give `items_per_epoch`")
        return self._pairs("train", self._seed, epoch, count)

    def validation(self, count: int) -> list[Pair]:
        """Different pairs of the part for validation."""
        return self._pairs("valid", 0, 0, count, different=True)

    def test(self, count: int | None) -> list[Pair]:
        """Different pairs of the part for the test; `count` must be given."""
        if count is None:
            raise SettingError("the pairs are generated without end: give `test_items`")
        return self._pairs("test", 0, 0, count, different=True)

    def _pairs(self, part: str, seed: int, epoch: int, count: int, *, different: bool = False) -> list[Pair]:
        chance = random.Random(seed_for(seed, f"data/{part}/{epoch}"))
        found: list[Pair] = []
        seen: set[str] = set()
        for _ in range(_TRIES * count):
            pair = self._draw(chance)
            if _part_of(pair.source) == part and not (different and pair.source in seen):
                seen.add(pair.source)
                found.append(pair)
                if len(found) == count:
                    return found
        raise UserError(f"{part}: only {len(found):,} pairs could be drawn, of {count:,}; ask for fewer")


def _part_of(source: str) -> str:
    """The part that a source is in: chosen by its text, one twentieth each for validation and test."""
    place = hashlib.sha256(source.encode()).digest()[0] % 20
    return {0: "test", 1: "valid"}.get(place, "train")
