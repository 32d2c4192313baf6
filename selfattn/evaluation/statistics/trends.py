"""Errors against budgets: a line through their logarithms where one fits, and the budget that a quality needs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from selfattn.evaluation.metrics.metric import Array, Metric
from selfattn.evaluation.statistics.convergence import errors_of
from selfattn.evaluation.statistics.p_values import f_tail, t_quantile
from selfattn.evaluation.statistics.significance import MIN_SEEDS, RESAMPLES, run_scores
from selfattn.evaluation.statistics.variances import LEVEL
from selfattn.results.budgets import BudgetNeeded, Trend

FEWEST_BUDGETS = 5
FIT_P = 0.1  # a line is drawn above it


def fit_trend(
    counts: Mapping[float, npt.ArrayLike],
    metric: Metric,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    clusters: Sequence[Hashable] | None = None,
) -> Trend:
    r"""Fit a power law, :math:`e = a B^b`, to one model's errors at several budgets, and test whether it fits.

    Least squares on :math:`\log \bar e` against :math:`\log B`, budgets weighted by their runs. The test of lack of fit
    (Draper and Smith 1998, section 2.1) holds what the budgets' means are away from the line against pure error: how
    runs of one budget differ from one another, in relation to their mean. All runs answer the same items, which pull
    all runs of a budget to one side; what that alone would add to the distances is added to pure error. The band takes
    each budget's variance as it is. Degrees of freedom of sums: Satterthwaite 1946.

    Args:
        counts: for each budget ``[s i k]``, what the metric counts in each run, each with a complete schedule.
        metric: makes scores of them; errors are those of `convergence.errors_of`.
        level: of the band around the line; default 0.95.
        resamples: see `significance.compare_counts`.
        clusters: see `significance.compare_scores`.

    Returns:
        With the word ``line`` only where there are five budgets or more, three runs of each, errors at all of them, and
        no lack of fit (p > 0.1). With any other word it says why no line may be drawn.

    Raises:
        ValueError: see `significance.compare_counts`; or a budget that is not above 0.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> draws = np.random.default_rng(0).random((5, 5, 4000))
        >>> right = {budget: draw > 0.4 / budget**0.5 for budget, draw in zip((1, 2, 4, 8, 16), draws)}
        >>> counts = {budget: np.stack([one, np.ones_like(one)], axis=-1) for budget, one in right.items()}
        >>> found = fit_trend(counts, make_metric("exact_match"))
        >>> found.word, round(found.slope, 2)
        ('line', -0.48)
        >>> needed = budget_for(0.2, found)
        >>> 3 < needed.low < 4 < needed.high < 5
        True
    """
    budgets = sorted(counts)
    if not budgets or not 0 < budgets[0] <= budgets[-1] < math.inf:
        raise ValueError(f"expected budgets above 0, got {budgets}")
    between = (budgets[0], budgets[-1])
    if len(budgets) < FEWEST_BUDGETS:
        return Trend("too few budgets", between)
    found = run_scores({str(budget): counts[budget] for budget in budgets}, metric, resamples, clusters)
    cells = [errors_of(runs, metric.unit, metric.better) for runs in found.runs.values()]
    if min(map(len, cells)) < MIN_SEEDS:
        return Trend("too few seeds", between)
    means = np.array([cell.mean() for cell in cells])
    if not means.min() > 0:
        return Trend("no errors", between)
    return _fit(np.log(budgets), cells, means, found.covariance, between, level)


def _fit(
    x: Array, cells: Sequence[Array], means: Array, covariance: Array, between: tuple[float, float], level: float
) -> Trend:
    sizes = np.array([len(cell) for cell in cells])
    runs, free = int(sizes.sum()), len(cells) - 2
    centre = float(sizes @ x / runs)
    columns = np.stack([np.ones_like(x), x - centre], axis=1)
    weights = np.linalg.solve(columns.T * sizes @ columns, columns.T * sizes)  # from means to height and slope
    height, slope = weights @ np.log(means)
    away = np.log(means) - columns @ (height, slope)
    own = np.array([cell.var(ddof=1) / len(cell) / cell.mean() ** 2 for cell in cells])  # variances of log means
    common = _common(covariance, sizes) / np.outer(means, means)
    rest = np.eye(len(x)) - columns @ weights
    apart, from_items = float(sizes @ away**2), max(0.0, float(np.trace((rest.T * sizes) @ rest @ common)))
    pure = float(own @ (sizes * (sizes - 1))) / (runs - len(x))
    expected = pure + from_items / free
    degrees = (expected / pure) ** 2 * (runs - len(x)) if pure else math.inf
    fit_p = f_tail(apart / free / expected if expected else math.inf, free, min(degrees, 1e6))
    tail = round(1 - level, 12)
    # Runs differ more, in relation to their errors, where these are few: every budget has its own variance, and the
    # degrees of freedom are those of the end that has fewer.
    at_ends = (columns[[0, -1]] @ weights) ** 2 * own
    fewest = min(float(part.sum()) ** 2 / max(1e-300, float((part**2 / (sizes - 1)).sum())) for part in at_ends)
    t, z = t_quantile(max(1.0, fewest), tail), t_quantile(math.inf, tail)
    squares = weights @ (t**2 * np.diag(own) + z**2 * common) @ weights.T
    band = (max(0.0, float(squares[0, 0])), 2 * float(squares[0, 1]), max(0.0, float(squares[1, 1])))
    return Trend("line" if fit_p > FIT_P else "lack of fit", between, fit_p, centre, float(height), float(slope), band)


def _common(covariance: Array, sizes: Array) -> Array:
    """Of each two budgets the mean covariance of two different runs: what the items do to all runs alike, ``[k k]``."""
    whose = np.repeat(np.eye(len(sizes)), sizes.astype(int), axis=0)  # [r k]
    own = np.diag(whose.T @ np.diag(covariance))
    found: Array = (whose.T @ covariance @ whose - own) / (np.outer(sizes, sizes) - np.diag(sizes))
    return found


def budget_for(error: float, trend: Trend) -> BudgetNeeded:
    """Return the budget at which the line reaches an error, with its 95 % interval by inversion of the line's band.

    The interval holds the budgets at which the band around the line holds the error (Fieller 1954; inverse regression
    with a value that is given: Graybill 1976, section 8.5). It is asymmetric, and it ends where budgets do: outside
    those that were tried the line says nothing, and an end there is None, as is a budget there: censored.

    Args:
        error: to be reached, in the unit of `convergence.errors_of`; above 0.
        trend: with the word ``line``.

    Raises:
        ValueError: an error that is not above 0, or a trend that is no line.

    Example:
        >>> line = Trend("line", (1.0, 16.0), 0.5, 1.4, -1.6, -0.5, (0.0004, 0.0, 0.0001))
        >>> found = budget_for(0.2, line)
        >>> round(found.low, 2), round(found.budget, 2), round(found.high, 2)
        (3.97, 4.13, 4.3)
        >>> budget_for(0.01, line)
        BudgetNeeded(error=0.01, budget=None, low=16.0, high=None)
    """
    if not error > 0:
        raise ValueError(f"expected an error above 0, got {error}")
    if trend.word != "line":
        raise ValueError(f"no line may be drawn: {trend.word}")
    lowest, highest = (math.log(budget) - trend.centre for budget in trend.between)
    above = trend.height - math.log(error)
    constant, linear, square = trend.band
    polynomial = (trend.slope**2 - square, 2 * trend.slope * above - linear, above**2 - constant)

    def inside(place: float) -> bool:
        return bool(np.polyval(polynomial, place) <= 0)

    roots = [root.real for root in np.roots(polynomial) if abs(root.imag) < 1e-12 and lowest < root.real < highest]
    held = [place for place in (lowest, highest) if inside(place)] + roots
    reached = -above / trend.slope if trend.slope else math.inf
    budget = math.exp(reached + trend.centre) if lowest <= reached <= highest else None
    if not held:  # all of the band is on one side
        low, high = (trend.between[1], None) if above + trend.slope * highest > 0 else (None, trend.between[0])
        return BudgetNeeded(error, budget, low, high)
    low = None if inside(lowest) else math.exp(min(held) + trend.centre)
    high = None if inside(highest) else math.exp(max(held) + trend.centre)
    return BudgetNeeded(error, budget, low, high)
