"""The trials of a comparison: a model trained with one seed, and tested where it is no trial of the tuning."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from selfattn.codec import encode
from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import Race, Training
from selfattn.comparison.tested import Tested, is_tested
from selfattn.comparison.testing import RunTest, count_failed
from selfattn.errors import DivergedError, UserError, number_of, say
from selfattn.experiments.progress import Logs, Reporter
from selfattn.experiments.queue import Runner, Workers, run_all
from selfattn.results.plan import Seal
from selfattn.runs.directory import RECORD, RunDirectory
from selfattn.runs.fit import fit
from selfattn.runs.ledger import record_access
from selfattn.runs.load import load
from selfattn.runs.record import RunConfig, changed_contents
from selfattn.runs.task import TaskData
from selfattn.runs.training_set import TestSet, TrainingSet, first_pairs, make_training_set
from selfattn.settings import Settings
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import Observer, StepReport, StopTraining

_CURVE_POINTS = 10  # of a learning curve, the last validation included
DIVERGED = "diverged"  # status of a trial of the tuning
BEATEN = "stopped by an observer"  # status of a trial that read more than the best of its tuning
ENDED = ("finished", "target reached", "stopped early", BEATEN)  # of a training that did not diverge
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


class Trainings(Runner[Training | Race]):
    """Trains and tests the models of a comparison, and keeps the data of a seed for the next model.

    Args:
        task: of the comparison.
        recipe: of every training, with seed 0.
        options: of the comparison.
        command: for the record of every run.
    """

    def __init__(
        self, task: TaskData, recipe: TrainingConfig, options: CompareOptions, command: str, given: Settings
    ) -> None:
        self.task = task
        self.recipe = recipe
        self.options = options
        self.command = command
        self.given = given
        self.first_seed = options.first_seed or 0
        shared = {each.name: getattr(options, each.name) for each in fields(Workers)}
        self.workers = Workers(**shared)
        self._sealed: Mapping[str, Any] = {}
        self._data: dict[tuple[int, int | None], tuple[TrainingSet, TestSet]] = {}  # the last ones

    def keep_to(self, seal: Seal) -> None:
        """Refuse from now on files whose content is not that of a plan."""
        data = seal.decides.get("data")
        self._sealed = data if isinstance(data, Mapping) else {}

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
            if changed := changed_contents(self._sealed, data.settings):
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
            for each in trial.trials:
                self.run(each, reporter, at_most)
                at_most = min(at_most, examples_until(RunDirectory(self.options.out / each.path)) or math.inf)
            return
        path = self.options.out / trial.path
        data, tests = self.data(trial.seed, trial.variant.pairs)
        if not self.is_trained(trial):
            model = trial.model
            training = replace(self.recipe, seed=trial.seed, **trial.model.training)
            training = trial.variant.applied_to(training, trial.steps)
            config = RunConfig(
                self.task.name,
                model.preset,
                model.config,
                training,
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
                    label=trial.label,
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
        if not is_tested(path):
            data, tests = self.data(trial.seed, trial.variant.pairs)
            if RunDirectory(path).record().status == DIVERGED:  # the best trial of a tuning in which none converged
                count_failed(path, self.task, tests, data.tokenizer, "no trial of its tuning converged")
            else:
                leading = trial.leading
                share = trial.variant.share
                thorough = leading and not self.options.quick
                RunTest(load(path), self.task, tests).write(leading=leading, thorough=thorough, share=share)
        record_access(path, self.command, plan=trial.seal, **Tested(path).digests)
