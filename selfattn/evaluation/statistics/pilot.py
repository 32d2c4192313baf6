"""How many runs and items it takes to see a difference: simulated from the variances that a pilot showed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
from scipy import special

from selfattn.evaluation.metrics.metric import Array
from selfattn.evaluation.statistics.design import POWER
from selfattn.evaluation.statistics.significance import score_runs
from selfattn.evaluation.statistics.variances import ALPHA, t_quantile
from selfattn.results.quality import MIN_SEEDS

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
            counts = [len(system) for system in pair]
            ends = [0, counts[0], sum(counts)]
            blocks = [scores.covariance[a:b, a:b] for a, b in pairwise(ends)]
            single = shared = between = 0.0
            for count, block, runs in zip(counts, blocks, scores.runs.values(), strict=True):
                of_runs = np.trace(block) / count
                common = (block.sum() - np.trace(block)) / (count * (count - 1))
                single += (of_runs - common) / 2
                shared += common
                between += max(0.0, float(runs.var(ddof=1)) - float(of_runs - common)) / 2
            shared -= 2 * float(scores.covariance[: ends[1], ends[1] :].mean())
            parts.append((between, single * scores.items, max(0.0, shared) * scores.items))
            freedom = max(freedom, sum(counts) - 2)
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
    low, high = MIN_SEEDS, MOST_RUNS + 1
    while low < high:  # the power rises with the runs
        middle = (low + high) // 2
        low, high = (low, middle) if power(spread, difference, middle, items) >= POWER else (middle + 1, high)
    return low if low <= MOST_RUNS else None
