"""Tests of pairs of models, on one task and over several: differences with their intervals, p-values, and words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from selfattn.codec import Plain
from selfattn.results.quality import Better, BudgetDifference, Estimate, Share, Unit

Word = Literal["better", "worse", "not told apart"]
MIN_SEEDS = 3  # of each model: fewer are never told apart
MarginWord = Literal["more", "perhaps less", "equivalent", "cannot tell"]
_TURNED: dict[Word, Word] = {"better": "worse", "worse": "better", "not told apart": "not told apart"}


@dataclass(frozen=True)
class LogOdds(Plain):
    """The difference of two shares in log-odds, ln(p / (1 - p)), with its interval.

    Near 100 % it says more than percentage points: from 98 to 99 % the odds of a right answer double, as they do from
    50 to 67 %.

    Attributes:
        difference: mean log-odds of the first model's runs minus those of the second.
        low: lower end of the interval.
        high: upper end.
    """

    difference: float
    low: float
    high: float

    @property
    def ratio(self) -> tuple[float, float, float]:
        """The odds ratio with its ends: how many times as high the odds of a right answer are with the first model.

        Example:
            >>> [round(value, 1) for value in LogOdds(1.1, 0.0, 2.2).ratio]
            [3.0, 1.0, 9.0]
        """
        difference, low, high = (math.exp(min(value, 700)) for value in (self.difference, self.low, self.high))
        return difference, low, high


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
        p: two-sided, of this pair alone; where trainings failed, the larger p of two tests, with and without them.
        p_holm: corrected for all pairs of this metric but the primary one, whose own p it is.
        word: verdict on the first.
        p_items: p of the exact test over items, for these runs alone; with one run each, p itself.
        primary: whether this contrast was named before training; all others are exploratory.
        separated: whether every run of one model scores above every run of the other.
        better: whether higher or lower scores are better.
        odds: the difference in log-odds, where the scores are shares of right answers: p, and whether the interval
            excludes 0, come from it. `difference`, `low` and `high` are in the unit of the metric all the same.
        seeds: independent runs (or tunings) of the model that has fewer, without those whose training failed.
        identical: whether the runs of both models wrote the same for every test item.
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
    separated: bool = False
    better: Better = "higher"
    odds: LogOdds | None = None
    seeds: int = 0
    identical: bool = False

    def beside(self, margin: float) -> MarginWord:
        """Compare the difference with the smallest that is worth having, in either direction.

        It is equivalent if the interval lies inside the margin: two one-sided tests at 2.5 % each (Schuirmann 1987).
        Args:
            margin: above 0, in the unit of the difference.

        Example:
            >>> test = PairTest("a", "b", "bleu", 1.5, 0.6, 2.4, 0.001, 0.001, "better", seeds=3)
            >>> [test.beside(margin) for margin in (0.5, 1.0, 3.0)]
            ['more', 'perhaps less', 'equivalent']
        """
        if self.seeds < MIN_SEEDS:
            return "cannot tell"
        if max(-self.low, self.high) <= margin:
            return "equivalent"
        if self.word == "not told apart":
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
            word=_TURNED[self.word],
            odds=self.odds and LogOdds(-self.odds.difference, -self.odds.high, -self.odds.low),
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


@dataclass(frozen=True)
class TaskRow(Plain):
    """Two models on one task.

    Attributes:
        task: its name.
        first: mean score of the first model's runs.
        second: of the second's.
        difference: first minus second.
        low: lower end of the interval of the difference over runs and items of this task.
        high: upper end.
        p: of the difference, as the comparison has it.
    """

    task: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class OverTasks(Plain):
    """Two models over several tasks.

    Attributes:
        first: name of a model.
        second: name of another.
        metric: that decides, the same for all tasks.
        kind: of the metric.
        better: of the metric.
        rows: one for each task.
        difference: mean over tasks of first minus second, with an interval over tasks: to the next task of this kind.
        p: two-sided, of Student's t over the tasks' differences.
        middle_first: interquartile mean of the first model's runs on all tasks, with an interval over runs.
        middle_second: of the second's.
        improvement: probability that a run of the first is better than one of the second on the same task, mean over
            tasks, with an interval over runs.
    """

    first: str
    second: str
    metric: str
    kind: Unit
    better: Better
    rows: tuple[TaskRow, ...]
    difference: Estimate
    p: float
    middle_first: Estimate
    middle_second: Estimate
    improvement: Estimate


def separated(first: Sequence[float], second: Sequence[float]) -> bool:
    """Say whether every run of one model scores above every run of the other. That is never called "no difference".

    Example:
        >>> separated([0.5, 0.6], [0.7, 0.8]), separated([0.5, 0.7], [0.7, 0.8])
        (True, False)
    """
    return bool(min(first) > max(second) or max(first) < min(second))


def is_estimable(test: PairTest | BudgetDifference, unit: Unit) -> bool:
    """Say whether a difference is known well enough to be shown.

    It is not where the interval includes 0 and its half-width is above 25 points of 100: then so few runs, which vary
    so much, say nothing about the size of the difference. A quality without an upper end is always shown.

    Args:
        test: of two models.
        unit: of the metric.

    Example:
        >>> is_estimable(BudgetDifference(1.0, -0.05, -0.58, 0.49), "share")
        False
        >>> is_estimable(BudgetDifference(1.0, -0.5, -0.9, -0.1), "share")  # wide, but the sign is known
        True
    """
    most = {"share": 0.25, "points": 25.0}.get(unit, math.inf)
    return not test.low <= 0 <= test.high or (test.high - test.low) / 2 <= most


def leaders(pairs: Sequence[PairTest], first: str, second: str) -> dict[str, str]:
    """Say for each metric which of two models has the better mean; metrics with equal means are left out.

    More than one name among the values means that metrics disagree.

    Args:
        pairs: of a record, on all its metrics.
        first: name of a model.
        second: name of the other.

    Example:
        >>> bleu = PairTest("a", "b", "bleu", 1.5, -1.0, 4.0, 0.2, 0.2, "not told apart")
        >>> ter = PairTest("b", "a", "ter", -3.0, -5.0, -1.0, 0.01, 0.01, "better", better="lower")
        >>> leaders([bleu, ter], "a", "b")
        {'bleu': 'a', 'ter': 'b'}
    """
    tests = [test for test in pairs if {test.first, test.second} == {first, second} and test.difference]
    return {
        test.metric: test.first if (test.difference > 0) == (test.better == "higher") else test.second for test in tests
    }
