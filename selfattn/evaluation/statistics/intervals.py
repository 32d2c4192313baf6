"""How sure a mean is: intervals over test items."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from selfattn.results.quality import Estimate, IntervalMethod, Over

_LEVEL = 0.95
_METHODS: dict[Over, str] = {
    "items": "percentile bootstrap (Wilson score where all items are right, or all wrong)",
    "seeds and items": "hierarchical bootstrap over seeds and items in closed form, with Student's t for the few seeds "
    "(shares: in the form of the Wilson score)",
}
_Z = 1.959963984540054  # the normal quantile of (1 + _LEVEL) / 2


def interval_method(over: Over, repeated: int = 0) -> IntervalMethod:
    """Say how intervals are made.

    Args:
        over: what varies in them.
        repeated: how many items repeat another one; default 0.

    Example:
        >>> interval_method("items").level
        0.95
    """
    method = _METHODS[over] + (f"; {repeated:,} items repeat another and are drawn with it" if repeated else "")
    return IntervalMethod(_LEVEL, method, over)


def bootstrap_share(
    runs: Sequence[Sequence[bool]] | npt.NDArray[np.bool_], *, seed: int = 0, resamples: int = 2000
) -> Estimate:
    """Estimate a share of right items, and how far it depends on which items were drawn.

    The items are drawn again with replacement, ``resamples`` times, all runs on the same draw; the interval goes from
    the 2.5th to the 97.5th percentile of the means (Efron 1979; Koehn 2004 for test sets). A bootstrap cannot see
    what no item shows: where all are right, or all wrong, its interval would have no width, and the Wilson score
    interval (Wilson 1927) takes its place.

    The interval is over items only: what another seed would give shows in the runs, not in it.

    Args:
        runs: ``[runs, items]``, True where right; at least one item.
        seed: of the draws; default 0.
        resamples: how often to draw; default 2000.

    Raises:
        ValueError: no runs, no items, or runs of different lengths.

    Example:
        >>> interval = bootstrap_share([[True] * 90 + [False] * 10])
        >>> interval.mean, 0.82 < interval.low < 0.86, 0.94 < interval.high < 0.98
        (0.9, True, True)
        >>> bootstrap_share([[True] * 100]).low < 1.0
        True
    """
    right = np.asarray(runs, dtype=np.float64)
    if right.ndim != 2 or not right.size:
        raise ValueError("bootstrap_share expects at least one run with at least one item, all runs of one length")
    mean, items = float(right.mean(axis=0).mean()), right.shape[1]
    if mean in (0.0, 1.0):
        low, high = wilson(round(mean * items), items)
        return Estimate(mean, low, high, tuple(map(float, right.mean(axis=1))))
    return bootstrap_mean(right, seed=seed, resamples=resamples)


def bootstrap_mean(
    runs: Sequence[Sequence[float]] | npt.NDArray[np.float64], *, seed: int = 0, resamples: int = 2000
) -> Estimate:
    """Estimate a mean over items, and how far it depends on which were drawn, as :func:`bootstrap_share` does.

    Args:
        runs: ``[runs, items]``.
        seed: of the draws; default 0.
        resamples: how often to draw; default 2000.

    Example:
        >>> bootstrap_mean([[0.5, 0.5, 0.5]])
        Estimate(mean=0.5, low=0.5, high=0.5, runs=(0.5,))
    """
    found = np.asarray(runs, dtype=np.float64)
    by_item, by_run = found.mean(axis=0), tuple(map(float, found.mean(axis=1)))
    mean, items = float(by_item.mean()), by_item.size
    # An item counts by its value alone, so a draw is how often each of the few values came up.
    values, counts = np.unique(by_item, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(items, counts / items, size=resamples)
    low, high = np.quantile(drawn @ values / items, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(mean, min(float(low), mean), max(float(high), mean), by_run)


def wilson(right: int, items: int) -> tuple[float, float]:
    r"""Return the 95 % Wilson score interval of a share (Wilson 1927).

    .. math:: \frac{p + z^2 / 2n \pm z \sqrt{p (1 - p) / n + z^2 / 4 n^2}}{1 + z^2 / n}

    Args:
        right: how many were right.
        items: how many there were, at least 1.

    Example:
        >>> low, high = wilson(100, 100)
        >>> round(low, 3), high
        (0.963, 1.0)
    """
    share, square = right / items, _Z**2
    centre = share + square / (2 * items)
    half = _Z * math.sqrt(share * (1 - share) / items + square / (4 * items**2))
    scale = 1 + square / items
    # At the ends the formula gives 0 and 1 but for rounding.
    low = 0.0 if right == 0 else (centre - half) / scale
    high = 1.0 if right == items else (centre + half) / scale
    return low, high
