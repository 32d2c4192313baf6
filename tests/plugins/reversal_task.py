"""A task as a plugin: write a word backwards, with options and a recipe."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from selfattn.plugin import RECIPE, Pair, SettingError, Span, TaskData, TrainingConfig, register


@dataclass(frozen=True, kw_only=True)
class ReversalOptions:
    """Which words are reversed.

    Attributes:
        letters: Letters of the words.
        shortest: Length of the shortest word.
        longest: Length of the longest word.
    """

    letters: str = "abcdefgh"
    shortest: int = 3
    longest: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise SettingError(f"`longest`: expected at least {max(1, self.shortest)} letters, got {self.longest}")


@register.task("reversal")
class Reversal(TaskData):
    """Write words backwards."""

    Options = ReversalOptions

    def pair(self, chance: random.Random) -> Pair:
        """Draw a word; letter i of the target is letter n - 1 - i of the source."""
        options, count = self.options, chance.randint(self.options.shortest, self.options.longest)
        word = "".join(chance.choices(options.letters, k=count))
        spans = tuple(Span("letter", (k, k + 1), (count - 1 - k, count - k)) for k in range(count))
        return Pair(word, word[::-1], f"{count} letters", spans)

    def recipe(self, quick: bool) -> TrainingConfig:
        """Short words need few steps."""
        return replace(RECIPE, epochs=2 if quick else 5, items_per_epoch=4_000, validation_items=100)
