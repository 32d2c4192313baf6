"""The commands of a task: `train NAME` and `compare NAME`, made from the task and its options."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from selfattn.cli.options import joined, options_of, unwrapped
from selfattn.console import say
from selfattn.runs.task import Task
from selfattn.settings import changed
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.launch import is_main_process
from selfattn.words.catalogue import SOURCE

_TRAINING, _BASIC = "Training (defaults: the recipe of the task)", ("epochs", "batch_size", "lr")


def train_command(task: type[Task]) -> Callable[..., None]:
    """Make the command that trains one model on a task."""
    from selfattn.runs.train import TrainOptions, train

    def work(settings: Mapping[str, Any], out: Path) -> None:
        train(task.name, **settings)
        if is_main_process():
            say(f"{out}: done; try: selfattn {task.suggested} {out}")

    usual = {"model": task.model}
    return _command(work, task.train_help or task.__doc__, options_of(TrainOptions, defaults=usual), task.Options)


def compare_command(task: type[Task]) -> Callable[..., None]:
    """Make the command that compares models on a task."""
    from selfattn.comparison.planning.options import CompareOptions
    from selfattn.comparison.planning.plan import PLAN

    def work(settings: Mapping[str, Any], out: Path) -> None:
        from rich.console import Console

        from selfattn.comparison.compare import compare, forecast
        from selfattn.report.render.terminal import print_summary

        if settings.get("plan_only"):
            print("\n".join(forecast(task.name, **settings).lines()))
            return

        try:
            record, files = compare(task.name, **settings)
        except KeyboardInterrupt:
            if (out / PLAN).is_file():
                say(f"stopped; what is done is kept in {out}: the same command with --resume goes on")
            raise
        print_summary(record, Console(highlight=False), files.html, settings.get("lang", SOURCE))

    usual = {"models": task.models, "out": Path("compare") / task.name, "match": task.match, "budgets": task.budgets}
    own = options_of(CompareOptions, defaults=usual)
    return _command(work, task.compare_help or task.__doc__, own, task.TestOptions, task.Options)


def mention(text: str | None) -> Callable[..., None]:
    """Make a command that stands in a list of commands and is not called: its options need not be made."""

    def command() -> None:
        """Do nothing."""

    command.__doc__ = unwrapped(text or "")
    return command


def _command(
    work: Callable[[Mapping[str, Any], Path], None], text: str | None, first: type[Any], *kinds: type[Any]
) -> Callable[..., None]:
    """Make a command that takes the options of several dataclasses, and those of a training."""
    training = options_of(
        TrainingConfig,
        leave_out=("seed", "betas"),
        all_open=True,
        group=_TRAINING,
        basic=("epochs", "batch_size", "lr"),
    )
    kind = joined(first, *map(options_of, kinds), training)
    has_required = any(field.default is dataclasses.MISSING for field in dataclasses.fields(kind))
    usual = inspect.Parameter.empty if has_required else kind()

    def command(*, options: Any = usual) -> None:
        work(changed(options), options.out)

    command.__doc__ = unwrapped(text or "")
    command.__annotations__["options"] = kind  # what cyclopts reads
    return command
