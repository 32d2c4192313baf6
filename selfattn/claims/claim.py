"""What a claim is: a sentence, arms to measure, a rule that is fixed before the run, and a plot."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

from selfattn.claims.rules import Contrasts, Trials, control
from selfattn.registry import CLAIMS
from selfattn.report.blocks import Block, Cell, Chart, ChartLine, Column, Row, Spot, Table
from selfattn.report.numbers import Scale, estimate_text, number_scale, power_of_ten
from selfattn.results.quality import Estimate
from selfattn.words.messages import Message, TextLike, read_words

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
    return read_words(Path(__file__).parent / "words", name)


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
