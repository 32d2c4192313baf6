"""Rules of claims: contrasts over seeds with bounds fixed before the run, positive controls, and the verdict.

They read the figures of trials.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev

from selfattn.evaluation.variances import holm, t_quantile, t_tail
from selfattn.report.blocks import Spot
from selfattn.results.claims import Contrast, Judgement, Need, Trial
from selfattn.results.quality import Estimate

Contrasts = tuple[Contrast, ...]

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
    if len(values) < 2 or not all(map(math.isfinite, values)):
        raise ValueError(f"expected at least two finite numbers, one a seed; got {list(values)}")
    df = len(values) - 1
    mean = fmean(values)
    error = max(stdev(values) / math.sqrt(len(values)), least_error)
    half = t_quantile(df) * error
    inside = {"above": mean - bound, "below": bound - mean, "within": bound - abs(mean)}[need]
    both = t_tail(inside / error, df) if error else 0.0
    p = both if inside > 0 else 1.0
    against = both if inside < 0 else 1.0
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
    result = contrast("mean", values, "above", 0.0)
    return Estimate(result.mean, result.low, result.high, result.by_seed)


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


class Trials:
    """Measurements of all arms with the confirming seeds.

    Args:
        trials: those of an arm in the order of their seeds; the same seeds for every arm.

    Example:
        >>> trials = Trials([Trial("plain", seed, None, {"exact@8": 0.5 + 0.1 * seed}, 1.0) for seed in range(3)])
        >>> trials.arms, trials.values("plain", "exact@8")
        (('plain',), (0.5, 0.6, 0.7))
        >>> [(spot.x, round(spot.y, 3)) for spot in trials.spots("plain", "exact")]
        [(8.0, 0.6)]
    """

    def __init__(self, trials: Iterable[Trial]) -> None:
        self.trials = tuple(trials)

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, in order."""
        return tuple(dict.fromkeys(trial.arm for trial in self.trials))

    def values(self, arm: str, figure: str) -> tuple[float, ...]:
        """Return a figure of an arm, one value a seed.

        Raises:
            KeyError: a trial of the arm lacks it.
        """
        return tuple(trial.figures[figure] for trial in self.trials if trial.arm == arm)

    def figures(self, arm: str) -> tuple[str, ...]:
        """Return the names of an arm's figures, in order."""
        names: dict[str, None] = {}
        for trial in self.trials:
            if trial.arm == arm:
                names |= dict.fromkeys(trial.figures)
        return tuple(names)

    def differences(self, arm: str, other: str, figure: str) -> tuple[float, ...]:
        """Return a figure of one arm minus that of another, seed by seed."""
        return minus(self.values(arm, figure), self.values(other, figure))

    def share_error(self, arms: Iterable[str], figure: str, items: int) -> float:
        """Return the standard error of a sum or difference of the arms' mean shares, each of this many items a seed."""
        return math.hypot(*(share_error(self.values(arm, figure), items) for arm in arms))

    def lead(
        self,
        name: str,
        arm: str,
        other: str,
        figure: str,
        items: int,
        need: Need = "above",
        bound: float = MARGIN,
    ) -> Contrast:
        """Compare the difference of two arms' shares with a bound; see :func:`contrast`.

        Args:
            name: of the contrast.
            arm: whose share it is.
            other: whose share is subtracted.
            figure: a share in [0, 1].
            items: of which the figure is a share.
            need: side of the bound.
            bound: of the difference; default five points.
        """
        error = self.share_error((arm, other), figure, items)
        return contrast(name, self.differences(arm, other, figure), need, bound, least_error=error)

    def mean(self, arm: str, figure: str) -> Estimate:
        """Return the mean of a figure over seeds with its 95 % interval."""
        return estimate_over_seeds(self.values(arm, figure))

    def spots(self, arm: str, figure: str, change: Callable[[float], float] = float) -> tuple[Spot, ...]:
        """Return points of a chart's line: means of ``FIGURE@PLACE`` with their 95 % intervals.

        Args:
            arm: whose line it is.
            figure: its name without the place.
            change: maps a value to what is drawn; default the value.
        """
        spots = []
        for name in self.figures(arm):
            start, _, place = name.partition("@")
            if place and start == figure:
                estimate = estimate_over_seeds([change(value) for value in self.values(arm, name)])
                spots.append(Spot(float(place), estimate.mean, estimate.low, estimate.high))
        return tuple(spots)

    def spots_across(self, arms: Mapping[int, str] | Mapping[float, str], figure: str) -> tuple[Spot, ...]:
        """Return points of a line that goes from arm to arm; arms that were not measured are left out.

        Args:
            arms: the arm at each place along the axis.
            figure: drawn of each arm.
        """
        means = ((place, self.mean(arm, figure)) for place, arm in arms.items() if arm in self.arms)
        return tuple(Spot(place, mean.mean, mean.low, mean.high) for place, mean in means)


def exact(name: str, error: float, bound: float) -> Contrast:
    """Assert a theorem: an error below a bound. There is no statistic; p is 0, or 1 where the assertion fails.

    Example:
        >>> exact("difference", 2e-16, 1e-12).met, exact("difference", math.nan, 1e-12).met
        (True, False)
    """
    error = error if math.isfinite(error) else sys.float_info.max  # JSON has no infinity
    p = 0.0 if error < bound else 1.0
    return Contrast(name, error, error, error, p, "below", bound, (error,), 1.0 if error <= bound else 0.0)


def control(arm: str, values: Sequence[float], least: float) -> Contrast:
    """Return the positive control of an arm: over the seeds, its mean on what is easiest is above a bound.

    The mean counts, not its interval: an arm of which one run in five is stuck has learned, and its interval shows it
    in the rule.

    Args:
        arm: its name.
        values: what it gets on the easiest condition, one a seed.
        least: bound of the mean.

    Example:
        >>> has_learned(control("lstm", [0.9, 1.0], 0.8)), has_learned(control("lstm", [0.2, 0.3], 0.8))
        (True, False)
    """
    return contrast(arm, values, "above", least)


def has_learned(control: Contrast) -> bool:
    """Whether the mean of a positive control is above its bound."""
    return control.mean > control.bound


def judge(
    contrasts: Sequence[Contrast],
    conditions: Mapping[str, Sequence[Contrast]] | None = None,
    others: Iterable[Sequence[float]] = (),
    controls: Sequence[Contrast] = (),
) -> Judgement:
    """Return the verdict of a claim.

    =============== =================================================================================================
    not learned     a positive control failed: an arm has not learned what is easiest, so it shows nothing
    holds           every contrast is met
    conditional     every contrast of a condition that was named before is met; of several such, the first is named
    does not hold   a contrast is opposed: its interval is on the other side of the bound
    not shown       otherwise
    =============== =================================================================================================

    Each of the next three needs a p below 0.05 that is corrected for the claims of the run (Holm). A rule needs all of
    its contrasts, so its p is the largest of theirs. One condition of several, and one opposed contrast of several, are
    chosen after the fact, so their p are multiplied by their number (Bonferroni). A condition that fails takes nothing
    from those behind it.

    Args:
        contrasts: of the rule.
        conditions: contrasts of weaker rules by their condition, the one that says most first; default none.
        others: for each other claim that is tested, what :func:`claim_ps` returns; default none.
        controls: positive controls; default none.

    Example:
        >>> met = contrast("lead", [0.30, 0.34, 0.29, 0.31, 0.36], "above", 0.1)
        >>> judge([met]).verdict, judge([met], others=[(1.0, 1.0, 1.0)] * 10000).verdict
        ('holds', 'not shown')
    """
    contrasts = tuple(contrasts)
    controls = tuple(controls)
    conditions = conditions or {}
    if not all(map(has_learned, controls)):
        return Judgement("not learned", contrasts, controls=controls)
    p_holds, _, p_against = claim_ps(contrasts, conditions)
    rest_holds, rest_weaker, rest_against = list(zip(*others, strict=True)) or [(), (), ()]
    holds = holm([p_holds, *rest_holds])[0]
    if holds < SIGNIFICANT and all(contrast.met for contrast in contrasts):
        return Judgement("holds", contrasts, "", p_holds, holds, controls)
    for condition, rule in conditions.items():
        p_weaker = condition_p(rule, len(conditions))
        weaker = holm([p_weaker, *rest_weaker])[0]
        if weaker < SIGNIFICANT and all(contrast.met for contrast in rule):
            return Judgement("conditional", (*contrasts, *rule), condition, p_weaker, weaker, controls)
    against = holm([p_against, *rest_against])[0]
    if against < SIGNIFICANT:
        return Judgement("does not hold", contrasts, "", p_against, against, controls)
    return Judgement("not shown", contrasts, "", p_holds, holds, controls)


def claim_ps(contrasts: Sequence[Contrast], conditions: Mapping[str, Sequence[Contrast]]) -> tuple[float, float, float]:
    """Return the p of a claim: that it holds, that it holds under some condition, and that it does not hold."""
    holds = max(contrast.p for contrast in contrasts)
    weaker = min((condition_p(rule, len(conditions)) for rule in conditions.values()), default=1.0)
    against = min(contrast.against for contrast in contrasts)
    return holds, weaker, min(1.0, len(contrasts) * against)


def condition_p(rule: Sequence[Contrast], count: int) -> float:
    """Return the p of a condition: all of its contrasts have to be met, and it is one of ``count`` conditions."""
    return min(1.0, count * max(contrast.p for contrast in rule))
