"""The single jobs of a comparison: one model trained with one seed, and tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import Plan, Planned, run_name
from selfattn.runs.directory import RECORD, RunConfig, RunDirectory
from selfattn.runs.fit import fit
from selfattn.runs.run import load
from selfattn.runs.task import Task
from selfattn.runs.testing import is_tested, test_run
from selfattn.runs.training_set import TestSet, TrainingSet, make_test_set
from selfattn.training.config import TrainingConfig

_DONE = ("finished", "target reached", "stopped early")  # of a run's status


class Jobs:
    """Does the jobs of a comparison, and keeps the data of a seed for the next model.

    Args:
        task: of all of them.
        recipe: how models are trained, with seed 0.
        options: of the comparison.
    """

    def __init__(self, task: Task, recipe: TrainingConfig, options: CompareOptions) -> None:
        self.task, self.recipe, self.options = task, recipe, options
        self._data: dict[tuple[int, int | None], tuple[TrainingSet, TestSet]] = {}
        self._noted = False

    def training_set(self, seed: int, few: int | None = None) -> TrainingSet:
        """Return what the models of a seed are trained on."""
        return self._of_seed(seed, few)[0]

    def _of_seed(self, seed: int, few: int | None) -> tuple[TrainingSet, TestSet]:
        if (seed, few) not in self._data:
            recipe, quick = replace(self.recipe, seed=seed), self.options.quick
            splits = self.task.splits(seed, recipe.validation_items)
            items = self.options.test_items or self.task.test_items(quick)
            data = self.task.training_set(recipe, splits, first=few, keep=True)
            tests = make_test_set(self.task, splits, recipe, items=items, probes=not quick, first=few)
            self._data = {(seed, few): (data, tests)}  # the last one alone
        return self._data[seed, few]

    def train(self, plan: Plan, model: Planned, path: Path, seed: int = 0, few: int | None = None) -> RunDirectory:
        """Train, or go on training, if that is not done yet."""
        directory = RunDirectory(path)
        if (path / RECORD).is_file() and directory.record().status in _DONE:
            return directory
        data = self.training_set(seed, few)
        changes: Mapping[str, Any] = model.training
        training = replace(self.recipe, seed=seed, **changes)
        config = RunConfig(self.task.name, model.preset, model.model, training, data.settings, data.max_length)
        notes, self._noted = () if self._noted else data.notes, True  # they are the same for every seed
        fit(config, data, path, command=plan.command, label=path.name, resume=True, notes=notes)
        return directory

    def train_and_test(self, plan: Plan, name: str, seed: int, few: int | None) -> None:
        """Do one run of the plan, if that is not done yet."""
        path = self.options.out / run_name(name, seed, few)
        if is_tested(path):
            return
        self.train(plan, plan.models[name], path, seed, few)
        thorough = seed == 0 and few is None and not plan.quick
        test_run(load(path), self.task, self._of_seed(seed, few)[1], thorough=thorough)
