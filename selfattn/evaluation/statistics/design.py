"""What a design could find: the smallest difference with a number of seeds, and the best of a number of trials."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from selfattn.evaluation.statistics.p_values import t_quantile
from selfattn.evaluation.statistics.significance import MIN_SEEDS
from selfattn.evaluation.statistics.variances import LEVEL, Variances, variances
from selfattn.results.quality import Better

POWER = 0.8
MOST_SEEDS = 1000  # beyond it more seeds are no answer


def smallest_detectable(
    first: Sequence[float], second: Sequence[float], half_width: float, *, seeds: int | None = None
) -> float:
    r"""Return the smallest true difference that a design like this finds with a power of 80 %, in units of the score.

    .. math:: \sqrt{t_{\nu, \alpha}^2 v_s + z_\alpha^2 v_c} + \sqrt{t_{\nu, \pi}^2 v_s + z_\pi^2 v_c}

    with :math:`v_s` from the seeds and :math:`v_c` from the items as observed, :math:`\alpha` two-sided at 5 % and
    :math:`\pi` one-sided at the power (for one term alone: Guenther 1981, whose error is below 2 % of the noncentral t
    at three seeds each). Variances from few seeds are themselves uncertain: docs/statistics.md says how far.

    Args:
        first: scores of one model's runs; at least two.
        second: the other's.
        half_width: half the width of the 95 % interval of their difference. What of it the seeds do not explain is the
            items'.
        seeds: how many runs of each model the design would have; default as many as there are.

    Raises:
        ValueError: fewer than two runs of a model, or of the design.

    Example:
        >>> first, second = [0.90, 0.92, 0.94], [0.80, 0.82, 0.84]
        >>> half = 2.776 * (2 * 0.02**2 / 3) ** 0.5  # no variance from the items: Student's t with 4 degrees
        >>> [round(smallest_detectable(first, second, half, seeds=seeds), 3) for seeds in (3, 12)]
        [0.061, 0.024]
    """
    fewer = min(len(first), len(second))
    if fewer < 2 or (seeds is not None and seeds < 2):
        raise ValueError("smallest_detectable: expected at least two runs of each model")
    parts = _observed(first, second, half_width)
    if seeds is not None:
        assert parts.seeds is not None
        df = parts.seed_df * (seeds - 1) / (fewer - 1)
        parts = replace(parts, seeds=parts.seeds * fewer / seeds, seed_df=df)
    # One-sided: the power is exceeded with probability 1 - power on its side, twice that on both.
    return parts.half_width() + parts.half_width(1 - 2 * (1 - POWER))


def seeds_needed(difference: float, first: Sequence[float], second: Sequence[float], half_width: float) -> int | None:
    """Return how many seeds of each model would find a difference with a power of 80 %.

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
    designs = range(MIN_SEEDS, MOST_SEEDS + 1)
    place = bisect_left(
        designs, True, key=lambda seeds: smallest_detectable(first, second, half_width, seeds=seeds) <= difference
    )
    return designs[place] if place < len(designs) else None


def most_failing(seeds: int) -> float:
    """Return the largest share of trainings that may fail where none of ``seeds`` did (95 %, one-sided; rule of three).

    Hanley and Lippman-Hand 1983: the share at which as many good runs in a row have a probability of 5 %,
    ``1 - 0.05 ** (1 / seeds)``.

    Example:
        >>> [round(most_failing(seeds), 2) for seeds in (3, 5, 10)]
        [0.63, 0.45, 0.26]
    """
    return 1 - math.pow(1 - LEVEL, 1 / seeds)


def expected_best(values: Sequence[float], n: int, better: Better = "higher") -> float:
    r"""Return the expected best of ``n`` trials drawn from those that were made (Dodge et al. 2019, equation 5).

    .. math:: \sum_k v_{(k)} \left(\hat F(v_{(k)})^n - \hat F(v_{(k - 1)})^n\right)

    with values in their order and :math:`\hat F` the share of trials not above a value. Trials are drawn with
    replacement, so that the best of ``len(values)`` is expected below the best observed (Tang et al. 2020).

    Args:
        values: a score of each trial, as a rule on the validation set; at least one.
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
    ordered = np.sort(values) if better == "higher" else np.sort(values)[::-1]
    shares = (np.arange(len(ordered) + 1) / len(ordered)) ** n
    return float(ordered @ np.diff(shares))


def _observed(first: Sequence[float], second: Sequence[float], half_width: float) -> Variances:
    """The variances of which the half-width was made; what the seeds do not explain is the items'."""
    groups = [np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)]
    runs = len(first) + len(second)
    parts = variances(groups, np.zeros((runs, runs)), 2)
    assert parts.seeds is not None
    from_seeds = t_quantile(parts.seed_df) ** 2 * parts.seeds
    return replace(parts, common=max(0.0, half_width**2 - from_seeds) / t_quantile(math.inf) ** 2, items=0.0)
