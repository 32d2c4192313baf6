"""Rules of claims: contrasts over seeds, with bounds fixed before anything is run, and the verdict."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from selfattn.evaluation.statistics.p_values import holm, t_quantile, t_tail
from selfattn.results.claims import Contrast, Judgement, Need
from selfattn.results.quality import Estimate

MARGIN = 0.05  # five points of a share: the suite's smallest difference worth having
SIGNIFICANT = 0.05


def contrast(name: str, values: Sequence[float], need: Need, bound: float, *, least_error: float = 0.0) -> Contrast:
    """Compare a quantity, measured once a seed, with a bound.

    Interval and p are Student's t over the seeds; for `within`, p is that of two one-sided tests (Schuirmann 1987). p
    is doubled, so that it is below 0.05 exactly where the 95 % interval is on the needed side; likewise `against`, the
    p of the other side.

    Args:
        name: of the contrast.
        values: one a seed, at least two.
        need: side of the bound on which the interval has to be.
        bound: at least 0 for `within`.
        least_error: lower limit of the standard error, such as :func:`share_error`; default 0.

    Raises:
        ValueError: fewer than two values, or one that is not finite.

    Example:
        >>> lead = contrast("lead", [0.30, 0.34, 0.29, 0.31, 0.36], "above", 0.1)
        >>> round(lead.mean, 2), round(lead.low, 2), lead.met, lead.p < 0.001
        (0.32, 0.28, True, True)
        >>> contrast("lead", [0.30, -0.34, 0.29, 0.31, 0.36], "above", 0.1).met
        False
    """
    mean, error = _mean_and_error(values, least_error)
    df = len(values) - 1
    half = t_quantile(df) * error
    inside = {"above": mean - bound, "below": bound - mean, "within": bound - abs(mean)}[need]
    both = t_tail(inside / error, df) if error else 0.0
    p, against = (both, 1.0) if inside > 0 else (1.0, both if inside < 0 else 1.0)
    return Contrast(name, mean, mean - half, mean + half, p, need, bound, tuple(map(float, values)), against)


def estimate_over_seeds(values: Sequence[float]) -> Estimate:
    """Return a mean with its 95 % interval (Student's t over seeds).

    Args:
        values: one a seed, at least two.

    Raises:
        ValueError: fewer than two values, or one that is not finite.

    Example:
        >>> estimate = estimate_over_seeds([1.0, 2.0, 3.0])
        >>> estimate.mean, round(estimate.low, 2), round(estimate.high, 2)
        (2.0, -0.48, 4.48)
    """
    mean, error = _mean_and_error(values, 0.0)
    half = t_quantile(len(values) - 1) * error
    return Estimate(mean, mean - half, mean + half, tuple(map(float, values)))


def _mean_and_error(values: Sequence[float], least_error: float) -> tuple[float, float]:
    if len(values) < 2 or not all(map(math.isfinite, values)):
        raise ValueError(f"expected at least two finite numbers, one a seed; got {list(values)}")
    return fmean(values), max(stdev(values) / math.sqrt(len(values)), least_error)


def share_error(shares: Sequence[float], items: int) -> float:
    r"""Return the binomial standard error of a mean of shares, for ``least_error``: full marks are no certainty.

    With :math:`x` right of :math:`n` in all, :math:`\tilde p = (x + 2) / (n + 4)` and the error is
    :math:`\sqrt{\tilde p (1 - \tilde p) / (n + 4)}` (Agresti and Coull 1998).

    Args:
        shares: one a seed, each in [0, 1].
        items: of which each is a share.

    Example:
        >>> round(share_error([1.0] * 5, 100), 4)
        0.0028
    """
    count = items * len(shares) + 4
    share = (items * math.fsum(shares) + 2) / count
    return math.sqrt(share * (1 - share) / count)


def minus(values: Sequence[float], others: Sequence[float]) -> tuple[float, ...]:
    """Return differences, seed by seed."""
    return tuple(a - b for a, b in zip(values, others, strict=True))


def exact(name: str, error: float, bound: float) -> Contrast:
    """Assert a theorem: an error below a bound. There is no statistic; p is 0, or 1 where the assertion fails.

    Example:
        >>> exact("difference", 2e-16, 1e-12).met, exact("difference", math.nan, 1e-12).met
        (True, False)
    """
    error = error if math.isfinite(error) else sys.float_info.max  # JSON has no infinity
    p = 0.0 if error < bound else 1.0
    return Contrast(name, error, error, error, p, "below", bound, (error,), 1.0 if error <= bound else 0.0)


def judge(
    contrasts: Sequence[Contrast],
    conditions: Mapping[str, Sequence[Contrast]] | None = None,
    others: Iterable[Sequence[float]] = (),
) -> Judgement:
    """Return the verdict of a claim.

    =============== =================================================================================================
    holds           every contrast is met
    conditional     every contrast of a condition that was named before is met
    does not hold   a contrast is opposed: its interval is on the other side of the bound
    not shown       otherwise
    =============== =================================================================================================

    Each of the first three needs a p below 0.05 that is corrected for the claims of the run (Holm). A rule needs all of
    its contrasts, so its p is the largest of theirs. One condition of several, and one opposed contrast of several, are
    chosen after the fact, so the smallest p is multiplied by their number (Bonferroni).

    Args:
        contrasts: of the rule.
        conditions: contrasts of weaker rules by their condition, in order; default none.
        others: for each other claim that is tested, what :func:`claim_ps` returns; default none.

    Example:
        >>> met = contrast("lead", [0.30, 0.34, 0.29, 0.31, 0.36], "above", 0.1)
        >>> judge([met]).verdict, judge([met], others=[(1.0, 1.0, 1.0)] * 10000).verdict
        ('holds', 'not shown')
    """
    ps, columns = claim_ps(contrasts, conditions or {}), list(zip(*others, strict=True)) or [()] * 3
    p_holds, p_weaker, p_against = (holm([p, *rest])[0] for p, rest in zip(ps, columns, strict=True))
    if p_holds < SIGNIFICANT and all(contrast.met for contrast in contrasts):
        return Judgement("holds", tuple(contrasts), "", ps[0], p_holds)
    for condition, rule in (conditions or {}).items():
        if p_weaker < SIGNIFICANT and all(contrast.met for contrast in rule):
            return Judgement("conditional", (*contrasts, *rule), condition, ps[1], p_weaker)
    if p_against < SIGNIFICANT:
        return Judgement("does not hold", tuple(contrasts), "", ps[2], p_against)
    return Judgement("not shown", tuple(contrasts), "", ps[0], p_holds)


def claim_ps(contrasts: Sequence[Contrast], conditions: Mapping[str, Sequence[Contrast]]) -> tuple[float, float, float]:
    """Return the p of a claim: that it holds, that it holds under a condition, and that it does not hold."""
    rules = [max(contrast.p for contrast in rule) for rule in conditions.values()]
    weaker = next((p for p in rules if p < SIGNIFICANT), 1.0)
    against = min(contrast.against for contrast in contrasts)
    return (
        max(contrast.p for contrast in contrasts),
        min(1.0, max(1, len(rules)) * weaker),
        min(1.0, len(contrasts) * against),
    )
