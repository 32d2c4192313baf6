"""The commands of a task: `train NAME` and `compare NAME`, made from the task and its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from selfattn.cli.options import given, options_of
from selfattn.console import say
from selfattn.runs.task import Task
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.launch import is_main_process

_TRAINING = "Training (where not given, as the recipe says)"


def train_command(task: type[Task]) -> Callable[..., None]:
    """Make the command that trains one model on a task."""

    def work(settings: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
        from selfattn.runs.train import train

        train(task.name, **settings)
        if is_main_process():
            out = parts["run"].out
            say(f"{out}: done; try: selfattn {task.suggested} {out}")

    from selfattn.runs.train import TrainOptions

    run = options_of(TrainOptions, defaults={"model": task.model})
    return _command(work, task.train_help or task.__doc__, run=run, own=options_of(task.Options))


def compare_command(task: type[Task]) -> Callable[..., None]:
    """Make the command that compares models on a task."""

    def work(settings: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
        from rich.console import Console

        from selfattn.comparison.compare import compare
        from selfattn.comparison.plan import PLAN
        from selfattn.report.render.terminal import print_summary

        try:
            record, files = compare(task.name, **settings)
        except KeyboardInterrupt:
            out = parts["comparison"].out
            if (out / PLAN).is_file():
                say(f"stopped; what is done is kept in {out}: the same command with --resume goes on")
            raise
        print_summary(record, Console(highlight=False), files.html)

    from selfattn.comparison.plan import CompareOptions

    usual = {"models": task.models, "out": Path("compare") / task.name, "match": task.match}
    return _command(
        work,
        task.compare_help or task.__doc__,
        comparison=options_of(CompareOptions, defaults=usual),
        tests=options_of(task.TestOptions),
        own=options_of(task.Options),
    )


def mention(text: str | None) -> Callable[..., None]:
    """Make a command that stands in a list of commands and is not called: its options need not be made."""

    def command() -> None:
        """Do nothing."""

    command.__doc__ = inspect.cleandoc(text or "")
    return command


def _command(
    work: Callable[[Mapping[str, Any], Mapping[str, Any]], None], text: str | None, **kinds: type[Any]
) -> Callable[..., None]:
    """Make a command that takes the options of several dataclasses, and those of a training."""
    kinds["training"] = options_of(TrainingConfig, leave_out=("seed", "betas"), all_open=True, group=_TRAINING)

    def command(**parts: Any) -> None:
        whole = {
            name: parts.get(name, _default(kind)) for name, kind in kinds.items()
        }  # what is as usual is not passed
        settings: dict[str, Any] = {}
        for options in whole.values():
            settings |= given(options)
        work(settings, whole)

    command.__doc__ = inspect.cleandoc(text or "")
    command.__annotations__ = dict(kinds)
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what cyclopts reads
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=_default(kind))
            for name, kind in kinds.items()
        ]
    )
    return command


def _default(kind: type[Any]) -> Any:
    """The options with nothing given; none where one has to be."""
    try:
        return kind()
    except TypeError:
        return inspect.Parameter.empty
