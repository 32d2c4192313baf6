"""Quality: scores with intervals, learning curves, differences by budget.

Budgets are shares of a training. How the figures are computed: `selfattn.evaluation.statistics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from selfattn.codec import Plain

Share = Annotated[float, Ge(0), Le(1)]
# Of a metric: 0 to 1, shown in percent; 0 to 100; bits; any number from 0 on, as a perplexity.
Unit = Literal["share", "points", "bits", "number"]
Better = Literal["higher", "lower"]  # of a metric: which of two scores is the better one
Over = Literal["items", "seeds and items"]  # what varies in an interval


@dataclass(frozen=True)
class Estimate(Plain):
    """A measured quality with its interval.

    Attributes:
        mean: mean over runs, failed ones included.
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
        kind: `share` (0 to 1, shown in percent), `points` (0 to 100, shown as they are), `bits` or `number`.
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
class Point(Plain):
    """One validation during training; losses are nats a token, `tokens` are target tokens seen so far.

    Attributes:
        flops: floating-point operations of training so far.
        valid: the headline metric on the validation items.
        examples: training examples read so far; None where not counted.
    """

    epoch: float
    step: int
    tokens: int | None = None
    seconds: float | None = None
    flops: float | None = None
    train_loss: float | None = None
    valid_loss: float | None = None
    valid: float | None = None
    examples: int | None = None


@dataclass(frozen=True)
class Curve(Plain):
    """The learning curve of one run."""

    seed: int
    points: tuple[Point, ...] = ()


Budget = Annotated[float, Gt(0)]
CrossingKind = Literal["located", "not located", "none seen"]


@dataclass(frozen=True)
class BudgetDifference(Plain):
    """The difference between two models at one budget: first minus second.

    Attributes:
        budget: above 0.
        difference: of the mean scores.
        low: lower end of its simultaneous interval, one of those of all budgets.
        high: upper end.
    """

    budget: Budget
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Crossing(Plain):
    """Where the order of two models changes.

    Attributes:
        kind: what may be said, see `selfattn.evaluation.statistics.design.locate`.
        between: the two budgets that it lies between, where it is located.
        changes: how often the order changes for certain: more than once is no single crossing.
    """

    kind: CrossingKind
    between: tuple[Budget, Budget] | None = None
    changes: int = 0
