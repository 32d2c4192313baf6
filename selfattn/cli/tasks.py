"""The commands of a task: `train NAME` and `compare NAME`, made from the task and its options."""

import inspect
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selfattn.cli.options import changed_settings, parameters_of, takes, unwrapped
from selfattn.command_lines import command_line
from selfattn.errors import say
from selfattn.runs.task import TaskData
from selfattn.training.config import TrainingConfig
from selfattn.training.launch import is_main_process
from selfattn.words.messages import SOURCE

_TRAINING = "Training (defaults: the recipe of the task)"
_BASIC = ("epochs", "batch_size", "lr")


def train_command(task: type[TaskData]) -> Callable[..., None]:
    """Make the command that trains one model on a task."""
    from selfattn.runs.train import TrainOptions, train

    of_run = parameters_of(TrainOptions, defaults={"model": task.model})
    parameters = [*of_run, *parameters_of(task.Options), *_training_parameters()]

    @takes(*parameters)
    def run(**settings: Any) -> None:
        model = {"model": settings["model"]} if "model" in settings else {}  # the default too, if it is asked for
        train(task.name, **changed_settings(settings, parameters) | model)
        if is_main_process():
            out = settings["out"]
            say(f"{out}: done; try: {command_line(f'{task.suggested} {shlex.quote(str(out))}', {})}")

    run.__doc__ = unwrapped(task.train_help or task.__doc__ or "")
    return run


def compare_command(task: type[TaskData]) -> Callable[..., None]:
    """Make the command that compares models on a task."""
    from selfattn.comparison.options import CompareOptions
    from selfattn.experiments.plan import PLAN

    defaults = {"models": task.models, "out": Path("compare") / task.name, "match": task.match, "budgets": task.budgets}
    of_comparison = parameters_of(CompareOptions, defaults=defaults)
    of_task = [*parameters_of(task.TestOptions), *parameters_of(task.Options)]
    parameters = [*of_comparison, *of_task, *_training_parameters()]

    @takes(*parameters)
    def run(**settings: Any) -> None:
        from rich.console import Console

        from selfattn.comparison.compare import compare, forecast
        from selfattn.report.render.terminal import print_summary

        out = settings.get("out", defaults["out"])
        lang = settings.get("lang", SOURCE)
        settings = changed_settings(settings, parameters)
        if settings.get("plan_only"):
            print("\n".join(forecast(task.name, **settings)))
            return
        try:
            record, files = compare(task.name, **settings)
        except KeyboardInterrupt:
            if (out / PLAN).is_file():
                say(f"stopped; {out} keeps the finished runs: repeat the command with --resume")
            raise
        print_summary(record, Console(highlight=False), files.html, lang)

    run.__doc__ = unwrapped(task.compare_help or task.__doc__ or "")
    return run


def _training_parameters() -> list[inspect.Parameter]:
    return parameters_of(TrainingConfig, leave_out=("seed", "betas"), all_open=True, group=_TRAINING, basic=_BASIC)
