"""How good: a score with its interval, the metric that decides, and what intervals are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["share", "points"]  # 0 to 1, shown in percent; 0 to 100, shown as they are


@dataclass(frozen=True)
class Estimate:
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


@dataclass(frozen=True)
class Headline:
    """The metric that the verdict is about.

    Args:
        metric: its name among the metrics of every model, such as `exact_match` or `bleu`.
        kind: `share` (0 to 1, shown in percent) or `points` (0 to 100, shown as they are).
        signature: how it was computed, such as sacreBLEU's signature; empty where nothing is left open.
    """

    metric: str = "exact_match"
    kind: Kind = "share"
    signature: str = ""


@dataclass(frozen=True)
class IntervalMethod:
    """What the intervals of a record are: level (0.95), name of the method ("Wilson score"), what they are about."""

    level: float
    method: str
    over: Literal["items", "seeds and items"]
