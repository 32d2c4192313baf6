"""Rules of claims: contrasts over seeds, with bounds fixed before anything is run, and the verdict."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from selfattn.evaluation.statistics.p_values import t_quantile, t_tail
from selfattn.results.claims import Contrast, Judgement, Need
from selfattn.results.quality import Estimate

MARGIN = 0.05  # five points of a share: the suite's smallest difference worth having
SIGNIFICANT = 0.05


def contrast(name: str, values: Sequence[float], need: Need, bound: float, *, least_error: float = 0.0) -> Contrast:
    """Compare a quantity, measured once a seed, with a bound.

    Interval and p are Student's t over the seeds; for `within`, p is that of two one-sided tests (Schuirmann 1987). p
    is doubled, so that it is below 0.05 exactly where the 95 % interval is on the needed side.

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
    if error == 0:
        p = 0.0 if inside > 0 else 1.0
    else:
        both = t_tail(inside / error, df)
        p = min(1.0, both if inside > 0 else 2.0 - both)
    return Contrast(name, mean, mean - half, mean + half, p, need, bound, tuple(map(float, values)))


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
    return Contrast(name, error, error, error, 0.0 if error < bound else 1.0, "below", bound, (error,))


def judge(
    contrasts: Sequence[Contrast],
    conditions: Mapping[str, Sequence[Contrast]] | None = None,
    *,
    p_holm: float | None = None,
) -> Judgement:
    """Return the verdict of a claim.

    =============== =================================================================================
    holds           every contrast is met, and p is below 0.05, corrected for all claims (Holm)
    conditional     every contrast of a condition that was named before is met
    does not hold   the interval of a contrast is wholly on the other side
    not shown       otherwise
    =============== =================================================================================

    Args:
        contrasts: of the rule.
        conditions: contrasts of weaker rules by their condition, in order; default none.
        p_holm: the corrected p; default uncorrected.

    Example:
        >>> met = contrast("lead", [0.30, 0.34, 0.29, 0.31, 0.36], "above", 0.1)
        >>> judge([met]).verdict, judge([met], p_holm=0.07).verdict
        ('holds', 'not shown')
    """
    p = claim_p(contrasts)
    p_holm = p if p_holm is None else p_holm
    if all(contrast.met for contrast in contrasts) and p_holm < SIGNIFICANT:
        return Judgement("holds", tuple(contrasts), "", p, p_holm)
    for condition, rule in (conditions or {}).items():
        if all(contrast.met for contrast in rule):
            return Judgement("conditional", (*contrasts, *rule), condition, p, p_holm)
    opposed = any(contrast.opposed for contrast in contrasts)
    return Judgement("does not hold" if opposed else "not shown", tuple(contrasts), "", p, p_holm)


def claim_p(contrasts: Sequence[Contrast]) -> float:
    """Return the p of a rule that needs all of its contrasts: the largest."""
    return max(contrast.p for contrast in contrasts)
