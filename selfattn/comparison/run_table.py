"""The runs of a comparison in one table: by budget and model, seed after seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar


class SeededRun(Protocol):
    """What a table holds: a run that knows its seed and whether its training diverged."""

    @property
    def seed(self) -> int:
        """Seed of the training."""

    @property
    def failed(self) -> bool:
        """Whether the training diverged."""


R = TypeVar("R", bound=SeededRun)


class Cell(NamedTuple, Generic[R]):
    """The runs of one model at one budget.

    Attributes:
        budget: share of the training.
        model: its name.
        runs: seed after seed.
    """

    budget: float
    model: str
    runs: Sequence[R]


class RunTable(Generic[R]):
    """The runs of a comparison, by budget and model, seed after seed.

    Args:
        runs: by budget and model. The largest budget is the main one: its runs decide.

    Example:
        >>> from types import SimpleNamespace
        >>> runs = [SimpleNamespace(seed=0, failed=True), SimpleNamespace(seed=1, failed=False)]
        >>> table = RunTable({1.0: {"transformer": runs}})
        >>> table.finished("transformer").seed, len(table.all()), table.budgets
        (1, 2, (1.0,))
    """

    def __init__(self, runs: Mapping[float, Mapping[str, Sequence[R]]]) -> None:
        self._runs = runs

    @classmethod
    def gather(cls, rows: Iterable[tuple[float, str, R]]) -> RunTable[R]:
        """Make a table of runs with their budget and model, in their order."""
        runs: dict[float, dict[str, list[R]]] = {}
        for budget, model, run in rows:
            runs.setdefault(budget, {}).setdefault(model, []).append(run)
        return cls(runs)

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budgets, in their order."""
        return tuple(self._runs)

    @property
    def main(self) -> Mapping[str, Sequence[R]]:
        """Runs of the largest budget by model; the figures of the report are about these."""
        return self.at(max(self._runs))

    @property
    def first(self) -> R:
        """The first run of the first model at the largest budget."""
        return next(iter(self.main.values()))[0]

    def at(self, budget: float) -> Mapping[str, Sequence[R]]:
        """Return the runs of a budget by model."""
        return self._runs[budget]

    def finished(self, model: str) -> R:
        """Return the first run of a model at the largest budget whose training did not diverge."""
        return next(run for run in self.main[model] if not run.failed)

    def cells(self) -> Iterator[Cell[R]]:
        """Yield the runs of each model at each budget."""
        for budget, models in self._runs.items():
            for model, runs in models.items():
                yield Cell(budget, model, runs)

    def all(self) -> list[R]:
        """Return every run."""
        runs: list[R] = []
        for cell in self.cells():
            runs += cell.runs
        return runs
