"""Tests of pairs of models, and the comparison of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from selfattn.codec import Plain
from selfattn.results.quality import Estimate, Share

Word = Literal["better", "worse", "no difference seen", "too few seeds to tell"]
MarginWord = Literal["more", "perhaps less", "equivalent", "cannot tell"]
_TURNED: dict[Word, Word] = {"better": "worse", "worse": "better"}


@dataclass(frozen=True)
class PairTest(Plain):
    """The test of a pair of models on one metric.

    Attributes:
        first: name of a model.
        second: name of another.
        metric: what is compared.
        difference: first minus second.
        low: lower end of the 95 % interval of the difference.
        high: upper end.
        p: two-sided, of this pair alone.
        p_holm: corrected for all pairs of this metric but the primary one, whose own p it is.
        word: verdict on the first.
        p_items: what p would be if these very runs were all there are; with one run each, p itself.
        primary: whether it is the one contrast that was named before training; all others are exploratory.
    """

    first: str
    second: str
    metric: str
    difference: float
    low: float
    high: float
    p: Share
    p_holm: Share
    word: Word
    p_items: Share | None = None
    primary: bool = False

    def beside(self, margin: float) -> MarginWord:
        """Say where the difference lies beside the smallest that is worth having, either way.

        Inside the margin with its whole interval it is equivalent: two one-sided tests at 2.5 % each (Schuirmann 1987).

        Args:
            margin: above 0, in the unit of the difference.

        Example:
            >>> test = PairTest("a", "b", "bleu", 1.5, 0.6, 2.4, 0.001, 0.001, "better")
            >>> [test.beside(margin) for margin in (0.5, 1.0, 3.0)]
            ['more', 'perhaps less', 'equivalent']
        """
        if self.word == "too few seeds to tell":
            return "cannot tell"
        if max(-self.low, self.high) <= margin:
            return "equivalent"
        if self.word == "no difference seen":
            return "cannot tell"
        return "more" if max(self.low, -self.high) > margin else "perhaps less"

    def turned(self) -> PairTest:
        """Return the same test with the two models exchanged."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            word=_TURNED.get(self.word, self.word),
        )


@dataclass(frozen=True)
class Comparison(Plain):
    """All models with their scores, and every pair of them once, in the order in which the models were given."""

    estimates: Mapping[str, Estimate]
    pairs: tuple[PairTest, ...]

    def between(self, first: str, second: str) -> PairTest:
        """Return how the first stands to the second.

        Raises:
            KeyError: there is no such pair.
        """
        for pair in self.pairs:
            if (pair.first, pair.second) == (first, second):
                return pair
            if (pair.second, pair.first) == (first, second):
                return pair.turned()
        raise KeyError(f"no pair of {first!r} and {second!r}")
