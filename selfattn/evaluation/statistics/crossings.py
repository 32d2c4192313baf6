"""Whether, and between which budgets, the order of two models changes."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise

import numpy.typing as npt

from selfattn.evaluation.metrics.metric import Metric
from selfattn.evaluation.statistics.significance import score_counts
from selfattn.results.quality import BudgetDifference, Crossing

LEVEL = 0.98  # of all budgets together: an order that never changes is said to change in at most 1 % of comparisons


def budget_differences(
    counts: Mapping[float, Mapping[str, npt.ArrayLike]],
    metric: Metric,
    pair: tuple[str, str],
    *,
    level: float = LEVEL,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[BudgetDifference, ...]:
    """Measure the difference between two models at every budget, with simultaneous intervals over seeds and items.

    With k budgets each interval has the level ``1 - (1 - level) / k``, so that all hold at once. Budgets share test
    items and may share seeds; Bonferroni's inequality holds however they depend on one another (Dunn 1961).

    Args:
        counts: for each budget and model what the metric counts, ``[s i k]``, as for `significance.score_counts`.
        metric: turns counts into scores.
        pair: the two models; first minus second.
        level: of all intervals together; default `LEVEL`.
        clusters: see `significance.compare_scores`.

    Raises:
        ValueError: see `significance.score_counts`.
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
    alpha = round((1 - level) / len(counts), 12)
    tests = {
        budget: score_counts({name: models[name] for name in pair}, metric, clusters=clusters).pair(*pair, alpha)
        for budget, models in sorted(counts.items())
    }
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
