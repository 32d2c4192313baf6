"""Tuning: quasi-random points of a space of settings, and the search for the best of them by trials.

The tuner of comparisons and claims. Imports neither torch nor, before points are drawn, SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from selfattn.results.space import Axis

K = TypeVar("K")
P = TypeVar("P")
Point: TypeAlias = Mapping[str, float]  # a value for each setting
Rank = tuple[float, float]  # lower is better; the second number breaks ties


def draw_points(axes: Sequence[Axis], count: int, seed: int) -> list[dict[str, float]]:
    """Draw points of a space from one quasi-random sequence, which covers it more evenly than chance (Sobol 1967).

    Args:
        axes: of the space.
        count: number of points; the first ones do not depend on it.
        seed: of the scrambling (Owen 1998).

    Example:
        >>> from selfattn.results.space import parse_axis
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
    """Find the best point of each arm by trials; perhaps widen the search where a best lies at an edge.

    Args:
        points: to try for each arm: settings, or values of one setting.
        measure: returns the rank of each point, lower is better.
        beyond: returns further points for an arm, given those tried and the best; default none.
        widenings: most times that the search is widened.

    Returns:
        The points of each arm in the order in which they were tried, and the best one of each arm.

    Example:
        >>> def measure(tried): return {arm: [(abs(rate - 4), 0) for rate in rates] for arm, rates in tried.items()}
        >>> def beyond(arm, rates, best): return [2 * best] if best == max(rates) else []
        >>> search({"a": [1, 2]}, measure, beyond, widenings=3)
        ({'a': [1, 2, 4, 8]}, {'a': 4})
    """
    tried = {arm: list(of_arm) for arm, of_arm in points.items()}
    while True:
        ranks = measure(tried)
        best = {arm: tried[arm][of_arm.index(min(of_arm))] for arm, of_arm in ranks.items()}
        more: dict[K, Sequence[P]] = {}
        if beyond is not None and widenings:
            more = {arm: beyond(arm, of_arm, best[arm]) for arm, of_arm in tried.items()}
        if not any(more.values()):
            return tried, best
        tried = {arm: [*of_arm, *more[arm]] for arm, of_arm in tried.items()}
        widenings = widenings - 1
