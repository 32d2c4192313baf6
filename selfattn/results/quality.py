"""Quality: scores with intervals, the metric that decides, parts of the test, learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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

    Attributes:
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

    Attributes:
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
    """How the intervals of a record are computed.

    Attributes:
        level: such as 0.95.
        method: variances over the items are known in closed form, or drawn by `bootstrap`.
        over: what varies.
        repeated: how many test items repeat another one, and are drawn with it.
    """

    level: Share
    method: Literal["closed form", "bootstrap"]
    over: Over
    repeated: int = 0


@dataclass(frozen=True)
class Bucket(Plain):
    """A part of the test items: how many there are, and each model's quality on them (of the group's metric)."""

    name: str
    items: int
    models: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class BucketGroup(Plain):
    """One way to divide the test items.

    Attributes:
        name: `format`, `length`, `field`, `years`, `unseen formats`, `rare words`, ...
        buckets: in the order to show them.
        metric: what is measured, by default the share that is exactly right.
        kind: see `Headline`.
        note: how items come into these buckets, in one sentence.
        better: see `Headline`.
    """

    name: str
    buckets: tuple[Bucket, ...]
    metric: str = "exact_match"
    kind: Unit = "share"
    note: str = ""
    better: Better = "higher"


@dataclass(frozen=True)
class Point(Plain):
    """One validation during training; losses are nats a token, `tokens` are target tokens seen so far.

    Attributes:
        flops: floating-point operations of training so far.
        valid: the headline metric on the validation items.
    """

    epoch: float
    step: int
    tokens: int | None = None
    seconds: float | None = None
    flops: float | None = None
    train_loss: float | None = None
    valid_loss: float | None = None
    valid: float | None = None


@dataclass(frozen=True)
class Curve(Plain):
    """The learning curve of one run."""

    seed: int
    points: tuple[Point, ...] = ()
