"""Designs: the smallest difference that seeds can find, and where two models change places."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import special

from selfattn.evaluation.metrics import Array, Metric
from selfattn.evaluation.significance import Tunings, score_counts, score_runs
from selfattn.evaluation.variances import ALPHA, POWER, Variances, item_variances, t_quantile, to_log_odds, variances
from selfattn.results.quality import MIN_SEEDS, BudgetDifference, Crossing, PairTest

_MOST_SEEDS = 1000  # beyond it more seeds are no answer
# Level of all budgets together: an order that never changes is said to change in at most 1 % of comparisons.
ALL_BUDGETS = 0.98


@dataclass(frozen=True)
class Design:
    r"""What further seeds could find, by the variances that the runs of two models showed.

    Variances from few seeds are themselves uncertain: docs/statistics.md says how far.

    Attributes:
        parts: variances of the difference, in log-odds where it was tested so, else in the unit of the metric.
        seeds: runs of the model that has fewer.
        even: the same variances if both models had as many runs as that one.
        middle: log-odds halfway between the two models; None where they were not tested on log-odds.

    Example:
        >>> first, second = [0.90, 0.92, 0.94], [0.80, 0.82, 0.84]
        >>> half = 2.776 * (2 * 0.02**2 / 3) ** 0.5  # no variance from the items: Student's t with 4 degrees
        >>> test = PairTest("a", "b", "f", 0.1, 0.1 - half, 0.1 + half, 0.004, 0.004, "better")
        >>> design = Design.of(test, first, second, items=100)
        >>> [round(design.smallest(seeds), 3) for seeds in (3, 12)], design.seeds_needed(0.03)
        ([0.061, 0.024], 9)
    """

    parts: Variances
    seeds: int
    even: Variances
    middle: float | None = None

    @classmethod
    def of(cls, test: PairTest, first: Sequence[float], second: Sequence[float], items: int) -> Design:
        """Take the variances from a test and its runs: what the seeds do not explain of the interval is the items'.

        Args:
            test: of the two models.
            first: scores of the runs of the test's first model; at least two.
            second: the same of its second.
            items: how many test items there are that do not repeat one another.
        """
        groups = [np.asarray(runs, dtype=np.float64) for runs in (first, second)]
        seeds = min(len(first), len(second))
        middle = None
        nothing = np.zeros((len(first) + len(second),) * 2)
        half = (test.high - test.low) / 2
        if test.odds:
            groups, _ = to_log_odds(groups, nothing, items)
            half = (test.odds.high - test.odds.low) / 2
            middle = float(groups[0].mean() + groups[1].mean()) / 2
        parts = variances(groups, nothing, 2)
        assert parts.seeds is not None
        from_seeds = t_quantile(parts.seed_df, ALPHA) ** 2 * parts.seeds
        common = max(0.0, half**2 - from_seeds) / t_quantile(math.inf, ALPHA) ** 2
        parts = replace(parts, common=common)
        even = parts
        if len(first) != len(second):
            of_run = [float(group.var(ddof=1)) for group in groups]
            squares = sum(variance**2 for variance in of_run)
            df = (seeds - 1) * sum(of_run) ** 2 / squares if squares else math.inf
            even = replace(parts, seeds=sum(of_run) / seeds, seed_df=df)
        return cls(parts, seeds, even, middle)

    def smallest(self, seeds: int | None = None) -> float:
        r"""Return the smallest true difference that is found with a power of 80 %, in the unit of `parts`.

        .. math:: \sqrt{t_{\nu, \alpha}^2 v_s + z_\alpha^2 v_c} + \sqrt{t_{\nu, \pi}^2 v_s + z_\pi^2 v_c}

        with :math:`v_s` from the seeds and :math:`v_c` from the items, :math:`\alpha` two-sided and :math:`\pi`
        one-sided at the power (for one term alone: Guenther 1981, whose error is below 2 % of the noncentral t at three
        seeds each).

        Args:
            seeds: runs of each model, at least 2; default as many as there are.
        """
        parts = self.parts
        if seeds is not None:
            assert self.even.seeds is not None
            df = self.even.seed_df * (seeds - 1) / (self.seeds - 1)
            parts = replace(self.even, seeds=self.even.seeds * self.seeds / seeds, seed_df=df)
        # One-sided: the power is exceeded with probability 1 - power on its side, twice that on both.
        return parts.half_width(ALPHA) + parts.half_width(2 * (1 - POWER))

    def seeds_needed(self, difference: float) -> int | None:
        """Return how many seeds of each model would find a true difference with a power of 80 %.

        Args:
            difference: in the unit of `parts`, not 0; its sign does not matter.

        Returns:
            At least 3; None where 1,000 would not do, because the test has too few items.
        """
        return _first(range(MIN_SEEDS, _MOST_SEEDS + 1), lambda seeds: self.smallest(seeds) <= abs(difference))

    def in_score(self, difference: float) -> float:
        """Convert a difference from the unit of `parts` to that of the metric, for models halfway between the two."""
        if self.middle is None:
            return difference
        ends = special.expit([self.middle + difference / 2, self.middle - difference / 2])
        return float(ends[0] - ends[1])


def most_failing(seeds: int) -> float:
    """Return the largest share of trainings that may fail where none of ``seeds`` did (95 %, one-sided; rule of three).

    Hanley and Lippman-Hand 1983: the share at which as many good runs in a row have a probability of 5 %,
    ``1 - 0.05 ** (1 / seeds)``.

    Example:
        >>> [round(most_failing(seeds), 2) for seeds in (3, 5, 10)]
        [0.63, 0.45, 0.26]
    """
    return 1 - math.pow(ALPHA, 1 / seeds)


def budget_differences(
    counts: Mapping[float, Mapping[str, npt.ArrayLike]],
    metric: Metric,
    pair: tuple[str, str],
    *,
    level: float = ALL_BUDGETS,
    clusters: Sequence[Hashable] | None = None,
    tunings: Tunings | None = None,
) -> tuple[BudgetDifference, ...]:
    """Measure the difference between two models at every budget, with simultaneous intervals over seeds and items.

    With k budgets each interval has the level ``1 - (1 - level) / k``, so that all hold at once. Budgets share test
    items and may share seeds; Bonferroni's inequality holds however they depend on one another (Dunn 1961).

    Args:
        counts: for each budget and model what the metric counts, ``[s i k]``, as for `significance.score_counts`.
        metric: turns counts into scores.
        pair: the two models; first minus second.
        level: of all intervals together; default `ALL_BUDGETS`.
        clusters: see `significance.score_runs`.
        tunings: see `significance.by_tuning`; default the runs are the units.

    Raises:
        ValueError: see `significance.score_counts`.
        KeyError: a budget at which one of the two models is missing.

    Example:
        >>> import numpy as np
        >>> from selfattn.evaluation.metrics import make_metric
        >>> draw = np.random.default_rng(0).random((5, 1000))
        >>> right = lambda share: np.stack([draw < share, np.ones_like(draw)], axis=-1)
        >>> counts = {1.0: {"a": right(0.6), "b": right(0.8)}, 2.0: {"a": right(0.95), "b": right(0.85)}}
        >>> locate(budget_differences(counts, make_metric("exact_match"), ("a", "b")))
        Crossing(kind='located', between=(1.0, 2.0), changes=1)
    """
    alpha = round((1 - level) / len(counts), 12)
    tests = {}
    for budget, models in sorted(counts.items()):
        of_pair = {name: models[name] for name in pair}
        tests[budget] = score_counts(of_pair, metric, clusters=clusters, tunings=tunings).pair(*pair, alpha)
    return tuple(BudgetDifference(budget, test.difference, test.low, test.high) for budget, test in tests.items())


def locate(differences: Sequence[BudgetDifference]) -> Crossing:
    """Say where two models change places, as far as simultaneous intervals show it.

    A sign is clear where the interval excludes 0. The first rule that holds decides:

    1. **located**: two budgets have clear and opposite signs. The crossing lies between the nearest such two, nearest
       by their ratio; where clear signs change more than once (``changes``) there is a crossing between each two that
       differ, and these are the nearest of all.
    2. **not located**: no two signs are clear and opposite, but the differences themselves change sign. That may be
       luck: in simulation the means of models that never cross do so in most comparisons.
    3. **none seen**: all differences have the same sign (0 counts as both), clear or not. This does not prove that
       there is no crossing.

    Args:
        differences: one for each budget, with simultaneous intervals (`budget_differences`), in any order.

    Example:
        >>> differences = [BudgetDifference(1, -3.0, -4.0, -2.0), BudgetDifference(2, 0.1, -1.0, 1.2)]
        >>> locate(differences).kind
        'not located'
        >>> locate([*differences, BudgetDifference(4, 2.0, 1.0, 3.0)])
        Crossing(kind='located', between=(1, 4), changes=1)
    """
    ordered = sorted(differences, key=lambda cell: cell.budget)
    clear = [cell for cell in ordered if cell.low > 0 or cell.high < 0]
    changes = [(a.budget, b.budget) for a, b in pairwise(clear) if (a.low > 0) != (b.low > 0)]
    if changes:
        return Crossing("located", min(changes, key=lambda ends: ends[1] / ends[0]), len(changes))
    both_sides = min(cell.difference for cell in ordered) < 0 < max(cell.difference for cell in ordered)
    return Crossing("not located" if both_sides else "none seen")


MOST_RUNS = 100  # of each system; more are no plan
_COMPARISONS = 4000  # simulated for each design
_CAUTION = 0.2  # the variance between runs is below its upper limit with a probability of 80 %


@dataclass(frozen=True)
class Spread:
    r"""Variances of a difference between two systems, by their source.

    With R runs of each system and N items, each system's run has the variance :math:`v_r + v_s / N`, and the difference
    has :math:`v_c / N` from the items that all runs share.

    Attributes:
        runs: :math:`v_r`, between the runs of a system, on endlessly many items.
        single: :math:`v_s`, luck of a run on a single item.
        common: :math:`v_c`, of the difference between the systems, from item to item.
        freedom: degrees of freedom behind the variance between runs.
        items: of the pilot that do not repeat one another.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> easy, luck = rng.normal(size=(1, 2000)), rng.normal(size=(2, 200, 2000))
        >>> level = rng.normal(0, 0.5, size=(2, 200, 1))
        >>> spread = Spread.of([tuple(easy + level + luck)])
        >>> round(spread.runs, 1), round(spread.single, 1), round(spread.common, 1)
        (0.3, 1.0, 0.0)
    """

    runs: float
    single: float
    common: float
    freedom: int
    items: int

    @classmethod
    def of(cls, pairs: Sequence[tuple[Array, Array]], clusters: Sequence[Hashable] | None = None) -> Spread:
        """Estimate the variances, as their means over pairs of systems.

        Args:
            pairs: scores ``[s i]`` of two systems, two runs of each or more.
            clusters: see `significance.score_runs`.
        """
        parts = []
        freedom = 0
        for pair in pairs:
            scores = score_runs(dict(enumerate(pair)), clusters)  # type: ignore[arg-type]  # numbers for names
            runs = list(scores.runs.values())
            single = shared = between = 0.0
            for of_system, (own, common) in zip(runs, item_variances(runs, scores.covariance), strict=True):
                single += own / 2
                shared += common
                between += max(0.0, float(of_system.var(ddof=1)) - own) / 2
            first = len(runs[0])
            shared -= 2 * float(scores.covariance[:first, first:].mean())
            parts.append((between, single * scores.items, max(0.0, shared) * scores.items))
            freedom = max(freedom, sum(map(len, runs)) - 2)
        runs_, single_, common_ = np.mean(parts, axis=0).tolist()
        return cls(runs_, single_, common_, freedom, scores.items)

    def cautious(self) -> Spread:
        """Return the same with the upper limit of the variance between runs (80 %, one-sided, by its chi-squared)."""
        total = self.runs + self.single / self.items
        upper = total * self.freedom / float(special.chdtri(self.freedom, 1 - _CAUTION))
        return replace(self, runs=upper - self.single / self.items)


def power(spread: Spread, difference: float, runs: int, items: int) -> float:
    """Return how probable it is that a true difference is seen; simulated with a fixed seed.

    The scores of runs are drawn from normal distributions, and tested as `variances.Variances` says.

    Args:
        spread: the variances.
        difference: the true one.
        runs: of each system, at least 3.
        items: that all runs answer.

    Example:
        >>> nothing, alone = Spread(0.0, 0.0, 1.0, 8, 100), Spread(1.0, 0.0, 0.0, 8, 100)
        >>> round(power(nothing, 0.28, 3, 100), 1), round(power(alone, 2.02, 5, 100), 1)  # t tables: 0.8 and 0.8
        (0.8, 0.8)
    """
    rng = np.random.default_rng(0)
    of_run = spread.runs + spread.single / items
    common = spread.common / items
    seeds = of_run * rng.chisquare(runs - 1, size=(2, _COMPARISONS)) / (runs - 1) / runs
    measured = difference + rng.normal(size=_COMPARISONS) * np.sqrt(2 * of_run / runs + common)
    total = seeds.sum(axis=0)
    squares = (seeds**2).sum(axis=0) / (runs - 1)
    freedom = np.divide(total**2, squares, out=np.full_like(total, 1e12), where=squares > 0)
    t = -special.stdtrit(freedom, ALPHA / 2)
    z = t_quantile(np.inf, ALPHA)
    over_items = t_quantile(max(1, items - 1), ALPHA) * np.sqrt(common + 2 * spread.single / items / runs)
    half = np.maximum(over_items, np.sqrt(t**2 * total + z**2 * common))
    return float((measured * np.sign(difference) > half).mean())


@cache
def runs_needed(spread: Spread, difference: float, items: int) -> int | None:
    """Return the fewest runs of each system, 3 or more, that see a true difference with a power of 80 %.

    Args:
        spread: the variances.
        difference: the true one, not 0.
        items: that all runs answer.

    Returns:
        None where `MOST_RUNS` would not do.
    """
    return _first(range(MIN_SEEDS, MOST_RUNS + 1), lambda runs: power(spread, difference, runs, items) >= POWER)


def _first(counts: range, is_enough: Callable[[int], bool]) -> int | None:
    """Return the first number that is enough, where all after it are, too; None where none is."""
    place = bisect_left(counts, True, key=is_enough)
    return counts[place] if place < len(counts) else None
