"""What a claim is: a sentence, arms to measure, a rule that is fixed before the run, and a plot."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, ClassVar, Literal

from selfattn.claims.rules import MARGIN, contrast, estimate_over_seeds, exact, minus, share_error
from selfattn.report.blocks import Block, Cell, Chart, ChartLine, Column, Row, Spot, Table
from selfattn.report.drawing.scale import Scale, number_scale
from selfattn.results.claims import Contrast, Need, Trial
from selfattn.results.quality import Estimate
from selfattn.words.catalogue import read_words
from selfattn.words.messages import Message

__all__ = ["MARGIN", "Arm", "Blocks", "Claim", "Contrasts", "Trials", "at", "contrast", "exact", "minus", "percent"]
__all__ += ["share_error"]

Contrasts = tuple[Contrast, ...]
Blocks = tuple[Block, ...]

WORDS = resources.files("selfattn.claims") / "words"


@dataclass(frozen=True)
class Arm:
    """One of the alternatives that a claim compares.

    Attributes:
        name: of the arm; the claim's words have it as `arm.NAME`.
        settings: plain values for `measure`.
        rates: learning rates to try; none where nothing is trained.
        alone: whether it measures times: it then runs after all others, with nothing beside it, on one core.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...] = ()
    alone: bool = False


class Trials:
    """Measurements of all arms with the confirming seeds.

    Args:
        trials: those of an arm in the order of their seeds; the same seeds for every arm.
        quick: whether this is a quick run, which confirms nothing.

    Example:
        >>> trials = Trials([Trial("plain", seed, None, {"exact@8": 0.5 + 0.1 * seed}, 1.0) for seed in range(3)])
        >>> trials.arms, trials.values("plain", "exact@8")
        (('plain',), (0.5, 0.6, 0.7))
        >>> [round(spot.y, 3) for spot in trials.spots("plain", {8: "exact@8"})]
        [0.6]
    """

    def __init__(self, trials: Iterable[Trial], quick: bool = False) -> None:
        self.trials, self.quick = tuple(trials), quick

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, in order."""
        return tuple(dict.fromkeys(trial.arm for trial in self.trials))

    def values(self, arm: str, figure: str) -> tuple[float, ...]:
        """Return a figure of an arm, one value a seed.

        Raises:
            KeyError: no trial of the arm has it.
        """
        values = tuple(trial.figures[figure] for trial in self.trials if trial.arm == arm)
        if not values:
            raise KeyError(f"no trial of arm {arm!r}; there are {', '.join(self.arms)}")
        return values

    def figures(self, arm: str) -> tuple[str, ...]:
        """Return the names of an arm's figures, in order."""
        return tuple(dict.fromkeys(name for trial in self.trials if trial.arm == arm for name in trial.figures))

    def differences(self, arm: str, other: str, figure: str) -> tuple[float, ...]:
        """Return a figure of one arm minus that of another, seed by seed."""
        return minus(self.values(arm, figure), self.values(other, figure))

    def share_error(self, arms: Iterable[str], figure: str, items: int) -> float:
        """Return the standard error of a sum or difference of the arms' mean shares, each of this many items a seed."""
        return math.hypot(*(share_error(self.values(arm, figure), items) for arm in arms))

    def share_difference(
        self, name: str, arm: str, other: str, figure: str, need: Need, bound: float, *, items: int
    ) -> Contrast:
        """Compare the difference of two arms' shares with a bound; see :func:`selfattn.claims.rules.contrast`.

        Args:
            name: of the contrast.
            arm: whose share it is.
            other: whose share is subtracted.
            figure: a share in [0, 1].
            need: side of the bound.
            bound: of the difference.
            items: of which the figure is a share.
        """
        error = self.share_error((arm, other), figure, items)
        return contrast(name, self.differences(arm, other, figure), need, bound, least_error=error)

    def mean(self, arm: str, figure: str) -> Estimate:
        """Return the mean of a figure over seeds with its 95 % interval."""
        return estimate_over_seeds(self.values(arm, figure))

    def spots(
        self, arm: str, figures: Mapping[int, str] | Mapping[float, str], change: Callable[[float], float] | None = None
    ) -> tuple[Spot, ...]:
        """Return points of a chart's line: means with their 95 % intervals.

        Args:
            arm: whose line it is.
            figures: the name of the figure at each place along the axis.
            change: maps a value to what is drawn; default the value.
        """
        spots = []
        for x, name in figures.items():
            values = self.values(arm, name)
            estimate = estimate_over_seeds([change(value) for value in values] if change else values)
            spots.append(Spot(x, estimate.mean, estimate.low, estimate.high))
        return tuple(spots)

    def spots_across(self, arms: Mapping[int, str] | Mapping[float, str], figure: str) -> tuple[Spot, ...]:
        """Return points of a line that goes from arm to arm.

        Args:
            arms: the arm at each place along the axis.
            figure: drawn of each arm.
        """
        return tuple(spot for place, arm in arms.items() for spot in self.spots(arm, {place: figure}))


class Claim(ABC):
    """A claim of the textbook as a controlled experiment.

    Its words stand in catalogues (`words/LANG/MODULE.po`) or, for a plugin, in the class attribute `words`:
    ``sentence``, ``explanation`` (one paragraph; each term explained where it first stands), ``varied``, ``held``,
    ``rule``, ``arm.NAME``, ``contrast.NAME``, ``condition.KEY``, captions of its plot; and ``finding.VERDICT`` (with a
    hyphen for a space), which explains a verdict against the textbook on the page of a full run.

    Attributes:
        name: under which it is registered.
        source: paper and section.
        seconds: of the quick and of the full run, on two processor cores.
        theorem: whether it is an assertion; then it is not corrected for many tests.
        seeds: number of confirming seeds.
        points: names of contrasts that are differences of shares, shown in percentage points.
        words: by language, texts by key; None takes the catalogues.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    seconds: ClassVar[tuple[float, float]]
    theorem: ClassVar[bool] = False
    seeds: ClassVar[int] = 5
    points: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[Mapping[str, Mapping[str, str]] | None] = None

    @abstractmethod
    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """Return the arms."""

    @abstractmethod
    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool) -> dict[str, float]:
        """Run one trial: a function of its arguments alone, in a process of its own with one thread.

        Returns:
            Finite figures by name. An arm with learning rates gives ``valid``, by which one is chosen: lower is better,
            from validation data alone.
        """

    @abstractmethod
    def contrasts(self, trials: Trials) -> Contrasts:
        """Return the rule: all contrasts have to be met."""

    def conditions(self, trials: Trials) -> Mapping[str, Contrasts]:
        """Return weaker rules by their condition, in order; by default none."""
        return {}

    @abstractmethod
    def blocks(self, trials: Trials) -> Blocks:
        """Return one plot, and a table where it helps."""

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
        return Message(key, values, texts)

    def _texts(self, key: str) -> dict[str, str]:
        by_language = self.words if self.words is not None else _catalogues(type(self).__module__.rpartition(".")[2])
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
            ends = [end for spots in lines.values() for spot in spots for end in (spot.y, spot.low, spot.high)]
            drawn = [end for end in ends if end is not None]
            scale = Scale() if scale == "share" else number_scale(drawn, powers=scale == "powers")
        keys = {key: f"{key}.{name}" if self.says(f"{key}.{name}") else key for key in ("caption", "axis", "height")}
        return Chart(
            name,
            self.say(keys["caption"]),
            tuple(ChartLine(line, tuple(spots), self.say(f"{of}.{line}")) for line, spots in lines.items()),
            scale,
            self.say(keys["axis"]),
            across=across,
            height=self.say(keys["height"]) if self.says(keys["height"]) else "",
        )

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
        return Table(name, (Column(self.say(f"column.{of}"), numeric=False), *columns), tuple(body))


@cache
def _catalogues(module: str) -> dict[str, dict[str, str]]:
    return read_words(WORDS, module)


def at(figure: str, places: Iterable[float]) -> dict[float, str]:
    """Return the names of a figure along an axis, for :meth:`Trials.spots`.

    Example:
        >>> at("exact", (4, 8))
        {4: 'exact@4', 8: 'exact@8'}
    """
    return {place: f"{figure}@{place:g}" for place in places}


def percent(share: Estimate) -> str:
    """Return a mean share in percent, without sign and interval.

    Example:
        >>> percent(Estimate(0.9876, 0.97, 0.99))
        '98.8'
    """
    return f"{100 * share.mean:.1f}"
