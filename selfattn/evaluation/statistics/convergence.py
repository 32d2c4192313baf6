"""Whether training is over: that twice as much of it takes away few errors is shown, not presumed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from selfattn.evaluation.metrics.metric import Array, Metric
from selfattn.evaluation.statistics.significance import MIN_SEEDS, RESAMPLES, run_scores
from selfattn.evaluation.statistics.variances import ALPHA, variances
from selfattn.results.budgets import Convergence
from selfattn.results.quality import Better, Unit

MARGIN = 0.1  # of the errors


def errors_of(scores: Array, unit: Unit, better: Better) -> Array:
    """Turn scores into errors: what is missing to the best possible score, or the score itself where lower is better.

    Example:
        >>> errors_of(np.array([0.75]), "share", "higher"), errors_of(np.array([40.0]), "points", "higher")
        (array([0.25]), array([60.]))
    """
    return scores if better == "lower" else (1.0 if unit == "share" else 100.0) - scores


def converged(
    once: npt.ArrayLike,
    twice: npt.ArrayLike,
    metric: Metric,
    *,
    margin: float = MARGIN,
    resamples: int = RESAMPLES,
    clusters: Sequence[Hashable] | None = None,
) -> Convergence:
    r"""Test whether twice the training takes away less than a share of a model's errors, over seeds and items.

    A missing difference shows nothing: with few seeds and items every difference is missing. What is tested is that the
    share :math:`\rho = 1 - e_2 / e_1` is at least the margin, and "converged" says that this was rejected: one of the
    two one-sided tests of equivalence (Schuirmann 1987), since training that adds errors is no reason to train on. The
    bound of the ratio is Fieller's (1954): the largest :math:`\rho` at which :math:`(1 - \rho) e_1 - e_2` is not below
    0 for certain, with the variances of `variances.Variances`, one-sided at 5 %.

    Args:
        once: ``[s i k]``: what the metric counts in each run.
        twice: the same of runs trained twice as long, each with a complete schedule of its own.
        metric: makes scores of them.
        margin: share of errors that still counts as few; default 0.1.
        resamples: see `significance.compare_counts`.
        clusters: see `significance.compare_scores`.

    Returns:
        Not converged, without a bound, with fewer than three runs of either, or without a single error to take away.

    Raises:
        ValueError: see `significance.compare_counts`; or a margin that is not between 0 and 1.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> draw = np.random.default_rng(0).random((2, 5, 4000))
        >>> right = lambda k, share: np.stack([draw[k] < share, np.ones_like(draw[k])], axis=-1)
        >>> metric = make_metric("exact_match")
        >>> [converged(right(0, 0.5), right(1, share), metric).converged for share in (0.5, 0.6)]
        [True, False]
    """
    if not 0 < margin < 1:
        raise ValueError(f"margin must be between 0 and 1, got {margin}")
    found = run_scores({"once": once, "twice": twice}, metric, resamples, clusters)
    first, second = (errors_of(found.runs[name], metric.unit, metric.better) for name in ("once", "twice"))
    reduction = 1 - float(second.mean() / first.mean()) if first.mean() > 0 else None
    if reduction is None or min(len(first), len(second)) < MIN_SEEDS:
        return Convergence(False, reduction, None, margin)
    extra = 0.0 if found.right is None else 1 / found.items**2

    def half_width(share: float) -> float:
        """Half the width of the interval of (1 - share) * once - twice."""
        scale = np.concatenate([np.full(len(first), 1 - share), np.ones(len(second))])
        groups = [first * (1 - share), second]
        found_at = variances(groups, found.covariance * np.outer(scale, scale), found.items, extra=extra)
        return found_at.half_width(1 - 2 * ALPHA)

    # The bound is where the difference, (reduction - share) * errors, is no further below 0 than that.
    bound, errors = reduction, float(first.mean())
    for _ in range(100):
        bound, before = reduction + half_width(bound) / errors, bound
        if bound >= 1:
            break
        if abs(bound - before) < 1e-10:
            return Convergence(bound < margin, reduction, bound, margin)
    return Convergence(False, reduction, None, margin)
