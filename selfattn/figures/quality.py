"""How good: a score with its interval, the metric that decides, and what intervals are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from selfattn.codec import Plain

Share = Annotated[float, Ge(0), Le(1)]
Unit = Literal["share", "points"]  # of a metric: 0 to 1, shown in percent; 0 to 100, shown as they are
Better = Literal["higher", "lower"]  # of a metric: which of two scores is the better one
Over = Literal["items", "seeds and items"]  # what varies in an interval


@dataclass(frozen=True)
class Estimate(Plain):
    """A measured quality with its interval.

    Args:
        mean: mean over runs.
        low: lower end of the interval; None when no interval was computed.
        high: upper end of the interval; None when no interval was computed.
        runs: one value a seed, in the order of the model's `seeds`.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    runs: tuple[float, ...] = ()

    @property
    def over(self) -> Over:
        """What varies in the interval: with one run, only the items."""
        return "items" if len(self.runs) == 1 else "seeds and items"


@dataclass(frozen=True)
class Headline(Plain):
    """The metric that the verdict is about.

    Args:
        metric: its name among the metrics of every model, such as `exact_match` or `bleu`.
        kind: `share` (0 to 1, shown in percent) or `points` (0 to 100, shown as they are).
        signature: how it was computed, such as sacreBLEU's signature; empty where nothing is left open.
        better: whether `higher` or `lower` scores are better.
    """

    metric: str = "exact_match"
    kind: Unit = "share"
    signature: str = ""
    better: Better = "higher"


@dataclass(frozen=True)
class IntervalMethod(Plain):
    """What the intervals of a record are: level (0.95), name of the method ("Wilson score"), what they are about."""

    level: Share
    method: str
    over: Over
