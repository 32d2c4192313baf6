"""The commands of a task: `train NAME` and `compare NAME`, made from the task and its options."""

import dataclasses
import inspect
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from selfattn.cli.options import joined, options_of, unwrapped
from selfattn.errors import say
from selfattn.runs.task import TaskData
from selfattn.settings import changed, command_line
from selfattn.training.config import TrainingConfig
from selfattn.training.launch import is_main_process
from selfattn.words.messages import SOURCE

_TRAINING = "Training (defaults: the recipe of the task)"
_BASIC = ("epochs", "batch_size", "lr")


def train_command(task: type[TaskData]) -> Callable[..., None]:
    """Make the command that trains one model on a task."""
    from selfattn.runs.train import TrainOptions, train

    def run(settings: Mapping[str, Any], out: Path) -> None:
        train(task.name, **settings)
        if is_main_process():
            say(f"{out}: done; try: {command_line(f'{task.suggested} {shlex.quote(str(out))}', {})}")

    options = options_of(TrainOptions, defaults={"model": task.model})
    return _command(run, task.train_help or task.__doc__, options, task.Options)


def compare_command(task: type[TaskData]) -> Callable[..., None]:
    """Make the command that compares models on a task."""
    from selfattn.comparison.options import CompareOptions
    from selfattn.experiments.plan import PLAN

    def run(settings: Mapping[str, Any], out: Path) -> None:
        from rich.console import Console

        from selfattn.comparison.compare import compare, forecast
        from selfattn.report.render.terminal import print_summary

        if settings.get("plan_only"):
            print("\n".join(forecast(task.name, **settings)))
            return

        try:
            record, files = compare(task.name, **settings)
        except KeyboardInterrupt:
            if (out / PLAN).is_file():
                say(f"stopped; {out} keeps the finished runs: repeat the command with --resume")
            raise
        print_summary(record, Console(highlight=False), files.html, settings.get("lang", SOURCE))

    defaults = {"models": task.models, "out": Path("compare") / task.name, "match": task.match, "budgets": task.budgets}
    options = options_of(CompareOptions, defaults=defaults)
    return _command(run, task.compare_help or task.__doc__, options, task.TestOptions, task.Options)


def _command(
    run: Callable[[Mapping[str, Any], Path], None], text: str | None, first: type[Any], *kinds: type[Any]
) -> Callable[..., None]:
    """Make a command with the options of several dataclasses and those of a training."""
    training = options_of(TrainingConfig, leave_out=("seed", "betas"), all_open=True, group=_TRAINING, basic=_BASIC)
    kind = joined(first, *map(options_of, kinds), training)
    has_required = any(field.default is dataclasses.MISSING for field in dataclasses.fields(kind))
    defaults = inspect.Parameter.empty if has_required else kind()

    def command(*, options: Any = defaults) -> None:
        run(changed(options), options.out)

    command.__doc__ = unwrapped(text or "")
    command.__annotations__["options"] = kind  # what cyclopts reads
    return command
