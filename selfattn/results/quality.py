"""Quality: scores with intervals, learning curves, tests of pairs of models, parts of the test, examples to a target.

Budgets are shares of a training. How the figures are computed: `selfattn.evaluation.significance`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeVar

from annotated_types import Ge, Gt, Le

from selfattn.codec import Plain

Share = Annotated[float, Ge(0), Le(1)]
# Of a metric: 0 to 1, shown in percent; 0 to 100; bits; any number from 0 on, as a perplexity.
Unit = Literal["share", "points", "bits", "number"]
PairOrRatio = TypeVar("PairOrRatio", "PairTest", "RatioTest")
Better = Literal["higher", "lower"]  # of a metric: which of two scores is the better one
Over = Literal["items", "seeds and items"]  # what varies in an interval


@dataclass(frozen=True)
class Estimate(Plain):
    """A measured quality with its interval.

    Attributes:
        mean: mean over runs, failed ones included.
        low: lower end of the interval; None when no interval was computed.
        high: upper end of the interval; None when no interval was computed.
        runs: one value a seed, in the order of the model's `seeds`.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    runs: tuple[float, ...] = ()

    @property
    def over(self) -> Over:
        """What varies in the interval: with one run, only the items."""
        return "items" if len(self.runs) == 1 else "seeds and items"


@dataclass(frozen=True)
class Headline(Plain):
    """The metric that the verdict is about.

    Attributes:
        metric: its name among the metrics of every model, such as `exact_match` or `bleu`.
        kind: `share` (0 to 1, shown in percent), `points` (0 to 100, shown as they are), `bits` or `number`.
        signature: how it was computed, such as sacreBLEU's signature; empty where nothing is left open.
        better: whether `higher` or `lower` scores are better.
    """

    metric: str = "exact_match"
    kind: Unit = "share"
    signature: str = ""
    better: Better = "higher"


@dataclass(frozen=True)
class IntervalMethod(Plain):
    """How the intervals of a record are computed.

    Attributes:
        level: such as 0.95.
        method: variances over the items are known in closed form, or drawn by `bootstrap`.
        over: what varies.
        repeated: how many test items repeat another one, and are drawn with it.
    """

    level: Share
    method: Literal["closed form", "bootstrap"]
    over: Over
    repeated: int = 0


@dataclass(frozen=True)
class Point(Plain):
    """One validation during training; losses are nats a token, `tokens` are target tokens seen so far.

    Attributes:
        flops: floating-point operations of training so far.
        valid: the headline metric on the validation items.
        examples: training examples read so far; None where not counted.
    """

    epoch: float
    step: int
    tokens: int | None = None
    seconds: float | None = None
    flops: float | None = None
    train_loss: float | None = None
    valid_loss: float | None = None
    valid: float | None = None
    examples: int | None = None


@dataclass(frozen=True)
class Curve(Plain):
    """The learning curve of one run."""

    seed: int
    points: tuple[Point, ...] = ()


Budget = Annotated[float, Gt(0)]
CrossingKind = Literal["located", "not located", "none seen"]


@dataclass(frozen=True)
class BudgetDifference(Plain):
    """The difference between two models at one budget: first minus second.

    Attributes:
        budget: above 0.
        difference: of the mean scores.
        low: lower end of its simultaneous interval, one of those of all budgets.
        high: upper end.
    """

    budget: Budget
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Crossing(Plain):
    """Where the order of two models changes.

    Attributes:
        kind: what may be said, see `selfattn.evaluation.design.locate`.
        between: the two budgets that it lies between, where it is located.
        changes: how often the order changes for certain: more than once is no single crossing.
    """

    kind: CrossingKind
    between: tuple[Budget, Budget] | None = None
    changes: int = 0


Word = Literal["better", "worse", "not told apart"]
MIN_SEEDS = 3  # of each model: fewer are never told apart
MarginWord = Literal["more", "perhaps less", "equivalent", "cannot tell"]
_SWAPPED: dict[Word, Word] = {"better": "worse", "worse": "better", "not told apart": "not told apart"}


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

    def swapped(self) -> PairTest:
        """Return the test from the second model's side."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            word=_SWAPPED[self.word],
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
        return find_pair(self.pairs, first, second)


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


def are_separated(first: Sequence[float], second: Sequence[float]) -> bool:
    """Say whether every run of one model scores above every run of the other. That is never called "no difference".

    Example:
        >>> are_separated([0.5, 0.6], [0.7, 0.8]), are_separated([0.5, 0.7], [0.7, 0.8])
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
    limit = {"share": 0.25, "points": 25.0}.get(unit, math.inf)
    return not test.low <= 0 <= test.high or (test.high - test.low) / 2 <= limit


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


@dataclass(frozen=True)
class Bucket(Plain):
    """A part of the test items.

    Attributes:
        name: of the part.
        items: how many there are.
        models: each model's quality on them, of the group's metric.
        pairs: tests of pairs of models on them, of a further test set; empty for other parts.
    """

    name: str
    items: int
    models: Mapping[str, Estimate] = field(default_factory=dict)
    pairs: tuple[PairTest, ...] = ()


@dataclass(frozen=True)
class BucketGroup(Plain):
    """One way to divide the test items.

    Attributes:
        name: `format`, `length`, `field`, `unseen formats`, `rare words`, ...
        buckets: in the order to show them.
        metric: what is measured, by default the share that is exactly right.
        kind: see `Headline`.
        note: how items come into these buckets, in one sentence.
        better: see `Headline`.
    """

    name: str
    buckets: tuple[Bucket, ...]
    metric: str = "exact_match"
    kind: Unit = "share"
    note: str = ""
    better: Better = "higher"


@dataclass(frozen=True)
class Ngram(Plain):
    """A run of words that two models get right unequally often.

    Attributes:
        text: its words, with a space between.
        reference: how often the references have it.
        first: how often the first model has it where the reference has it, mean over runs.
        second: the same of the second.
        score: ``(first + 1) / (first + second + 2)``.
        separated: whether every run of one has it more often than every run of the other.
    """

    text: str
    reference: int
    first: float
    second: float
    score: Share
    separated: bool


@dataclass(frozen=True)
class NgramGroup(Plain):
    """The runs of words that tell two models apart most: those the first gets right more often, then the others."""

    first: str
    second: str
    ngrams: tuple[Ngram, ...]


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

    def swapped(self) -> RatioTest:
        """Return the test from the second model's side.

        Example:
            >>> test = RatioTest("a", "b", 2.0, "more", 0.01, 0.01, "worse", 1.6).swapped()
            >>> test.first, test.ratio, test.bound, test.low, test.high, test.word
            ('b', 0.5, 'fewer', None, 0.625, 'better')
        """
        bounds: dict[Bound, Bound] = {"more": "fewer", "fewer": "more"}
        return replace(
            self,
            first=self.second,
            second=self.first,
            ratio=1 / self.ratio,
            bound=bounds.get(self.bound, self.bound),
            low=1 / self.high if self.high else None,
            high=1 / self.low if self.low else None,
            word=_SWAPPED[self.word],
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
        return find_pair(self.pairs, first, second)


def find_pair(tests: Iterable[PairOrRatio], first: str, second: str) -> PairOrRatio:
    """Return the test of two models, from the first's side.

    Raises:
        KeyError: there is none.
    """
    for test in tests:
        if (test.first, test.second) == (first, second):
            return test
        if (test.second, test.first) == (first, second):
            return test.swapped()
    raise KeyError(f"no pair of {first!r} and {second!r}")
