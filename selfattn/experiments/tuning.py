"""Tuning: draw quasi-random points of a space of settings, and find the best point of each arm by trials.

Comparisons and claims both tune with it. It never imports torch, and imports SciPy only when it draws points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from selfattn.results.plan import Axis

K = TypeVar("K")
P = TypeVar("P")
Rank = tuple[float, float]  # lower is better; the second number breaks ties


def draw_points(axes: Sequence[Axis], count: int, seed: int) -> list[dict[str, float]]:
    """Draw points of a space from one quasi-random sequence (Sobol 1967), which covers it more evenly than chance.

    Args:
        axes: of the space.
        count: number of points. A larger number adds points and does not change the first ones.
        seed: of the scrambling (Owen 1998).

    Example:
        >>> from selfattn.results.plan import parse_axis
        >>> points = draw_points([parse_axis("lr=1e-3..1e-1:log"), parse_axis("batch_size=8,16")], 4, seed=0)
        >>> sorted(point["batch_size"] for point in points), sum(point["lr"] < 0.01 for point in points)
        ([8.0, 8.0, 16.0, 16.0], 2)
    """
    import numpy as np
    from scipy.stats import qmc

    sequence = qmc.Sobol(len(axes), scramble=True, seed=np.random.default_rng(seed))
    places = sequence.random_base2(max(0, math.ceil(math.log2(count))))[:count].tolist()
    return [{axis.name: axis.at(place) for axis, place in zip(axes, row, strict=True)} for row in places]


def search(
    points: Mapping[K, Sequence[P]],
    measure: Callable[[Mapping[K, Sequence[P]]], Mapping[K, Sequence[Rank]]],
    beyond: Callable[[K, Sequence[P], P], Sequence[P]] | None = None,
    *,
    widenings: int = 0,
) -> tuple[Mapping[K, Sequence[P]], Mapping[K, P]]:
    """Find the best point of each arm by trials; with ``beyond``, widen the search where it is needed.

    Args:
        points: to try for each arm: settings, or values of one setting.
        measure: returns the rank of each point, lower is better. After a widening it gets all points again, the earlier
            ones included.
        beyond: returns further points for an arm, given its points so far and the best of them, for example where the
            best lies at an edge; default none.
        widenings: most times that the search is widened.

    Returns:
        The points of each arm in the order in which they were tried, and the best point of each arm.

    Example:
        >>> def measure(tried): return {arm: [(abs(rate - 4), 0) for rate in rates] for arm, rates in tried.items()}
        >>> def beyond(arm, rates, best): return [2 * best] if best == max(rates) else []
        >>> search({"a": [1, 2]}, measure, beyond, widenings=3)
        ({'a': [1, 2, 4, 8]}, {'a': 4})
    """
    tried = {arm: list(arm_points) for arm, arm_points in points.items()}
    while True:
        ranks = measure(tried)
        best = {arm: tried[arm][arm_ranks.index(min(arm_ranks))] for arm, arm_ranks in ranks.items()}
        more: dict[K, Sequence[P]] = {}
        if beyond is not None and widenings:
            more = {arm: beyond(arm, arm_points, best[arm]) for arm, arm_points in tried.items()}
        if not any(more.values()):
            return tried, best
        tried = {arm: [*arm_points, *more[arm]] for arm, arm_points in tried.items()}
        widenings = widenings - 1
