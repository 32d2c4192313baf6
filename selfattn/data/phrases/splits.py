"""The embedded phrases in three parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from selfattn.data.pairs import Pair
from selfattn.data.phrases.source import CldrSource
from selfattn.data.splits import Splits
from selfattn.errors import SettingError

_SAMPLE = 20_000  # embedded phrases that the vocabulary and the longest output are taken from


class EmbeddedPhrases(Splits):
    """Phrases of CLDR, without end: every epoch is new; no two parts share a source or a target.

    Args:
        source: locale of the sources.
        target: locale of the targets.
        seed: of the training pairs; validation and test are the same for every seed.
    """

    def __init__(self, source: str, target: str, seed: int) -> None:
        self.source, self.target = source, target
        self._train = CldrSource(source, target, seed=seed, split="train")

    @property
    def settings(self) -> dict[str, Any]:
        """The locales."""
        return {"kind": "cldr", "source_language": self.source, "target_language": self.target}

    @property
    def name(self) -> str:
        """The locales."""
        return f"cldr, {self.source} to {self.target}"

    def sample(self) -> Sequence[Pair]:
        """Training pairs of seed 0."""
        return _sample(self.source, self.target)

    def train(self, epoch: int, count: int | None) -> list[Pair]:
        """Pairs that no epoch before had by design; `count` must be given."""
        if count is None:
            raise SettingError("the embedded phrases are endless: give `items_per_epoch`")
        return self._train.pairs(count, start=epoch * count)

    def validation(self, count: int) -> list[Pair]:
        """The first different pairs of the part ``valid``."""
        return _different(CldrSource(self.source, self.target, seed=0, split="valid"), count)

    def test(self, count: int | None) -> list[Pair]:
        """The first different pairs of the part ``test``; `count` must be given."""
        if count is None:
            raise SettingError("the embedded phrases are endless: give `test_items`")
        return _different(CldrSource(self.source, self.target, seed=0, split="test"), count)


def _different(source: CldrSource, count: int) -> list[Pair]:
    """Draw until there are so many pairs with different sources: an item that comes twice would count twice."""
    found: dict[str, Pair] = {}
    start = 0
    while len(found) < count:
        for pair in source.pairs(count, start=start):
            found.setdefault(pair.source, pair)
        start += count
    return list(found.values())[:count]


@lru_cache(maxsize=8)
def _sample(source: str, target: str) -> list[Pair]:
    return CldrSource(source, target, seed=0, split="train").pairs(_SAMPLE)
