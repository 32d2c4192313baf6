"""The trials of a comparison: a model trained with one seed and tested; and equal tuning, judged on validation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from statistics import mean
from typing import Any

from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import Plan, Training
from selfattn.comparison.tested import Tested, is_tested
from selfattn.comparison.testing import count_failed, test_run
from selfattn.errors import DivergedError, UserError, say
from selfattn.experiments.progress import Logs, Reporter
from selfattn.experiments.queue import Runner, Workers, run_all, search
from selfattn.results.record import TuningTrial
from selfattn.runs.directory import RECORD, RunConfig, RunDirectory
from selfattn.runs.fit import fit
from selfattn.runs.ledger import record_access
from selfattn.runs.run import load
from selfattn.runs.task import TaskData
from selfattn.runs.training_set import TestSet, TrainingSet, first_pairs, make_training_set
from selfattn.training.config import TrainingConfig

DIVERGED = "diverged"  # status of a trial of the tuning
_DONE = ("finished", "target reached", "stopped early", DIVERGED)


class Trainings(Runner[Training]):
    """Trains and tests the models of a comparison, and keeps the data of a seed for the next model.

    Args:
        task: of the comparison.
        recipe: of every training, with seed 0.
        options: of the comparison.
        command: for the record of every run.
    """

    def __init__(self, task: TaskData, recipe: TrainingConfig, options: CompareOptions, command: str) -> None:
        self.task = task
        self.recipe = recipe
        self.options = options
        self.command = command
        self.first_seed = options.first_seed or 0
        shared = {each.name: getattr(options, each.name) for each in fields(Workers)}
        self.workers = Workers(**shared)
        self._data: dict[tuple[int, int | None], tuple[TrainingSet, TestSet]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave the data out; workers make them again."""
        return self.__dict__ | {"_data": {}}

    def data(self, seed: int, first: int | None = None) -> tuple[TrainingSet, TestSet]:
        """Return the training and test data of a seed, or of its first different pairs; the last ones are kept."""
        if (seed, first) not in self._data:
            recipe = replace(self.recipe, seed=seed)
            quick = self.options.quick
            splits = self.task.splits(seed, recipe.validation_items)
            items = self.options.test_items or self.task.test_items(quick)
            data = make_training_set(self.task, recipe, splits, first=first, keep=True)
            draw = self.options.test_draw
            share = max(self.options.budgets)
            if self.options.budget_in == "steps" and recipe.items_per_epoch is not None:
                recipe = replace(recipe, epochs=math.ceil(share * recipe.epochs))  # no training goes further
            tests = TestSet(
                splits.fresh_test(items, draw) if draw else splits.test(items),
                splits.validation(recipe.validation_items),
                lambda: first_pairs(splits, recipe, first),
                {} if quick else splits.probes(),
                self.task.gold,
                self.task.has_words,
            )
            self._data = {(seed, first): (data, tests)}
        return self._data[seed, first]

    def is_trained(self, training: Training) -> bool:
        """Whether nothing is left to train."""
        path = self.options.out / training.path
        return (path / RECORD).is_file() and RunDirectory(path).record().status in _DONE

    def is_done(self, trial: Training) -> bool:
        """Whether the run is trained and, where it has to be, tested."""
        return is_tested(self.options.out / trial.path) if trial.tested else self.is_trained(trial)

    def run_all(self, trainings: Sequence[Training]) -> None:
        """Run trainings, several at once.

        Raises:
            UserError: a training failed; the others are done.
        """
        if failed := run_all(self, trainings):
            logs = Logs(self.options.out)
            reasons = "; ".join(f"{label}: {reason} (log: {logs.log(label)})" for label, reason in failed.items())
            raise UserError(f"{len(failed)} of {len(trainings)} trainings failed: {reasons}")

    def run(self, trial: Training, reporter: Reporter) -> None:
        """Train and test, or do what is left of it. A training that diverges counts as a failed run."""
        path = self.options.out / trial.path
        data, tests = self.data(trial.seed, trial.variant.pairs)
        if not self.is_trained(trial):
            model = trial.model
            training = replace(self.recipe, seed=trial.seed, **trial.model.training)
            training = trial.variant.applied_to(training, trial.steps)
            config = RunConfig(self.task.name, model.preset, model.config, training, data.settings, data.max_length)
            try:
                fit(
                    config,
                    data,
                    path,
                    command=self.command,
                    device=self.options.device,
                    label=trial.label,
                    resume=True,
                    observers=[reporter],
                    notes=data.notes if reporter.is_first else (),
                )
            except DivergedError as error:
                say(f"{trial.label}: counts as a failed training: {error}")
                if trial.tested:
                    count_failed(path, self.task, tests, str(error))
                else:
                    RunDirectory(path).update(status=DIVERGED)
        if trial.tested:
            if not is_tested(path):
                leading = trial.leading
                share = trial.variant.share
                thorough = leading and not self.options.quick
                test_run(load(path), self.task, tests, leading=leading, thorough=thorough, share=share)
            record_access(path, self.command, plan=trial.seal, answers=Tested(path).result.answers_sha256)


# tuning: the same learning rates for every model, tried with seeds of their own

GRID = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the recipe's rate, where the task has no grid
_WIDENINGS = 4  # most widenings of the grid
_STEP = 2.0  # factor of a widening

Rates = Mapping[str, Sequence[float]]  # by model


def space(options: CompareOptions, recipe: TrainingConfig) -> dict[str, str]:
    """Describe what is tried, setting by setting.

    Example:
        >>> from pathlib import Path
        >>> space(CompareOptions(models=("a",), out=Path("out")), TrainingConfig(lr=0.004))
        {'lr': '0.001, 0.002, 0.004, 0.008, 0.016; beyond if best at an edge'}
    """
    rates = ", ".join(f"{rate:g}" for rate in grid(options, recipe))
    return {"lr": f"{rates}; beyond if best at an edge"}


def grid(options: CompareOptions, recipe: TrainingConfig) -> tuple[float, ...]:
    """Return the learning rates to try: those of the options, or the recipe's times powers of two."""
    return tuple(sorted(options.rates)) or tuple(float(f"{recipe.lr * factor:.6g}") for factor in GRID)


def tune(plan: Plan, trainings: Trainings) -> Plan:
    """Try the same learning rates for every model at every budget, and choose each model's best on validation.

    Every rate is tried with the first tuning seed. The other seeds go to each model's best rate and its neighbours,
    since a repeated trial far away from the best changes nothing. The best rate has the best mean of the validation
    metric over its seeds; equal ones are ordered by their mean validation loss. A model whose best rate is the lowest
    or highest that it has tried goes on to the next one.

    Args:
        plan: of the comparison.
        trainings: runs the trials.
    """
    rates = grid(trainings.options, trainings.recipe)
    trials: dict[str, tuple[TuningTrial, ...]] = dict.fromkeys(plan.models, ())
    for budget in plan.variants:
        tuning = _Tuning(plan, trainings, budget)
        _, best = search(dict.fromkeys(plan.models, rates), tuning.measure, _beyond, widenings=_WIDENINGS)
        for name, same in tuning.trials.items():
            trials[name] += tuple(replace(trial, chosen=trial.settings["lr"] == best[name]) for trial in same)
    return replace(plan, trials=trials, tuned=True)


class _Tuning:
    """The trials at one budget.

    Args:
        plan: of the comparison.
        trainings: runs the trials.
        budget: of the plan.
    """

    def __init__(self, plan: Plan, trainings: Trainings, budget: float) -> None:
        self.plan = plan
        self.trainings = trainings
        self.budget = budget
        self.repeated = {name: set[float]() for name in plan.models}  # rates that are tried with every seed
        self.trials: dict[str, list[TuningTrial]] = {}

    def measure(self, tried: Rates) -> dict[str, list[tuple[float, float]]]:
        """Run trials; return the rank of each rate, lower is better: the metric, then the validation loss.

        The best rate of each model and its neighbours are repeated, until all of them have all seeds.
        """
        while True:
            self.run(tried)
            ranks: dict[str, list[tuple[float, float]]] = {}
            count = sum(map(len, self.repeated.values()))
            for name, rates in tried.items():
                ranks[name] = [self.rank([t for t in self.trials[name] if t.settings["lr"] == rate]) for rate in rates]
                ordered = sorted(rates)
                place = ordered.index(rates[ranks[name].index(min(ranks[name]))])
                self.repeated[name].update(ordered[max(place - 1, 0) : place + 2])
            if sum(map(len, self.repeated.values())) == count or len(self.plan.tuning_seeds) == 1:
                return ranks

    def run(self, tried: Rates) -> None:
        """Run the trials that are left, seed after seed, and read those of each model."""
        plan = self.plan
        jobs = list[Training]()
        budget = "" if self.budget == plan.main else f"-budget{self.budget!r}"
        for seed, (name, rates) in product(plan.tuning_seeds, tried.items()):
            for number, rate in enumerate(rates):
                if seed == plan.tuning_seeds[0] or rate in self.repeated[name]:
                    path = f"tuning/{name}{budget}-trial{number}-seed{seed}"
                    model = replace(plan.models[name], training={"lr": rate})
                    variant = plan.variants[self.budget]
                    jobs.append(Training(path, name, model, seed, self.budget, variant, plan.steps, tested=False))
        self.trainings.run_all(jobs)
        self.trials = {name: [self.read(job) for job in jobs if job.name == name] for name in tried}

    def read(self, job: Training) -> TuningTrial:
        """Read a trial from its directory: the best metric and the lowest loss."""
        directory = RunDirectory(self.trainings.options.out / job.path)
        record = directory.record()
        headline = self.plan.headline
        valid = None
        loss = None
        if record.status != DIVERGED:
            best = max if headline.better == "higher" else min
            reports = directory.metrics()
            valid = best(report.measures[headline.metric] for report in reports)
            loss = min(report.valid_loss for report in reports)
        budget = None if self.budget == self.plan.main else self.budget
        return TuningTrial(job.model.training, job.seed, valid, record.train_seconds, loss=loss, budget=budget)

    def rank(self, trials: Sequence[TuningTrial]) -> tuple[float, float]:
        """The mean metric and loss over seeds; a rate at which a training diverged is worse than all others."""
        scores = [trial.valid for trial in trials if trial.valid is not None]
        if len(scores) < len(trials):
            return math.inf, math.inf
        sign = -1 if self.plan.headline.better == "higher" else 1
        return sign * mean(scores), mean(trial.loss or 0.0 for trial in trials)


def _beyond(name: str, rates: Sequence[float], best: float) -> list[float]:
    """Return the next rate for a model whose best rate is the lowest or highest that it has tried."""
    factor = {min(rates): 1 / _STEP, max(rates): _STEP}.get(best)
    return [best * factor] if factor else []
