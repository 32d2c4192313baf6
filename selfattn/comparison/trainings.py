"""Train and test the models of a comparison, and choose their settings by trials.

Every model has the same number of trials. The settings of a model's trials come from one quasi-random sequence, and
each trial has another seed. The trial with the best validation score is chosen. Several tunings of a model divide its
sequence among them. The final runs of a tuning share the luck of its choice, so tunings are the independent units of
the statistics (docs/statistics.md, "Luck in tuning").
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

from selfattn.codec import encode, fingerprint
from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import ComparisonPlan, Race, Training, TuningKey, planned_trials, read_space
from selfattn.comparison.tested import ANSWERS, DIVERGED, ENDED, RESULT, RunOnDisk, is_tested
from selfattn.comparison.testing import RunTest, count_failed
from selfattn.errors import DivergedError, UserError, number_of, say
from selfattn.evaluation.gates import TestSet
from selfattn.experiments.plan import UNSEALED
from selfattn.experiments.progress import Logs, Reporter
from selfattn.experiments.queue import Runner, Workers, run_all
from selfattn.files import in_use
from selfattn.results.record import TuningTrial
from selfattn.runs.directory import RECORD, RunDirectory
from selfattn.runs.fit import fit
from selfattn.runs.ledger import record_access
from selfattn.runs.load import load
from selfattn.runs.record import RunConfig, changed_contents
from selfattn.runs.task import TaskData
from selfattn.runs.training_set import TrainingSet, first_pairs, make_training_set
from selfattn.settings import Settings
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import Observer, StepReport, StopTraining

_CURVE_POINTS = 10  # of a learning curve, the last validation included
_DONE = (*ENDED, DIVERGED)


class _Limit(Observer):
    """Stops a trial that has read as many examples as the best of its tuning: it cannot be better any more."""

    def __init__(self, examples: float) -> None:
        self.examples = examples

    def stepped(self, report: StepReport) -> None:
        if report.examples >= self.examples:
            raise StopTraining


def examples_until(directory: RunDirectory) -> int | None:
    """Return the training examples that a run read until it reached its target; None where it did not."""
    if directory.record().status != "target reached":
        return None
    return directory.metrics()[-1].examples


@dataclass(eq=False)
class TrainingRunner(Runner[Training | Race]):
    """Trains and tests the models of a comparison, and keeps the data of a seed for the next model.

    Attributes:
        task: of the comparison.
        recipe: of every training, with seed 0.
        options: of the comparison.
        command: for the record of every run.
        given: settings that are not the usual ones, for the configuration of every run.
    """

    task: TaskData
    recipe: TrainingConfig
    options: CompareOptions
    command: str
    given: Settings

    def __post_init__(self) -> None:
        self.first_seed = self.options.first_seed or 0
        shared = {field.name: getattr(self.options, field.name) for field in fields(Workers)}
        self.workers = Workers(**shared)
        self.seal = UNSEALED  # of the plan; files of another content are refused
        self._data: dict[tuple[int, int | None], tuple[TrainingSet, TestSet]] = {}  # the last ones

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
            sealed: Any = self.seal.decides.get("data", {})
            if changed := changed_contents(sealed, data.settings):
                reason = "has changed since the comparison began"
                raise UserError(f"{changed[0]}: {reason}; restore the file, or compare into another `out`")
            draw = self.options.test_draw
            share = max(self.options.budgets)
            if self.options.budget_in == "steps" and recipe.items_per_epoch is not None:
                recipe = replace(recipe, epochs=math.ceil(share * recipe.epochs))  # no training goes further
            further = {name: pairs[:items] for name, pairs in splits.further_tests().items()}
            tests = TestSet(
                splits.fresh_test(items, draw) if draw else splits.test(items),
                splits.validation(recipe.validation_items),
                lambda: first_pairs(splits, recipe, first),
                further | ({} if quick else dict(splits.probes())),
                self.task.gold,
                self.task.has_words,
            )
            kept = list(self._data.items())[1 - (self.options.trials or 1) :] if self.options.until else []
            self._data = dict(kept) | {(seed, first): (data, tests)}
        return self._data[seed, first]

    def is_trained(self, training: Training) -> bool:
        """Whether nothing is left to train."""
        path = self.options.out / training.path
        return (path / RECORD).is_file() and RunDirectory(path).record().status in _DONE

    def is_done(self, trial: Training | Race) -> bool:
        """Whether the run is trained and, where it has to be, tested; of a race, whether all trials are trained."""
        if isinstance(trial, Race):
            return all(map(self.is_trained, trial.trials))
        return is_tested(self.options.out / trial.path) if trial.tested else self.is_trained(trial)

    def run_all(self, trainings: Sequence[Training | Race]) -> None:
        """Run trainings, several at once.

        Raises:
            UserError: a training failed; the others are done.
        """
        if failed := run_all(self, trainings):
            logs = Logs(self.options.out)
            reasons = "; ".join(f"{label}: {reason} (log: {logs.log(label)})" for label, reason in failed.items())
            raise UserError(f"{len(failed)} of {number_of(len(trainings), 'training')} failed: {reasons}")

    def run(self, trial: Training | Race, reporter: Reporter, at_most: float = math.inf) -> None:
        """Train and test, or do what is left of it. A training that diverges counts as a failed run.

        Args:
            trial: the training, or the race of a tuning: its trials one after the other.
            reporter: shows its progress.
            at_most: examples after which a training stops; default no limit.
        """
        if isinstance(trial, Race):
            for training in trial.trials:
                self.run(training, reporter, at_most)
                at_most = min(at_most, examples_until(RunDirectory(self.options.out / training.path)) or math.inf)
            return
        path = self.options.out / trial.path
        data, tests = self.data(trial.seed, trial.amount.pairs)
        if not self.is_trained(trial):
            model = trial.model
            config = RunConfig(
                self.task.name,
                model.preset,
                model.config,
                trial.training_from(self.recipe),
                data.settings,
                data.max_length,
                longest_source=len(data.longest.source),
                task_options=encode(self.task.changed_options()),
                options=encode(self.given),
                made_by="compare",
            )
            try:
                fit(
                    config,
                    data,
                    path,
                    command=self.command,
                    device=self.options.device,
                    label=reporter.label,  # of the race, whose validations the display does not print one by one
                    resume=True,
                    observers=[reporter, _Limit(at_most)],
                    curve_points=_CURVE_POINTS if trial.tested else 0,
                    notes=data.notes if reporter.is_first else (),
                )
            except DivergedError as error:
                say(f"{trial.label}: counts as a failed training: {error}")
                if trial.tested:
                    count_failed(path, self.task, tests, data.tokenizer, str(error))
                else:
                    RunDirectory(path).update(status=DIVERGED)
        if trial.tested:
            self._test(trial)

    def _test(self, trial: Training) -> None:
        """Test a trained model, unless that is done, and note it in the ledger."""
        path = self.options.out / trial.path
        with in_use(path):  # a worker that outlives its program may still be testing
            if not is_tested(path):
                data, tests = self.data(trial.seed, trial.amount.pairs)
                if RunDirectory(path).record().status == DIVERGED:  # the best trial of a tuning that never converged
                    count_failed(path, self.task, tests, data.tokenizer, "no trial of its tuning converged")
                else:
                    leading = trial.leading
                    share = trial.amount.share
                    thorough = leading and not self.options.quick
                    RunTest(load(path), self.task, tests).write(leading=leading, thorough=thorough, share=share)
            record_access(path, self.command, plan=self.seal.sha256, **RunOnDisk(path).digests)


def space_texts(plan: ComparisonPlan) -> dict[str, dict[str, str]]:
    """Return what tuning tries of each setting as text, by model."""
    axes_by_model = read_space(plan.space, list(plan.models))
    return {name: {axis.name: str(axis).partition("=")[2] for axis in axes} for name, axes in axes_by_model.items()}


def pick_best(plan: ComparisonPlan, comparison: Path) -> dict[str, tuple[TuningTrial, ...]]:
    """Choose the best settings of every tuning by the validation metric; ties go to the lower validation loss.

    A trial that diverged is worse than all others.

    Args:
        plan: of the comparison.
        comparison: its directory, with all trials.

    Returns:
        The trials of each model as read from disk, the largest budget first; those that were chosen are marked.

    Raises:
        UserError: a trial is missing or broken.
    """
    chosen: dict[str, tuple[TuningTrial, ...]] = dict.fromkeys(plan.models, ())
    for key, trials in sorted(planned_trials(plan).items(), key=lambda item: -item[0][0]):
        results = [_read(plan, comparison, key, trial) for trial in trials]
        best = min(results, key=lambda result: _rank(plan, result))
        chosen[key[1]] += tuple(replace(result, chosen=result is best) for result in results)
    return chosen


def _races(tried: Mapping[TuningKey, Sequence[Training]]) -> list[Race]:
    """Return a race for each tuning; models follow one another, for they share the data of its seeds."""
    races = []
    for (_, name, number), trials in sorted(tried.items(), key=lambda item: item[0][2]):
        races.append(Race(f"{name}-tuning{number}", tuple(trials)))
    return races


def _read(plan: ComparisonPlan, comparison: Path, arm: TuningKey, trial: Training) -> TuningTrial:
    """Read a trial from its directory: the best metric and the lowest loss of its validations."""
    directory = RunDirectory(comparison / trial.path)
    record = directory.record()
    valid = None
    loss = None
    if record.status != DIVERGED:
        best = max if plan.headline.better == "higher" else min
        reports = directory.metrics()
        valid = best(report.measures[plan.headline.metric] for report in reports)
        loss = min(report.valid_loss for report in reports)
    budget = None if arm[0] == plan.main else arm[0]
    return TuningTrial(
        trial.point,
        trial.seed,
        valid,
        record.train_seconds,
        loss=loss,
        budget=budget,
        tuning=arm[2],
        examples=examples_until(directory) if plan.until is not None else None,
    )


def _rank(plan: ComparisonPlan, trial: TuningTrial) -> tuple[float, float]:
    """Return the trial's rank, lower is better: what it read until the target; the metric, then the loss."""
    if trial.valid is None:
        return math.inf, math.inf
    if trial.examples is not None:
        return -math.inf, trial.examples
    sign = -1 if plan.headline.better == "higher" else 1
    return sign * trial.valid, trial.loss or 0.0


def digest_of_trials(plan: ComparisonPlan, comparison: Path) -> str:
    """Return a SHA-256 over the choice and the record of every trial; a record holds the SHA-256 of its files.

    Files of a later test do not count.

    Raises:
        UserError: a trial is missing.
    """
    digests = {}
    for trial in chain.from_iterable(planned_trials(plan).values()):
        record = RunDirectory(comparison / trial.path).record()
        files = {name: digest for name, digest in record.files.items() if name not in (RESULT, ANSWERS)}
        digests[trial.label] = fingerprint(encode(replace(record, files=files)))
    return fingerprint({"trials": encode(plan.trials), "digests": digests})


def tune(plan: ComparisonPlan, comparison: Path, run: Callable[[Sequence[Training | Race]], None]) -> ComparisonPlan:
    """Run the trials of every tuning, and return the plan with their results and the choice."""
    planned = planned_trials(plan)
    if plan.until is None:
        in_order: list[Training] = sorted(chain.from_iterable(planned.values()), key=lambda trial: trial.seed)
        run(in_order)  # a worker keeps the data of the last seed
    else:
        run(_races(planned))
    return replace(plan, trials=pick_best(plan, comparison), tuned=True)
