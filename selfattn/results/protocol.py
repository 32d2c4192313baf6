"""What was fixed before training and what was done by it: the plan, every look at the test set, every budget."""

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
    """A plan as it was before training.

    Args:
        sha256: of `decides`, as JSON with sorted keys and no indentation.
        created: ISO 8601 date and time at which it was fixed.
        decides: task, models, settings, metric, primary contrast, budgets, seeds, search space, checksum of the test.
    """

    sha256: str
    created: str
    decides: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Look(Plain):
    """One look at the test set.

    Args:
        when: ISO 8601 date and time.
        run: the name of its directory.
        command: that looked.
        plan: the SHA-256 of the plan that it belongs to; empty where it belongs to none.
        answers: the SHA-256 of what the run answered; empty where they were not kept.
    """

    when: str
    run: str
    command: str
    plan: str = ""
    answers: str = ""


@dataclass(frozen=True)
class Departure(Plain):
    """What was done otherwise than planned.

    Args:
        kind: the `plan` was changed, `settings` of runs were, the `test` has other items, runs were made `before` the
            plan, runs were tested `again`, or tested without that being `unrecorded` in the ledger.
        what: the runs, or the fields of the plan.
    """

    kind: DepartureKind
    what: tuple[str, ...]


@dataclass(frozen=True)
class Protocol(Plain):
    """A comparison held against its plan.

    Args:
        seal: the plan.
        pilot: whether it explores, and confirms nothing.
        departures: empty where all was done as planned.
        looks: at the test set, in their order.
    """

    seal: Seal
    pilot: bool = False
    departures: tuple[Departure, ...] = ()
    looks: tuple[Look, ...] = ()


@dataclass(frozen=True)
class AtBudget(Plain):
    """What complete trainings of one budget reach.

    Args:
        budget: a share of the training.
        models: the headline metric of each.
        steps: of each training.
        tokens: target tokens that each model reads in one, mean over runs.
        examples: different pairs that it is trained on, where the budget is in these.
        difference: of the primary contrast, with its simultaneous interval.
        failed: how many trainings of a model diverged: these runs count as answering nothing.
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
    """Models over several budgets.

    Args:
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
