"""What a claim is: a sentence, arms to measure, a rule that is fixed before the run, and a plot.

Rules read the figures of trials: contrasts over seeds with bounds fixed before the run, and the verdict.
"""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import chain
from statistics import fmean, stdev
from typing import Any, ClassVar, Literal

from selfattn.evaluation.variances import holm, t_quantile, t_tail
from selfattn.registry import CLAIMS
from selfattn.report.blocks import Block, Cell, Chart, ChartLine, Column, Row, Spot, Table
from selfattn.report.numbers import Scale, estimate_text, number_scale, power_of_ten
from selfattn.results.claims import Contrast, Judgement, Need, Trial
from selfattn.results.quality import Estimate
from selfattn.words.messages import Message, TextLike, read_words

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
    """Return the p of a condition: all of its contrasts have to be met, and it is one of so many conditions."""
    return min(1.0, count * max(contrast.p for contrast in rule))


Blocks = tuple[Block, ...]


@dataclass(frozen=True)
class Arm:
    """One of the alternatives that a claim compares.

    Attributes:
        name: of the arm; the claim's words have it as `arm.NAME`.
        settings: plain values for `measure`.
        rates: learning rates to try; none where nothing is trained.
        alone: whether it measures times: it then runs after all others, with nothing beside it.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...] = ()
    alone: bool = False


@dataclass(frozen=True)
class Setup:
    """What a trial is a function of: an arm, a seed and a learning rate.

    Attributes:
        arm: to measure; its settings are items of the setup.
        seed: of every random stream.
        rate: learning rate; None where nothing is trained.
    """

    arm: Arm
    seed: int
    rate: float | None = None

    def __getitem__(self, setting: str) -> Any:
        return self.arm.settings[setting]


class Claim(ABC):
    """A claim of the textbook as a controlled experiment.

    Its words stand in catalogues (`words/LANG/NAME.po`) or, for a plugin, in the class attribute `words`:
    ``sentence``, ``shows`` (the result in one plain sentence, with the names of `shows` in braces), ``explanation``
    (paragraphs with a blank line between them; each term explained where it first stands), ``varied``, ``held``,
    ``rule``, ``easiest`` where there are positive controls, ``arm.NAME``, ``contrast.NAME``, ``condition.KEY``,
    captions of its plot; and ``finding.VERDICT``, which explains a verdict against the textbook on the page of a full
    run. Every text may name a size in braces.

    Args:
        quick: a quick run, with the sizes and seeds for a class.

    Attributes:
        name: under which it is registered.
        source: paper and section.
        seconds: of the quick and of the full run, on two processor cores; 0 where a quick run cannot decide the claim.
        theorem: whether it is an assertion; then it is not corrected for many tests.
        seeds: number of confirming seeds.
        points: names of contrasts that are differences of shares, shown in percentage points.
        kinds: settings of the arms, by name.
        rates: learning rates to try for each arm; none where nothing is trained.
        learned: positive controls: for an arm, a figure on what is easiest and the bound that its mean has to exceed.
            Where one does not, the claim gets no verdict: an arm that has learned nothing shows nothing. ``easiest``
            are the words for the figure.
        weaker: conditions, the one that says most first; each with the contrasts of the rule that it needs. One whose
            contrasts a quick run does not measure is left out.
        sizes: settings that all arms share.
        quick_sizes: what differs in a quick run.
        quick_rates: learning rates of arms in a quick run; default the middle one.
        not_quick: arms that a quick run leaves out.
        shows: results in the plain sentence: for each name an arm and a figure of it. Those with words ``bar.NAME`` are
            also drawn as bars.
        unit: of the bars: a share, or a number.
        figure: drawn along its places (``FIGURE@PLACE``), one line for each arm; or of the arms of `lines`.
        lines: of the plot, where a line goes from arm to arm: the arm at each place.
        columns: figures in the table below the plot, with what writes each.
        words: by language, texts by key; None takes the catalogues.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    seconds: ClassVar[tuple[float, float]]
    theorem: ClassVar[bool] = False
    seeds: ClassVar[int] = 5
    points: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    rates: ClassVar[tuple[float, ...]] = ()
    learned: ClassVar[Mapping[str, tuple[str, float]]] = {}
    weaker: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    sizes: ClassVar[Mapping[str, Any]] = {}
    quick_sizes: ClassVar[Mapping[str, Any]] = {}
    quick_rates: ClassVar[Mapping[str, float]] = {}
    not_quick: ClassVar[tuple[str, ...]] = ()
    shows: ClassVar[Mapping[str, tuple[str, str]]] = {}
    unit: ClassVar[Literal["share", "number"]] = "share"
    figure: ClassVar[str] = ""
    lines: ClassVar[Mapping[str, Mapping[float, str]]] = {}
    columns: ClassVar[Mapping[str, Callable[[Estimate], str]]] = {}
    words: ClassVar[Mapping[str, Mapping[str, str]] | None] = None

    def __init__(self, quick: bool = False) -> None:
        self.quick = quick
        self.size = {**self.sizes, **(self.quick_sizes if quick else {})}

    def arms(self) -> tuple[Arm, ...]:
        """Return the arms: by default `kinds` with the sizes; ``times`` multiplies the steps of a kind."""
        arms = []
        for name, settings in self.kinds.items():
            if self.quick and name in self.not_quick:
                continue
            rates = self.rates
            if self.quick and rates:
                rates = (self.quick_rates.get(name, rates[len(rates) // 2]),)
            settings = {**self.size, **settings}
            if "times" in settings:
                settings["steps"] *= settings["times"]
            arms.append(Arm(name, settings, rates))
        return tuple(arms)

    @abstractmethod
    def measure(self, setup: Setup) -> dict[str, float]:
        """Run one trial: a function of its setup alone, in a process of its own with one thread.

        Returns:
            Finite figures by name. An arm with learning rates gives ``valid``, by which one is chosen: lower is better,
            from validation data alone.
        """

    @abstractmethod
    def contrasts(self, trials: Trials) -> Contrasts:
        """Return the rule: all contrasts have to be met."""

    def controls(self, trials: Trials) -> Contrasts:
        """Return the positive controls: by default those of `learned`, of the arms that were measured."""
        return tuple(
            control(arm, trials.values(arm, figure), least)
            for arm, (figure, least) in self.learned.items()
            if arm in trials.arms
        )

    def conditions(self, trials: Trials) -> Mapping[str, Contrasts]:
        """Return weaker rules by their condition, in order; by default those of `weaker`."""
        rules = {}
        for condition, names in self.weaker.items():
            if contrasts := tuple(contrast for contrast in self.contrasts(trials) if contrast.name in names):
                rules[condition] = contrasts
        return rules

    def blocks(self, trials: Trials) -> Blocks:
        """Return one plot, and a table where it helps: by default of `figure` and `columns`."""
        if self.lines:
            lines = {line: trials.spots_across(arms, self.figure) for line, arms in self.lines.items()}
        else:
            lines = {arm: spots for arm in trials.arms if (spots := trials.spots(arm, self.figure))}
        chart = self.chart(self.figure, lines, of="line" if self.lines else "arm")
        return (chart, self.means(trials)) if self.columns else (chart,)

    def means(self, trials: Trials) -> Table:
        """Return the table of `columns`, with a row for each arm that has them."""
        arms = [arm for arm in trials.arms if set(self.columns) <= set(trials.figures(arm))]
        rows = {arm: [show(trials.mean(arm, column)) for column, show in self.columns.items()] for arm in arms}
        return self.table("means", self.columns, rows)

    def says(self, key: str) -> bool:
        """Whether the claim has words under a key."""
        return bool(self._texts(key))

    def say(self, key: str, **values: str | int | Message) -> Message:
        """Return the words under a key, in every language that has them.

        Raises:
            KeyError: there are none.
        """
        if not (texts := self._texts(key)):
            raise KeyError(f"claim {self.name!r} has no words for {key!r}")
        sizes = {name: max(size) if isinstance(size, tuple) else size for name, size in self.size.items()}
        numbers = {name: f"{size:,}" for name, size in sizes.items() if isinstance(size, int)}
        return Message(key, {**numbers, **values}, texts)

    def _texts(self, key: str) -> dict[str, str]:
        by_language = self.words if self.words is not None else catalogues(self.name.replace("-", "_"))
        return {lang: texts[key] for lang, texts in by_language.items() if texts.get(key)}

    def chart(
        self,
        name: str,
        lines: Mapping[str, Sequence[Spot]],
        *,
        of: str = "arm",
        scale: Scale | Literal["share", "number", "powers"] = "share",
        across: Scale | None = None,
    ) -> Chart:
        """Draw lines with the claim's words: ``caption``, ``axis``, ``height`` if it has it, each also as ``KEY.NAME``.

        Args:
            name: of the chart, unique in the claim.
            lines: points by the name of their line.
            of: what the lines are; their words are ``OF.NAME``.
            scale: of the vertical axis: shares from 0 to 1, or numbers, evenly or by powers of ten.
            across: the horizontal axis, where it is not from 0 to the last point.

        Raises:
            KeyError: the claim lacks words.
        """
        if isinstance(scale, str):
            numbers = []
            for spot in chain.from_iterable(lines.values()):
                numbers += [end for end in (spot.y, spot.low, spot.high) if end is not None]
            scale = Scale() if scale == "share" else number_scale(numbers, powers=scale == "powers")
        keys = {key: f"{key}.{name}" if self.says(f"{key}.{name}") else key for key in ("caption", "axis", "height")}
        height: TextLike = "%" if scale.kind == "share" else ""
        if self.says(keys["height"]):
            height = self.say(keys["height"])
        drawn = tuple(ChartLine(line, tuple(spots), self.say(f"{of}.{line}")) for line, spots in lines.items())
        caption = self.say(keys["caption"])
        axis = self.say(keys["axis"])
        return Chart(f"{self.name}-{name}", caption, drawn, scale, axis, across=across, height=height)

    def table(self, name: str, heads: Iterable[str], rows: Mapping[str, Iterable[Cell]], *, of: str = "arm") -> Table:
        """Make a table with the claim's words.

        Args:
            name: of the table, unique in the claim.
            heads: of the number columns; the words of ``recall@8`` are ``column.recall``, with 8 for ``{at}``.
            rows: cells by the name of their row.
            of: what the rows are; their words are ``OF.NAME``, and ``column.OF`` above them.

        Raises:
            KeyError: the claim lacks words.
        """
        parts = [head.partition("@") for head in heads]
        columns = (Column(self.say(f"column.{key}", at=place)) for key, _, place in parts)
        body = (Row((self.say(f"{of}.{row}"), *cells)) for row, cells in rows.items())
        return Table(f"{self.name}-{name}", (Column(self.say(f"column.{of}"), numeric=False), *columns), tuple(body))


@cache
def catalogues(name: str) -> dict[str, dict[str, str]]:
    """Return the texts of a claim, or of the page, by language and key."""
    return read_words(resources.files("selfattn.claims") / "words", name)


def decides_quickly(claim: type[Claim]) -> bool:
    """Whether a quick run can decide a claim; a quick run of all claims leaves out those that it cannot."""
    return claim.seconds[0] > 0


def page_words(key: str, **values: str | int | Message) -> Message:
    """Return words of the page and of the command, in every language."""
    return Message(key, values, {lang: texts[key] for lang, texts in catalogues("page").items()})


def _problem(claim: type[Claim]) -> str | None:
    if lacking := [name for name in ("source", "seconds") if not hasattr(claim, name)]:
        return f"{claim.__name__} has no {' and no '.join(lacking)}"
    if claim.words is not None and not any("sentence" in texts for texts in claim.words.values()):
        return "its words have no sentence"
    words = claim.words or {}
    keys = set(chain.from_iterable(words.values()))
    lacking = []
    for lang, texts in words.items():
        lacking += [f"{key} ({lang})" for key in sorted(keys - texts.keys())]
    return f"its words lack {', '.join(lacking)}" if lacking else None


CLAIMS.expect(Claim, _problem)


def share(estimate: Estimate) -> str:
    """Return a mean share in percent with its interval."""
    return estimate_text(estimate)


def number(estimate: Estimate) -> str:
    """Return a mean with three digits.

    Example:
        >>> number(Estimate(1234.5, 1000, 1500)), number(Estimate(0.12345, 0, 1)), number(Estimate(2.2e-16, 0, 1))
        ('1,234', '0.123', '2.2·10⁻¹⁶')
    """
    return f"{estimate.mean:,.0f}" if abs(estimate.mean) >= 1000 else power_of_ten(estimate.mean)
