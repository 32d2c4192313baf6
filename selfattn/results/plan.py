"""The plan of an experiment, its ledger, departures from it, and results by budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, MinLen

from selfattn.codec import Plain
from selfattn.results.budgets import Budget, BudgetDifference, Crossing
from selfattn.results.quality import Estimate, Share

DepartureKind = Literal["plan", "ledger", "settings", "test", "before", "again", "unrecorded"]


@dataclass(frozen=True)
class Seal(Plain):
    """A plan as it was fixed before the first trial.

    Attributes:
        sha256: of `decides`, as JSON with sorted keys and no indentation.
        created: ISO 8601 date and time.
        decides: everything that the results depend on, such as models, settings, metric, seeds and the test set.
    """

    sha256: str
    created: str
    decides: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class LedgerEntry(Plain):
    """One access to the test set.

    Attributes:
        when: ISO 8601 date and time.
        run: the tested run or trial; empty in the first entry, which is the plan.
        command: that tested it.
        plan: SHA-256 of the plan that the run belongs to; empty where it belongs to none.
        answers: SHA-256 of the answers; empty where they were not kept.
        previous: SHA-256 of the line before; empty in the first entry.
    """

    when: str
    run: str
    command: str
    plan: str = ""
    answers: str = ""
    previous: str = ""


@dataclass(frozen=True)
class Departure(Plain):
    """A departure from the plan.

    Attributes:
        kind: the `plan` was changed or is gone; the `ledger` was changed or is gone; `settings` of runs differ from
            the plan; the `test` set is another; runs began `before` the plan, or were
            tested `again`; or tests are `unrecorded` in the ledger.
        what: the runs, or the fields of the plan.
    """

    kind: DepartureKind
    what: tuple[str, ...]


@dataclass(frozen=True)
class PlanCheck(Plain):
    """An experiment checked against its plan.

    Attributes:
        seal: the plan as it was fixed; None where it is gone.
        pilot: whether the experiment explores, and confirms nothing.
        departures: empty where all was done as planned.
        entries: of the ledger, in their order, without the first.
    """

    seal: Seal | None = None
    pilot: bool = False
    departures: tuple[Departure, ...] = ()
    entries: tuple[LedgerEntry, ...] = ()


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
