"""Train one model on a task: from settings to a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from selfattn.models.presets import get_preset
from selfattn.registry import TASKS
from selfattn.runs.directory import RunConfig, check_is_free
from selfattn.runs.fit import fit
from selfattn.runs.options import TrainOptions, with_settings
from selfattn.runs.run import Run
from selfattn.runs.task import Task, make_task
from selfattn.settings import changed, command_line, divide
from selfattn.training.config import TrainingConfig

_NOT_THE_RESULT = TrainOptions.groups["Run"]  # the same run comes out whatever they are


def train(task: str | Task, **settings: Any) -> Run:
    """Train one model and keep the run.

    Args:
        task: its name, such as ``"dates"``; or the task, made with its options.
        settings: those of :class:`TrainOptions` (``out`` must be given), those of
            :class:`selfattn.training.config.TrainingConfig` that are not to be as the recipe says, and where the task
            is given by its name, its own options.

    Raises:
        SettingError: there is no such setting, or it cannot be meant.
        UserError: the data or the directory is not usable.

    Example:
        ``train("dates", model="rnn-attention", out=Path("runs/dates"), locales=("ko_KR",), epochs=3)``
    """
    kind: type[Task] = TASKS[task] if isinstance(task, str) else type(task)
    own, training, of_task = divide(settings, TrainOptions, TrainingConfig, kind.Options)
    options, made = TrainOptions(**own), make_task(task, of_task)
    if not options.resume:
        check_is_free(options.out)
    preset = options.model or made.model
    model = with_settings(get_preset(preset).config, options.set, preset, made.size)
    made.check_model(model, preset)
    recipe = replace(made.recipe(options.quick), **training | {"seed": options.seed})
    data = made.training_set(recipe)
    shown = changed(options) | made.given() | training
    if preset == made.model:
        shown.pop("model", None)
    observers = []
    if options.tensorboard is not None:
        from selfattn.training.tensorboard import TensorBoardObserver

        observers.append(TensorBoardObserver(options.tensorboard))
    return fit(
        RunConfig(made.name, preset, model, recipe, data.settings, data.max_length),
        data,
        options.out,
        command=command_line(f"train {made.name}", {k: v for k, v in shown.items() if k not in _NOT_THE_RESULT}),
        resume=options.resume,
        device=options.device,
        save_every=options.save_every,
        sharded=options.sharded,
        observers=observers,
    )
