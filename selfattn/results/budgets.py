"""How models compare as the budget of training grows.

A budget is any positive number: steps, examples, FLOPs, or a share of a recipe. How these figures are computed:
`selfattn.evaluation.statistics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Gt

from selfattn.codec import Plain

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
        kind: what may be said, see `selfattn.evaluation.statistics.crossings.locate`.
        between: the two budgets that it lies between, where it is located.
        changes: how often the order changes for certain: more than once is no single crossing.
    """

    kind: CrossingKind
    between: tuple[Budget, Budget] | None = None
    changes: int = 0
