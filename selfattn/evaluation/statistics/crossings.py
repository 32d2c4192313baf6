"""Whether, and between which budgets, the order of two models changes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise

import numpy.typing as npt

from selfattn.evaluation.metrics.metric import Metric
from selfattn.evaluation.statistics.significance import RESAMPLES, run_scores
from selfattn.results.budgets import BudgetDifference, Crossing

LEVEL = 0.98  # of all budgets together: an order that never changes is said to change in at most 1 % of comparisons


def simultaneous_level(cells: int, level: float = LEVEL) -> float:
    """Return the level of each of several intervals that all hold the truth at once with the level asked for.

    They share test items and may share seeds; Bonferroni's inequality holds however they depend on one another
    (Dunn 1961).

    Args:
        cells: how many intervals, at least 1.
        level: of all together, above 0 and below 1; default `LEVEL`.

    Raises:
        ValueError: outside these bounds.

    Example:
        >>> round(simultaneous_level(5, 0.95), 4)
        0.99
    """
    if cells < 1 or not 0 < level < 1:
        raise ValueError(f"expected at least one interval and a level between 0 and 1, got {cells} and {level}")
    return 1 - (1 - level) / cells


def budget_differences(
    counts: Mapping[float, Mapping[str, npt.ArrayLike]],
    metric: Metric,
    pair: tuple[str, str],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[BudgetDifference, ...]:
    """Measure the difference between two models at every budget, with simultaneous intervals over seeds and items.

    Args:
        counts: for each budget and model what the metric counts, ``[s i k]``, as for `significance.compare_counts`.
        metric: makes scores of them.
        pair: the two models; first minus second.
        level: of all intervals together; default `LEVEL`.
        resamples: see `significance.compare_counts`.
        clusters: see `significance.compare_scores`.

    Raises:
        ValueError: see `significance.compare_counts`.
        KeyError: a budget at which one of the two models is missing.

    Example:
        >>> import numpy as np
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> draw = np.random.default_rng(0).random((5, 1000))
        >>> right = lambda share: np.stack([draw < share, np.ones_like(draw)], axis=-1)
        >>> counts = {1.0: {"a": right(0.6), "b": right(0.8)}, 2.0: {"a": right(0.95), "b": right(0.85)}}
        >>> locate(budget_differences(counts, make_metric("exact_match"), ("a", "b")))
        Crossing(kind='located', between=(1.0, 2.0), changes=1)
    """
    alone = simultaneous_level(len(counts), level)
    found = []
    for budget, models in sorted(counts.items()):
        scores = run_scores({name: models[name] for name in pair}, metric, resamples, clusters)
        found.append(BudgetDifference(budget, *scores.difference(*pair, alone)))
    return tuple(found)


def locate(differences: Sequence[BudgetDifference]) -> Crossing:
    """Say where two models change places, as far as simultaneous intervals carry it.

    A sign is clear where the interval leaves out 0. The first rule that holds decides:

    1. **located**: there are two budgets with clear signs that are opposite. The crossing lies between the nearest such
       two, nearest by their ratio; where clear signs change more than once (``changes``) there is a crossing between
       each two that differ, and these are the nearest of all.
    2. **not located**: there are no such two, but the differences themselves change sign: the lines between the means
       cross, and that may be luck. In simulation they cross in most comparisons of models that never do.
    3. **none seen**: the differences are all of one side (0 is of both), clearly or not. That is said of the budgets
       tried alone, and is no proof that there is none.

    Args:
        differences: one for each budget, with simultaneous intervals (`budget_differences`), in any order.

    Raises:
        ValueError: fewer than two budgets, a budget given twice or not above 0, or an interval without its difference.

    Example:
        >>> found = [BudgetDifference(1, -3.0, -4.0, -2.0), BudgetDifference(2, 0.1, -1.0, 1.2)]
        >>> locate(found).kind
        'not located'
        >>> locate([*found, BudgetDifference(4, 2.0, 1.0, 3.0)])
        Crossing(kind='located', between=(1, 4), changes=1)
    """
    ordered = sorted(differences, key=lambda one: one.budget)
    budgets = [one.budget for one in ordered]
    if len(set(budgets)) < max(2, len(budgets)) or not all(0 < budget < math.inf for budget in budgets):
        raise ValueError(f"expected two budgets or more, all different and above 0, got {budgets}")
    for one in ordered:
        if not one.low <= one.difference <= one.high:
            raise ValueError(f"budget {one.budget:g}: {one.difference} is not within [{one.low}, {one.high}]")
    clear = [one for one in ordered if one.low > 0 or one.high < 0]
    changes = [(a.budget, b.budget) for a, b in pairwise(clear) if (a.low > 0) != (b.low > 0)]
    if changes:
        return Crossing("located", min(changes, key=lambda two: two[1] / two[0]), len(changes))
    both_sides = min(one.difference for one in ordered) < 0 < max(one.difference for one in ordered)
    return Crossing("not located" if both_sides else "none seen")
