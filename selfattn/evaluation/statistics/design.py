"""What a design could find: the smallest difference with so many seeds, and the best of so many trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from selfattn.evaluation.statistics.p_values import t_quantile
from selfattn.evaluation.statistics.variances import LEVEL, Variances, variances
from selfattn.results.quality import Better

POWER = 0.8
MOST_SEEDS = 1000  # beyond it more seeds are no answer


def smallest_detectable(
    first: Sequence[float],
    second: Sequence[float],
    half_width: float,
    *,
    seeds: int | None = None,
    level: float = LEVEL,
    power: float = POWER,
) -> float:
    r"""Return the smallest true difference that a design like this one finds with some power, in units of the score.

    .. math:: \sqrt{t_{\nu, \alpha}^2 v_s + z_\alpha^2 v_c} + \sqrt{t_{\nu, \pi}^2 v_s + z_\pi^2 v_c}

    with :math:`v_s` from the seeds and :math:`v_c` from the items as they were seen, :math:`\alpha` two-sided at the
    level and :math:`\pi` one-sided at the power (for one term alone: Guenther 1981, whose error is below 2 % of the
    noncentral t at three seeds each). Variances from few seeds are themselves unsure: docs/statistics.md has how far.

    Args:
        first: scores of one model's runs; two at least.
        second: the other's.
        half_width: half the width of the interval of their difference, at the same level. It tells what of the variance
            the items are to blame for.
        seeds: how many runs of each the design would have; default as many as there are.
        level: of the interval; default 0.95. For several intervals at once: `crossings.simultaneous_level`.
        power: how probable it is to find the difference; default 0.8.

    Raises:
        ValueError: fewer than two runs of a model, or of the design.

    Example:
        >>> first, second = [0.90, 0.92, 0.94], [0.80, 0.82, 0.84]
        >>> half = 2.776 * (2 * 0.02**2 / 3) ** 0.5  # no variance from the items: Student's t with 4 degrees
        >>> [round(smallest_detectable(first, second, half, seeds=seeds), 3) for seeds in (3, 12)]
        [0.061, 0.024]
    """
    if min(len(first), len(second)) < 2 or (seeds is not None and seeds < 2):
        raise ValueError("smallest_detectable: expected at least two runs of each model")
    found = _seen(first, second, half_width, level)
    if seeds is not None:
        fewer = min(len(first), len(second))
        assert found.seeds is not None
        df = found.seed_df * (seeds - 1) / (fewer - 1)
        found = replace(found, seeds=found.seeds * fewer / seeds, seed_df=df)
    # One-sided: the power is passed with probability 1 - power on its side, twice that on both.
    return found.half_width(level) + found.half_width(1 - 2 * (1 - power))


def seeds_needed(
    difference: float,
    first: Sequence[float],
    second: Sequence[float],
    half_width: float,
    *,
    level: float = LEVEL,
    power: float = POWER,
) -> int | None:
    """Return how many seeds of each model would find a difference with some power; None where the items forbid it.

    Args:
        difference: the true one, above 0.
        first: see `smallest_detectable`, like all that follow.

    Returns:
        At least 3; None where `MOST_SEEDS` would not do, because the test has too few items.

    Example:
        >>> first, second = [0.90, 0.92, 0.94], [0.80, 0.82, 0.84]
        >>> half = 2.776 * (2 * 0.02**2 / 3) ** 0.5
        >>> seeds_needed(0.03, first, second, half), seeds_needed(0.2, first, second, half)
        (9, 3)
    """
    if not difference > 0:
        raise ValueError(f"seeds_needed: expected a difference above 0, got {difference}")

    def enough(seeds: int) -> bool:
        found = smallest_detectable(first, second, half_width, seeds=seeds, level=level, power=power)
        return found <= difference

    low, high = 2, MOST_SEEDS
    if not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def most_failing(seeds: int, level: float = LEVEL) -> float:
    """Return the largest share of trainings that may fail where none of so many did (one-sided; rule of three).

    Hanley and Lippman-Hand 1983: the share at which as many good runs in a row are just as improbable as the level has
    it, ``1 - (1 - level) ** (1 / seeds)``.

    Example:
        >>> [round(most_failing(seeds), 2) for seeds in (3, 5, 10)]
        [0.63, 0.45, 0.26]
    """
    return 1 - math.pow(1 - level, 1 / seeds)


def expected_best(values: Sequence[float], n: int, better: Better = "higher") -> float:
    r"""Return the expected best of ``n`` trials drawn from those that were made (Dodge et al. 2019, equation 5).

    .. math:: \sum_k v_{(k)} \left(\hat F(v_{(k)})^n - \hat F(v_{(k - 1)})^n\right)

    with values in their order and :math:`\hat F` the share of trials not above one. Trials are drawn with replacement,
    so that the best of ``len(values)`` is expected below the best seen (Tang et al. 2020).

    Args:
        values: a score of each trial, as a rule on the validation; one at least.
        n: how many trials, at least 1.
        better: whether higher or lower scores are better; default higher.

    Raises:
        ValueError: no value, one that is not finite, or fewer than one trial.

    Example:
        >>> expected_best([1.0, 2.0], 1), expected_best([1.0, 2.0], 2), expected_best([1.0, 2.0], 2, "lower")
        (1.5, 1.75, 1.25)
    """
    if not values or n < 1 or not np.isfinite(values).all():
        raise ValueError(f"expected_best: expected finite values and at least one trial, got {values} and {n}")
    sign = 1 if better == "higher" else -1
    ordered = sorted(sign * value for value in values)
    shares = [(k / len(ordered)) ** n for k in range(len(ordered) + 1)]
    return sign * math.fsum(
        value * (now - before) for value, (before, now) in zip(ordered, pairwise(shares), strict=True)
    )


def _seen(first: Sequence[float], second: Sequence[float], half_width: float, level: float) -> Variances:
    """The variances of which the half-width was made; what the seeds do not explain is the items'."""
    groups = [np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)]
    runs = len(first) + len(second)
    found = variances(groups, np.zeros((runs, runs)), 2)
    tail = round(1 - level, 12)
    assert found.seeds is not None
    seeds = t_quantile(found.seed_df, tail) ** 2 * found.seeds
    common = max(0.0, half_width**2 - seeds) / t_quantile(math.inf, tail) ** 2
    return replace(found, common=common, items=0.0)
