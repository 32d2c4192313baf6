"""How many training examples models read until they reach a target, as types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from annotated_types import Ge, Gt

from selfattn.codec import Plain
from selfattn.results.pair_tests import Word
from selfattn.results.quality import Share

Bound = Literal["", "more", "fewer", "unknown"]


@dataclass(frozen=True)
class ModelArrivals(Plain):
    """What the runs of a model read until they reached the target.

    Attributes:
        examples: of each run; None where it did not reach the target within the cap.
        median: over the runs; None where it is above the cap.
        low: least of the runs; None where it is above the cap.
        high: most of the runs; None where it is above the cap.
    """

    examples: tuple[Annotated[int, Ge(1)] | None, ...]
    median: int | None = None
    low: int | None = None
    high: int | None = None

    @property
    def arrived(self) -> int:
        """Number of runs that reached the target."""
        return sum(count is not None for count in self.examples)


@dataclass(frozen=True)
class RatioTest(Plain):
    """The test of two models: how many times as many examples the first needs as the second.

    Attributes:
        first: name of a model.
        second: name of another.
        ratio: estimate.
        bound: whether the true ratio is `more` or `fewer` than the estimate, since runs did not arrive; empty where the
            estimate is none of a bound; `unknown` where nothing can be said.
        p: two-sided, of this pair alone.
        p_holm: corrected for all pairs but the primary one, whose own p it is.
        word: verdict on the first: better if it needs fewer examples.
        low: lower end of the 95 % interval of the ratio; None without one.
        high: upper end; None without one.
        primary: whether this pair was named before training.
    """

    first: str
    second: str
    ratio: Annotated[float, Gt(0)]
    bound: Bound
    p: Share
    p_holm: Share
    word: Word
    low: float | None = None
    high: float | None = None
    primary: bool = False

    def judged(self, p_holm: float, word: Word, *, primary: bool) -> RatioTest:
        """Return the test with its corrected p and its verdict."""
        return replace(self, p_holm=p_holm, word=word, primary=primary)

    def swapped(self) -> RatioTest:
        """Return the test from the second model's side.

        Example:
            >>> test = RatioTest("a", "b", 2.0, "more", 0.01, 0.01, "worse", 1.6).swapped()
            >>> test.first, test.ratio, test.bound, test.low, test.high, test.word
            ('b', 0.5, 'fewer', None, 0.625, 'better')
        """
        words: dict[Word, Word] = {"better": "worse", "worse": "better"}
        bounds: dict[Bound, Bound] = {"more": "fewer", "fewer": "more"}
        return replace(
            self,
            first=self.second,
            second=self.first,
            ratio=1 / self.ratio,
            bound=bounds.get(self.bound, self.bound),
            low=1 / self.high if self.high else None,
            high=1 / self.low if self.low else None,
            word=words.get(self.word, self.word),
        )


@dataclass(frozen=True)
class Target(Plain):
    """A comparison by the examples that models read until they reach a target.

    Attributes:
        share: of validation items that have to be right.
        cap: most examples that a run reads; a run that has not arrived by then needs more.
        look_every: examples between two looks.
        look_items: validation items of a look.
        confirm_items: validation items that confirm a look.
        models: by name.
        pairs: every two models, each pair once.
    """

    share: Annotated[float, Gt(0)]
    cap: Annotated[int, Ge(1)]
    look_every: Annotated[int, Ge(1)]
    look_items: Annotated[int, Ge(1)]
    confirm_items: Annotated[int, Ge(1)]
    models: Mapping[str, ModelArrivals] = field(default_factory=dict)
    pairs: tuple[RatioTest, ...] = ()

    def pair(self, first: str, second: str) -> RatioTest:
        """Return the test of two models, from the first's side."""
        test = next(test for test in self.pairs if {test.first, test.second} == {first, second})
        return test if test.first == first else test.swapped()
