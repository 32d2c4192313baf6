"""From figures to a verdict: contrasts over seeds, with bounds that were fixed before anything was run."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from selfattn.evaluation.statistics.p_values import t_quantile, t_tail
from selfattn.results.claims import Contrast, Judgement, Need
from selfattn.results.quality import Estimate

MARGIN = 0.05  # δ, the suite's margin: five points of a share
SIGNIFICANT = 0.05


def contrast(name: str, values: Sequence[float], need: Need, bound: float, *, least_error: float = 0.0) -> Contrast:
    """Hold a number, measured once for each seed, against a bound.

    Interval and p are those of Student's t over the seeds; for `within` p is that of two one-sided tests, at either
    bound (Schuirmann 1987). Either is doubled, so that p is below 0.05 exactly where the 95 % interval is on the needed
    side.

    Args:
        name: of the contrast.
        values: one a seed, at least two.
        need: on which side of the bound the interval has to be.
        bound: at least 0 for `within`.
        least_error: what the standard error of the mean is never below, such as that of :func:`share_error`; default 0.

    Raises:
        ValueError: fewer than two values, or one that is not finite.

    Example:
        >>> lead = contrast("lead", [0.30, 0.34, 0.29, 0.31, 0.36], "above", 0.1)
        >>> round(lead.mean, 2), round(lead.low, 2), lead.met, lead.p < 0.001
        (0.32, 0.28, True, True)
        >>> contrast("lead", [0.30, -0.34, 0.29, 0.31, 0.36], "above", 0.1).met
        False
    """
    found = estimate_over_seeds(values, least_error=least_error)
    assert found.low is not None
    assert found.high is not None
    # The quantile is that of two seeds where only the least error speaks; no certainty comes of few seeds.
    error, df = (found.high - found.low) / 2 / t_quantile(len(values) - 1), len(values) - 1
    inside = {
        "above": found.mean - bound,
        "below": bound - found.mean,
        "within": bound - abs(found.mean),
    }[need]
    return Contrast(name, found.mean, found.low, found.high, _tail(inside, error, df), need, bound, found.runs)


def _tail(inside: float, error: float, df: int) -> float:
    """The doubled probability of a mean so far on the needed side."""
    if error == 0:
        return 0.0 if inside > 0 else 1.0
    both = t_tail(inside / error, df)
    return min(1.0, both if inside > 0 else 2.0 - both)


def estimate_over_seeds(values: Sequence[float], *, least_error: float = 0.0) -> Estimate:
    """Return a mean with its 95 % interval (Student's t over seeds).

    Args:
        values: one a seed, at least two.
        least_error: what the standard error of the mean is never below; default 0.

    Raises:
        ValueError: fewer than two values, or one that is not finite.

    Example:
        >>> found = estimate_over_seeds([1.0, 2.0, 3.0])
        >>> found.mean, round(found.low, 2), round(found.high, 2)
        (2.0, -0.48, 4.48)
    """
    if len(values) < 2 or not all(map(math.isfinite, values)):
        raise ValueError(f"expected at least two finite numbers, one a seed; got {list(values)}")
    mean = fmean(values)
    half = t_quantile(len(values) - 1) * max(stdev(values) / math.sqrt(len(values)), least_error)
    return Estimate(mean, mean - half, mean + half, tuple(map(float, values)))


def share_error(shares: Sequence[float], items: int) -> float:
    r"""Return the binomial standard error of a mean of shares, for ``least_error``: five full marks are no certainty.

    With :math:`x` right of :math:`n` in all, :math:`\tilde p = (x + 2) / (n + 4)` and the error is
    :math:`\sqrt{\tilde p (1 - \tilde p) / (n + 4)}` (Agresti and Coull 1998), above 0 at the ends as well.

    Args:
        shares: one a seed, each in [0, 1].
        items: that each of them is a share of.

    Example:
        >>> round(share_error([1.0] * 5, 100), 4)
        0.0028
    """
    count = items * len(shares) + 4
    share = (items * math.fsum(shares) + 2) / count
    return math.sqrt(share * (1 - share) / count)


def minus(values: Sequence[float], others: Sequence[float]) -> tuple[float, ...]:
    """Return numbers less others, seed by seed."""
    return tuple(a - b for a, b in zip(values, others, strict=True))


def exact(name: str, error: float, bound: float) -> Contrast:
    """Assert what is a theorem: an error below a bound. No statistic; its p is 0, or 1 where it fails.

    Example:
        >>> exact("difference", 2e-16, 1e-12).met, exact("difference", math.nan, 1e-12).met
        (True, False)
    """
    error = error if math.isfinite(error) else sys.float_info.max  # which a record can keep
    return Contrast(name, error, error, error, 0.0 if error < bound else 1.0, "below", bound, (error,))


def judge(
    contrasts: Sequence[Contrast],
    conditions: Mapping[str, Sequence[Contrast]] | None = None,
    *,
    p_holm: float | None = None,
) -> Judgement:
    """Turn the contrasts of a claim into a verdict.

    =============== =================================================================================
    holds           every contrast is met, and p stays below 0.05 when corrected for all claims (Holm)
    does not hold   the interval of one is wholly on the other side
    conditional     neither, but every contrast of a condition that was named before is met
    not shown       else
    =============== =================================================================================

    A condition that is met goes before `does not hold`: it says where the claim stops being true.

    Args:
        contrasts: of the rule.
        conditions: contrasts of weaker rules by the key of their condition, in order; default none.
        p_holm: the corrected p; default the claim's own.

    Example:
        >>> met = contrast("lead", [0.30, 0.34, 0.29, 0.31, 0.36], "above", 0.1)
        >>> judge([met]).verdict, judge([met], p_holm=0.07).verdict
        ('holds', 'not shown')
    """
    p = claim_p(contrasts)
    p_holm = p if p_holm is None else p_holm
    if all(one.met for one in contrasts) and p_holm < SIGNIFICANT:
        return Judgement("holds", tuple(contrasts), "", p, p_holm)
    for condition, rule in (conditions or {}).items():
        if all(one.met for one in rule):
            return Judgement("conditional", (*contrasts, *rule), condition, p, p_holm)
    opposed = any(one.opposed for one in contrasts)
    return Judgement("does not hold" if opposed else "not shown", tuple(contrasts), "", p, p_holm)


def claim_p(contrasts: Sequence[Contrast]) -> float:
    """Return the p of a rule all of whose contrasts have to be met: the largest."""
    return max(one.p for one in contrasts)
