"""The plan of a comparison, its ledger of accesses to the test set, departures, and results by budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, MinLen

from selfattn.codec import Plain
from selfattn.results.budgets import Budget, BudgetDifference, Crossing
from selfattn.results.quality import Estimate, Share

DepartureKind = Literal["plan", "settings", "test", "before", "again", "unrecorded"]


@dataclass(frozen=True)
class Seal(Plain):
    """A plan as fixed before training.

    Attributes:
        sha256: of `decides`, as JSON with sorted keys and no indentation.
        created: ISO 8601 date and time at which it was fixed.
        decides: task, models, settings, metric, primary contrast, budgets, seeds, search space, checksum of the test.
    """

    sha256: str
    created: str
    decides: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Look(Plain):
    """An access to the test set: a line of the ledger.

    Attributes:
        when: ISO 8601 date and time.
        run: the name of its directory.
        command: that read the test set.
        plan: SHA-256 of its plan; empty without a plan.
        answers: SHA-256 of the outputs; empty if they were not kept.
    """

    when: str
    run: str
    command: str
    plan: str = ""
    answers: str = ""


@dataclass(frozen=True)
class Departure(Plain):
    """A departure from the plan.

    Attributes:
        kind: the `plan` was changed, `settings` of runs were, the `test` has other items, runs were made `before` the
            plan, runs were tested `again`, or tested without that being `unrecorded` in the ledger.
        what: the runs, or the fields of the plan.
    """

    kind: DepartureKind
    what: tuple[str, ...]


@dataclass(frozen=True)
class Protocol(Plain):
    """How far a comparison followed its plan.

    Attributes:
        seal: the plan.
        pilot: whether the comparison is exploratory.
        departures: empty if all was done as planned.
        looks: accesses to the test set, in order.
    """

    seal: Seal
    pilot: bool = False
    departures: tuple[Departure, ...] = ()
    looks: tuple[Look, ...] = ()


@dataclass(frozen=True)
class AtBudget(Plain):
    """Results of complete trainings at one budget.

    Attributes:
        budget: a share of the training.
        models: headline metric by model.
        steps: of each training.
        tokens: target tokens that each model reads in one, mean over runs.
        examples: different pairs that it is trained on, where the budget is in these.
        difference: of the primary contrast, with its simultaneous interval.
        failed: number of diverged trainings by model; these runs score zero.
    """

    budget: Budget
    models: Mapping[str, Estimate]
    steps: Annotated[int, Ge(1)]
    tokens: int
    examples: int | None = None
    difference: BudgetDifference | None = None
    failed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Budgets(Plain):
    """Results at several budgets.

    Attributes:
        unit: what the budgets are shares of: `steps`, on the same pairs, or different `examples`, in as many steps.
        cells: the smallest budget first.
        pair: the primary contrast: differences are the first minus the second; None where there is none.
        crossing: where the order of these two changes; None where fewer than three seeds leave that open.
        level: of the intervals of all differences together.
    """

    unit: Literal["steps", "examples"]
    cells: Annotated[tuple[AtBudget, ...], MinLen(2)]
    pair: tuple[str, str] | None = None
    crossing: Crossing | None = None
    level: Share = 0.95
