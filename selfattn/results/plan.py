"""The plan of an experiment and the space of its tuning, its ledger, departures from it, and results by budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, MinLen

from selfattn.codec import Plain, encode, fingerprint
from selfattn.errors import SettingError
from selfattn.results.quality import Budget, BudgetDifference, Crossing, Estimate, Share
from selfattn.settings import MAX_NUMBER, shown

_FORM = "expected name=LOW..HIGH, name=LOW..HIGH:log or name=VALUE,VALUE, such as lr=1e-3..1e-2:log or batch_size=8,16"
_DIGITS = 3  # of a drawn value, so that it can be read and typed
_MOST = 64  # values of a setting


@dataclass(frozen=True)
class Axis:
    """A setting and what is tried of it: some values, or a range.

    Attributes:
        name: of the setting.
        values: to choose among, each as probable as any other; empty for a range.
        low: lower end of the range.
        high: its upper end.
        log: whether the logarithm is drawn evenly.
        whole: whether the setting takes whole numbers.
    """

    name: str
    values: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    def __str__(self) -> str:
        if self.values:
            return f"{self.name}={','.join(f'{value:.6g}' for value in self.values)}"
        return f"{self.name}={self.low:.6g}..{self.high:.6g}{':log' if self.log else ''}"

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return (min(self.values), max(self.values)) if self.values else (self.low, self.high)

    def at(self, place: float) -> float:
        """Return the value at a place in ``[0, 1)`` of the axis.

        Example:
            >>> axis = parse_axis("lr=1e-3..1e-1:log")
            >>> axis.at(0.0), axis.at(0.5)
            (0.001, 0.01)
            >>> parse_axis("batch_size=8,16").at(0.5)
            16.0
        """
        if self.values:
            value = self.values[int(place * len(self.values))]
        elif self.log:
            value = self.low * (self.high / self.low) ** place
        else:
            value = self.low + place * (self.high - self.low)
        return self.typed(value if self.values else float(f"{value:.{_DIGITS}g}"))

    def typed(self, value: float) -> float:
        """Return a value as the setting takes it."""
        return round(value) if self.whole else value

    def place(self, value: float) -> float:
        """Return where a value lies, 0 to 1: the reverse of :meth:`at`, in the middle of the part of a listed value."""
        if self.values:
            return (self.values.index(value) + 0.5) / len(self.values) if value in self.values else 0.5
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def parse_axis(text: str) -> Axis:
    """Read what is tried of a setting: ``lr=1e-3..1e-2:log``, ``warmup=0..0.4``, ``batch_size=8,16,32``.

    Raises:
        SettingError: it has another form, a range is empty, or a value stands twice.

    Example:
        >>> str(parse_axis("lr=0.001..0.01:log"))
        'lr=0.001..0.01:log'
    """
    name, equals, rest = text.partition("=")
    numbers, colon, scale = rest.partition(":")
    low, dots, high = numbers.partition("..")
    try:
        values = [float(number) for number in ((low, high) if dots else numbers.split(","))]
    except ValueError:
        values = []
    is_formed = bool(name.strip() and equals and values) and (scale == "log" and bool(dots) if colon else True)
    if not is_formed or not all(abs(value) <= MAX_NUMBER for value in values):
        raise SettingError(f"`space` {shown(text)}: {_FORM}")
    if dots:
        if not values[0] < values[1] or (colon and values[0] <= 0):
            raise SettingError(f"`space` {shown(text)}: the range is empty{', or begins at 0' if colon else ''}")
        return Axis(name.strip(), low=values[0], high=values[1], log=bool(colon))
    if len(set(values)) < len(values) or not 2 <= len(values) <= _MOST:
        raise SettingError(f"`space` {shown(text)}: expected 2 to {_MOST} different values, or a range")
    return Axis(name.strip(), tuple(values))


DepartureKind = Literal[
    "plan", "ledger", "settings", "test", "before", "again", "unrecorded", "missing",
    "tuning", "costs", "plugins", "validation",
]  # fmt: skip


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

    @property
    def is_true(self) -> bool:
        """Whether the hash is that of the decisions."""
        return fingerprint(encode(dict(self.decides))) == self.sha256


@dataclass(frozen=True)
class LedgerEntry(Plain):
    """One access to the test set, or a step that is sealed.

    Attributes:
        when: ISO 8601 date and time.
        run: the tested run or trial; empty in the first entry, which is the plan, and where a step is sealed.
        command: that tested it.
        plan: SHA-256 of the plan that the run belongs to; empty where it belongs to none.
        answers: SHA-256 of the run's record, which has those of all its files; of older runs that of their answers;
            of a step that of what it left; empty where nothing was kept.
        previous: SHA-256 of the line before; empty in the first entry.
        sealed: the step, such as `tuning`; empty for the plan and accesses.
        outputs: SHA-256 of the run's outputs, `test.jsonl`; empty in older lines, and where nothing was written.
    """

    when: str
    run: str
    command: str
    plan: str = ""
    answers: str = ""
    previous: str = ""
    sealed: str = ""
    outputs: str = ""


@dataclass(frozen=True)
class Departure(Plain):
    """A departure from the plan.

    Attributes:
        kind: the `plan` was changed or is gone; the `ledger` was changed or is gone; `settings` of runs differ from
            the plan; the `test` set is another; runs began `before` the plan, or were
            tested `again`; tests are `unrecorded` in the ledger; tested runs are `missing` from the report; trials of
            the `tuning`, the choice among them, or `costs` were changed; `plugins` are others; or test items were used
            for `validation`.
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
        seeds: number of seeds in the report; None for claims.
        planned_seeds: number of seeds of the plan; None for claims.
        replays: name of the published comparison that had this very plan before; empty where there is none.
        machines: what differs between the machines of the runs, such as ``torch: 2.12.0, 2.13.0``.
    """

    seal: Seal | None = None
    pilot: bool = False
    departures: tuple[Departure, ...] = ()
    entries: tuple[LedgerEntry, ...] = ()
    seeds: int | None = None
    planned_seeds: int | None = None
    replays: str = ""
    machines: tuple[str, ...] = ()


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
        failed: number of failed trainings by model, which count in the mean.
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
