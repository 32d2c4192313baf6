"""How models stand to each other, and to what they could reach, as the budget of training grows.

A budget is any positive number: steps, examples, FLOPs, or a share of a recipe. How these figures are computed:
`selfattn.evaluation.statistics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Gt

from selfattn.codec import Plain
from selfattn.results.quality import Share

Budget = Annotated[float, Gt(0)]
CrossingKind = Literal["located", "not located", "none seen"]
TrendWord = Literal["line", "too few budgets", "too few seeds", "no errors", "lack of fit"]


@dataclass(frozen=True)
class BudgetDifference(Plain):
    """The difference between two models at one budget: first minus second.

    Args:
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

    Args:
        kind: what may be said, see `selfattn.evaluation.statistics.crossings.locate`.
        between: the two budgets that it lies between, where it is located.
        changes: how often the order changes for certain: more than once is no single crossing.
    """

    kind: CrossingKind
    between: tuple[Budget, Budget] | None = None
    changes: int = 0


@dataclass(frozen=True)
class Trend(Plain):
    """A straight line through the logarithms of errors and budgets, d = log budget - centre: height + slope * d.

    Args:
        word: `line` where it may be drawn, else why not.
        between: the smallest and the largest budget; the line says nothing outside.
        fit_p: the p of the test of lack of fit; None where nothing was fitted, and then all that follows is 0.
        centre: mean of the budgets' logarithms, over runs.
        height: logarithm of the error there.
        slope: below 0 where more training makes fewer errors.
        band: the square of the half-width of the line's band is ``band[0] + band[1] * d + band[2] * d ** 2``.
    """

    word: TrendWord
    between: tuple[Budget, Budget]
    fit_p: Share | None = None
    centre: float = 0.0
    height: float = 0.0
    slope: float = 0.0
    band: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class BudgetNeeded(Plain):
    """The budget that a quality needs, as far as the budgets that were tried can say.

    Args:
        error: that is to be reached.
        budget: where the line reaches it; None where it does not between the budgets tried.
        low: lower end of the 95 % interval; None where it may be below the smallest budget tried.
        high: upper end; None where it may be above the largest: not reached for certain.
    """

    error: float
    budget: Budget | None = None
    low: Budget | None = None
    high: Budget | None = None


@dataclass(frozen=True)
class Convergence(Plain):
    """Whether twice the training would take away few errors.

    Args:
        converged: whether the upper bound is below the margin.
        reduction: the share of errors that it took away; below 0 where it added some; None where there were none.
        high: the one-sided upper 95 % bound of it; None where no share below 1 is excluded.
        margin: the share that still counts as few.
    """

    converged: bool
    reduction: float | None = None
    high: float | None = None
    margin: Share = 0.1
