"""The single jobs of a comparison: one model trained with one seed, and tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from selfattn.comparison.planning.options import CompareOptions
from selfattn.comparison.planning.plan import WHOLE, Plan, Planned, Variant, run_name
from selfattn.comparison.testing import Tested, count_failed, is_tested, test_run
from selfattn.console import say
from selfattn.data.pairs import Pair
from selfattn.runs.directory import RECORD, RunConfig, RunDirectory
from selfattn.runs.fit import fit
from selfattn.runs.ledger import note_look
from selfattn.runs.run import load
from selfattn.runs.task import Task
from selfattn.runs.training_set import TestSet, TrainingSet, make_test_set
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import Observer
from selfattn.training.step import DivergedError

_DONE = ("finished", "target reached", "stopped early")  # of a run's status


@dataclass(frozen=True)
class Job:
    """One training of a comparison.

    Attributes:
        path: of the run's directory, seen from the comparison.
        model: what is trained.
        seed: of every random stream.
        variant: how much it is trained; default all of the recipe.
        steps: of the whole recipe, where it is trained on a share of them.
        tested: whether it is tested afterwards; default yes.
        seal: SHA-256 of the plan that it is of, for the ledger.
        leading: whether the test asks what one run of a model can answer for all.
    """

    path: str
    model: Planned
    seed: int = 0
    variant: Variant = WHOLE
    steps: int = 0
    tested: bool = True
    leading: bool = False
    seal: str = ""

    @property
    def label(self) -> str:
        """What the job is called, such as ``transformer-seed0``."""
        return Path(self.path).name


def jobs_of(plan: Plan) -> list[Job]:
    """List the trainings of a plan, seed after seed."""
    return [
        Job(
            run_name(name, seed, variant),
            plan.planned(name, variant),
            seed,
            variant,
            plan.steps,
            leading=(seed, variant) == (plan.first_seed, plan.main),
            seal=plan.seal.sha256 if plan.seal else "",
        )
        for name, seed, variant in plan.runs()
    ]


class Jobs:
    """Does the jobs of a comparison, and keeps the data of a seed for the next model.

    Args:
        task: of all of them.
        recipe: how models are trained, with seed 0.
        options: of the comparison.
        command: that made it, for the record of every run.
    """

    def __init__(self, task: Task, recipe: TrainingConfig, options: CompareOptions, command: str) -> None:
        self.task, self.recipe, self.options, self.command = task, recipe, options, command
        self._data: dict[tuple[int, int | None], tuple[TrainingSet, TestSet]] = {}

    def training_set(self, seed: int) -> TrainingSet:
        """Return what the models of a seed are trained on."""
        return self._of_seed(seed, None)[0]

    def test_pairs(self, seed: int) -> Sequence[Pair]:
        """Return what the models are tested on; the same for every seed."""
        return self._of_seed(seed, None)[1].pairs

    def _of_seed(self, seed: int, first: int | None) -> tuple[TrainingSet, TestSet]:
        if (seed, first) not in self._data:
            recipe, quick = replace(self.recipe, seed=seed), self.options.quick
            splits = self.task.splits(seed, recipe.validation_items)
            items = self.options.test_items or self.task.test_items(quick)
            data = self.task.training_set(recipe, splits, first=first, keep=True)
            draw = self.options.test_draw
            tests = make_test_set(self.task, splits, recipe, items=items, probes=not quick, first=first, draw=draw)
            self._data = {(seed, first): (data, tests)}  # the last one alone
        return self._data[seed, first]

    def is_trained(self, job: Job) -> bool:
        """Whether nothing is left to train."""
        path = self.options.out / job.path
        return (path / RECORD).is_file() and RunDirectory(path).record().status in _DONE

    def is_done(self, job: Job) -> bool:
        """Whether nothing is left to do."""
        return is_tested(self.options.out / job.path) if job.tested else self.is_trained(job)

    def train_and_test(self, job: Job, observers: Sequence[Observer] = (), *, notes: bool = True) -> None:
        """Do a job, or what is left of it. A training that diverges is no error: it counts, as failed.

        Args:
            job: one of this comparison.
            observers: of its training.
            notes: whether to say what there is to be said of the data, which is the same for every job.
        """
        path = self.options.out / job.path
        data, tests = self._of_seed(job.seed, job.variant.pairs)
        if not self.is_trained(job):
            model, training = job.model, replace(self.recipe, seed=job.seed, **job.model.training)
            training = job.variant.applied_to(training, job.steps)
            config = RunConfig(self.task.name, model.preset, model.model, training, data.settings, data.max_length)
            try:
                fit(
                    config,
                    data,
                    path,
                    command=self.command,
                    device=self.options.device,
                    threads=self.options.thread_count,
                    label=job.label,
                    resume=True,
                    observers=observers,
                    notes=data.notes if notes else (),
                )
            except DivergedError as error:
                if not job.tested:
                    raise
                say(f"{job.label}: counts as a failed training: {error}")
                self._note(job, count_failed(path, self.task, tests, str(error)))
        if job.tested and not is_tested(path):
            thorough = job.leading and not self.options.quick
            share = job.variant.share
            tested = test_run(load(path), self.task, tests, leading=job.leading, thorough=thorough, share=share)
            self._note(job, tested)

    def _note(self, job: Job, tested: Tested) -> None:
        note_look(tested.path, self.command, plan=job.seal, answers=tested.result.answers_sha256 or "")
