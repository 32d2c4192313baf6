"""The commands of a task: `train NAME` and `compare NAME`, made from the task and its options."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selfattn.cli.options import given, options_of
from selfattn.comparison.options import CompareOptions
from selfattn.console import say
from selfattn.runs.options import TrainOptions
from selfattn.runs.task import Task
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.parallel import is_main_process

_TRAINING = "Training (where not given, as the recipe says)"


def _training_options() -> Any:
    return options_of(TrainingConfig, leave_out=("seed", "betas"), all_open=True, group=_TRAINING)


def train_command(task: type[Task]) -> Callable[..., None]:
    """Make the command that trains one model on a task."""
    run: Any = options_of(TrainOptions, defaults={"model": task.model})
    own: Any = options_of(task.Options)
    training: Any = _training_options()

    def command(run: run, own: own, training: training = training()) -> None:
        from selfattn.runs.train import train

        train(task.name, **given(run) | given(own) | given(training))
        if is_main_process():
            say(f"{run.out}: done; try: selfattn {'evaluate' if task.takes_pairs else 'predict'} {run.out}")

    return _helped(command, task, task.train_help)


def compare_command(task: type[Task]) -> Callable[..., None]:
    """Make the command that compares models on a task."""
    usual = {"models": task.models, "out": Path("compare") / task.name, "match": task.match}
    comparison: Any = options_of(CompareOptions, defaults=usual)
    own: Any = options_of(task.Options)
    tests: Any = options_of(task.TestOptions)
    training: Any = _training_options()

    def command(
        comparison: comparison = comparison(),
        tests: tests = tests(),
        own: own = own(),
        training: training = training(),
    ) -> None:
        from rich.console import Console

        from selfattn.comparison.compare import compare
        from selfattn.comparison.plan import PLAN
        from selfattn.report.render.terminal import print_summary

        settings = given(comparison) | given(own) | given(tests) | given(training)
        try:
            record, files = compare(task.name, **settings)
        except KeyboardInterrupt:
            if (comparison.out / PLAN).is_file():
                say(f"stopped; what is done is kept in {comparison.out}: the same command with --resume goes on")
            raise
        print_summary(record, Console(highlight=False), files.html)

    return _helped(command, task, task.compare_help)


def _helped(command: Callable[..., None], task: type[Task], text: str) -> Callable[..., None]:
    command.__doc__ = inspect.cleandoc(text or task.__doc__ or "")
    return command
