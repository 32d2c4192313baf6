"""What a claim is: a sentence, arms to measure, a rule that was fixed before, and a plot."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, ClassVar

from selfattn.claims.rules import contrast, estimate_over_seeds, minus, share_error
from selfattn.report.blocks import Block, Spot
from selfattn.results.claims import Contrast, Need, Trial
from selfattn.results.quality import Estimate
from selfattn.words.catalogue import read_words
from selfattn.words.messages import Message

WORDS = resources.files("selfattn.claims") / "words"


@dataclass(frozen=True)
class Arm:
    """One of the things that a claim holds against each other.

    Args:
        name: of the arm; its words stand in the claim's catalogue as `arm.NAME`.
        settings: what `measure` needs to know of it: plain values, which the record keeps.
        rates: learning rates that are tried; none where nothing is trained.
        alone: whether it takes times: then it is measured when all others are, nothing beside it, on one core.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...] = ()
    alone: bool = False


class Found:
    """What was measured: the trials of all arms with the confirming seeds.

    Args:
        trials: those of one arm in the order of their seeds; the same seeds for every arm.
        quick: whether this is a quick run, which confirms nothing.

    Example:
        >>> found = Found([Trial("plain", seed, None, {"exact@8": 0.5 + 0.1 * seed}, 1.0) for seed in range(3)])
        >>> found.arms, found.values("plain", "exact@8")
        (('plain',), (0.5, 0.6, 0.7))
        >>> [round(spot.y, 3) for spot in found.spots("plain", {8: "exact@8"})]
        [0.6]
    """

    def __init__(self, trials: Iterable[Trial], quick: bool = False) -> None:
        self.trials, self.quick = tuple(trials), quick

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of the arms, in order."""
        return tuple(dict.fromkeys(trial.arm for trial in self.trials))

    def values(self, arm: str, figure: str) -> tuple[float, ...]:
        """Return a figure of an arm, one number a seed in their order.

        Raises:
            KeyError: no trial of the arm has it.
        """
        found = tuple(trial.figures[figure] for trial in self.trials if trial.arm == arm)
        if not found:
            raise KeyError(f"no trial of arm {arm!r}; there are {', '.join(self.arms)}")
        return found

    def figures(self, arm: str) -> tuple[str, ...]:
        """Return the names of an arm's figures, in order."""
        return tuple(dict.fromkeys(name for trial in self.trials if trial.arm == arm for name in trial.figures))

    def differences(self, arm: str, other: str, figure: str) -> tuple[float, ...]:
        """Return a figure of one arm minus that of another, seed by seed."""
        return minus(self.values(arm, figure), self.values(other, figure))

    def share_error(self, arms: Iterable[str], figure: str, items: int) -> float:
        """Return the standard error of a sum or difference of the arms' mean shares, each of so many items a seed."""
        return math.hypot(*(share_error(self.values(arm, figure), items) for arm in arms))

    def share_difference(
        self, name: str, arm: str, other: str, figure: str, need: Need, bound: float, *, items: int
    ) -> Contrast:
        """Hold a share of one arm minus that of another, seed by seed, against a bound; full marks are no certainty.

        Args:
            name: of the contrast.
            arm: whose share it is.
            other: whose share is taken from it.
            figure: a share in [0, 1].
            need: see :func:`selfattn.claims.rules.contrast`.
            bound: likewise.
            items: that the figure is a share of.
        """
        error = self.share_error((arm, other), figure, items)
        return contrast(name, self.differences(arm, other, figure), need, bound, least_error=error)

    def mean(self, arm: str, figure: str) -> Estimate:
        """Return the mean of a figure over seeds with its 95 % interval."""
        return estimate_over_seeds(self.values(arm, figure))

    def spots(
        self, arm: str, figures: Mapping[int, str] | Mapping[float, str], change: Callable[[float], float] | None = None
    ) -> tuple[Spot, ...]:
        """Return spots of a chart's line: means with their 95 % intervals.

        Args:
            arm: whose line it is.
            figures: the name of the figure at each place along the axis.
            change: what is drawn of each value; default the value.
        """
        spots = []
        for x, name in figures.items():
            values = self.values(arm, name)
            found = estimate_over_seeds([change(value) for value in values] if change else values)
            spots.append(Spot(x, found.mean, found.low, found.high))
        return tuple(spots)


class Claim(ABC):
    """A claim of the textbook as a controlled experiment.

    Its words stand in catalogues (`words/LANG/MODULE.po` of this room) or, in a stranger's file, in the class attribute
    `words`, by key: ``sentence``, ``explanation`` (one paragraph; each term explained where it first stands),
    ``varied``, ``held``, ``rule``, ``arm.NAME``, ``contrast.NAME``, ``condition.KEY``, captions of its plot; and where
    the figures may contradict the textbook ``finding.VERDICT`` (with a hyphen for a space), which says why
    on the page of a full run.

    Attributes:
        name: under which it is registered.
        source: paper and section.
        seconds: of the quick and of the full run, on two processor cores.
        theorem: an assertion, which is no part of the correction for many tests.
        seeds: confirming ones, beginning with 0.
        points: names of contrasts that are differences of shares, shown in percentage points.
        words: by language, texts by key; None for those of the catalogues.
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
        """Return what is held against each other."""

    @abstractmethod
    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool) -> dict[str, float]:
        """Make one trial: a function of its arguments alone, which runs in a process of its own with one thread.

        Returns:
            Figures by name, all finite. Where the arm has learning rates, ``valid`` is what they are chosen by: lower
            is better, from validation data alone.
        """

    @abstractmethod
    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """Return the rule: all of these have to be met."""

    def conditions(self, found: Found) -> Mapping[str, tuple[Contrast, ...]]:
        """Return weaker rules, each under the key of the condition that it names, in order; by default none."""
        return {}

    @abstractmethod
    def blocks(self, found: Found) -> tuple[Block, ...]:
        """Return one plot, and a table where it helps."""

    def say(self, key: str, **values: str | int | Message) -> Message:
        """Return what the claim says under a key, in every language that it has it in.

        Raises:
            KeyError: it has no such words.
        """
        by_language = self.words if self.words is not None else _catalogues(type(self).__module__.rpartition(".")[2])
        own = {lang: texts[key] for lang, texts in by_language.items() if texts.get(key)}
        if not own:
            raise KeyError(f"claim {self.name!r} has no words for {key!r}")
        return Message(key, values, own)

    def says(self, key: str) -> bool:
        """Whether the claim has words under a key."""
        by_language = self.words if self.words is not None else _catalogues(type(self).__module__.rpartition(".")[2])
        return any(texts.get(key) for texts in by_language.values())


@cache
def _catalogues(module: str) -> dict[str, dict[str, str]]:
    return read_words(WORDS, module)
