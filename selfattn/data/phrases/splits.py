"""The embedded phrases in three parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from selfattn.data.pairs import Pair
from selfattn.data.phrases.source import CldrSource
from selfattn.data.splits import EndlessSplits, Split

_SAMPLE = 20_000  # embedded phrases that the vocabulary and the longest output are taken from


class EmbeddedPhrases(EndlessSplits):
    """Phrases of CLDR, without end: every epoch is new; no two parts share a source or a target.

    Args:
        source: locale of the sources.
        target: locale of the targets.
        seed: of the training pairs; validation and test are the same for every seed.
    """

    endless = "the embedded phrases are endless"

    def __init__(self, source: str, target: str, seed: int) -> None:
        CldrSource(source, target)  # which refuses what is no locale
        self.source, self.target = source, target
        settings = {"kind": "cldr", "source_language": source, "target_language": target}
        super().__init__(settings, f"cldr, {source} to {target}", seed)

    def sample(self) -> Sequence[Pair]:
        """Training pairs of seed 0."""
        return _sample(self.source, self.target)

    def draw(self, part: Split, seed: int, epoch: int, count: int) -> list[Pair]:
        """The next pairs of the source; of validation and test the first different ones."""
        phrases = CldrSource(self.source, self.target, seed=seed, split=part)
        return phrases.pairs(count, start=epoch * count) if part == "train" else _different(phrases, count)


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
