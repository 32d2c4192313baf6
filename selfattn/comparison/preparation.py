"""Turn the settings of a call into what a comparison needs: options, recipe, models, and the recorded command."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from selfattn.command_lines import command_line
from selfattn.comparison.models import choose
from selfattn.comparison.options import NOT_THE_RESULT, SEEDS, TRIALS, CompareOptions, CompareSettings
from selfattn.comparison.plan import PlannedModel
from selfattn.comparison.trainings import Trainings
from selfattn.comparison.tuning import check_space, check_tunings, default_space, default_tunings, tuned_settings
from selfattn.errors import SettingError
from selfattn.runs.inputs import gathered
from selfattn.runs.task import TaskData, make_task, task_class
from selfattn.runs.task_metrics import decided_by
from selfattn.settings import Settings, changed, check_conditions, divide
from selfattn.training.config import TrainingConfig, TrainingSettings

_LENGTH = ("epochs", "max_steps", "items_per_epoch")  # settings that decide the length of a training


def gather_settings(
    task: str | TaskData,
    options: CompareOptions | None,
    training: TrainingSettings | None,
    task_options: object,
    settings: CompareSettings,
) -> dict[str, Any]:
    """Return the settings of a call by name, wherever they stand.

    Args:
        task: see :func:`~selfattn.comparison.compare.compare`, as all that follow.
        options: see there.
        training: see there.
        task_options: see there.
        settings: see there.

    Raises:
        SettingError: a setting is unknown or given twice, or is the seed of a single training.
    """
    task_kind = task_class(task)
    by_name = gathered(
        settings, options, CompareOptions, training, task_options, task_kind.Options, task_kind.TestOptions
    )
    if "seed" in by_name:
        raise SettingError("`seed`: the trainings of a comparison have several; give `first_seed` or `seeds`")
    return by_name


def prepare(task: str | TaskData, settings: Settings) -> tuple[Trainings, dict[str, PlannedModel]]:
    """Check settings, and return the runner of the trainings, and the models.

    Args:
        task: see :func:`~selfattn.comparison.compare.compare`.
        settings: by name, of the comparison, of its trainings, and of the task.

    Raises:
        SettingError: a setting is unknown, its value is not allowed, or it does not go with another one.
    """
    kind = task_class(task)
    of_comparison, of_training, of_task, of_tests = divide(
        settings, CompareOptions, TrainingConfig, kind.Options, kind.TestOptions
    )
    task = make_task(task, of_task | of_tests)
    usual, usual_training = _usual_settings(task, of_comparison, of_training)
    options = CompareOptions(**usual | of_comparison)
    recorded = _to_record(options, of_comparison, usual)
    options = _completed(options, of_comparison, of_training)
    check_conditions(changed(options).keys() & of_comparison.keys(), options, CompareOptions.conditions)
    if options.metric is not None:
        task = decided_by(task, options.metric)
    command = command_line(f"compare {task.name}", recorded | task.changed_options() | of_training)
    recipe = replace(task.recipe(options.quick), **usual_training | of_training | {"seed": 0})
    check_conditions(of_training, recipe, (*TrainingConfig.conditions, *task.training_conditions()))
    models = choose(task, options)
    if options.tune:
        options = _with_tuning(task, options, models, recipe, of_training, is_chosen="space" in of_comparison)
    return Trainings(task, recipe, options, command), models


def _usual_settings(
    task: TaskData, of_comparison: Settings, of_training: Settings
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the task's usual settings of a comparison, and of its trainings.

    They are few in a quick comparison, and where trainings have another length than the task's own.
    """
    usual = task.usual_comparison()
    has_other_length = any(name in of_training for name in _LENGTH) and any(name in usual for name in _LENGTH)
    if of_comparison.get("quick") or has_other_length:
        usual = {name: usual[name] for name in ("models", "out", "match")}
    training = {name: value for name, value in usual.items() if name in TrainingConfig.__dataclass_fields__}
    return {name: value for name, value in usual.items() if name not in training}, training


def _to_record(options: CompareOptions, of_comparison: Settings, usual: Settings) -> dict[str, Any]:
    """Return what the recorded command says of the options: what is not usual, and changes the result."""
    defaults = {**usual}
    for name in NOT_THE_RESULT:
        defaults[name] = getattr(options, name)
    recorded = changed(options)
    for name in of_comparison:
        if name in defaults:
            recorded[name] = getattr(options, name)
    recorded = {name: value for name, value in recorded.items() if name not in defaults or value != defaults[name]}
    if options.tune is False:
        recorded["no_tune"] = not recorded.pop("tune")
    return recorded


def _completed(options: CompareOptions, of_comparison: Settings, of_training: Settings) -> CompareOptions:
    """Fill in the defaults that depend on other settings."""
    is_tuned = options.tune
    if is_tuned is None:
        is_usual = not options.quick and "lr" not in of_training
        is_tuned = is_usual or any(of_comparison.get(name) for name in ("space", "trials", "tunings"))
    return replace(
        options,
        tune=is_tuned,
        seeds=options.seeds or (1 if options.quick else SEEDS,),
        first_seed=options.first_seed or 0,
        budgets=options.budgets or (1.0,),
    )


def _with_tuning(
    task: TaskData,
    options: CompareOptions,
    models: Mapping[str, PlannedModel],
    recipe: TrainingConfig,
    training: Settings,
    *,
    is_chosen: bool,
) -> CompareOptions:
    """Return the options with space, number of trials and number of tunings filled in.

    A setting that the caller gave for all trainings is left out of the default space. In a space that the caller chose
    it is an error.
    """
    space: list[str] = []
    for text in options.space or task.tuning_space or default_space(recipe):
        names = tuned_settings([text], list(models))
        fixed = names & training.keys()
        if fixed and is_chosen:
            raise SettingError(f"`{min(fixed)}` is one value for all trainings, and `space` tries several: give one")
        if not fixed:
            space.append(text)
    if not space:
        raise SettingError("`tune`: nothing is left to be tried, because all settings of the space are given")
    check_space(space, models, recipe)
    tunings = options.tunings or default_tunings(options.seeds)
    check_tunings(tunings, options.seeds)
    trials = options.trials or TRIALS
    of_runs = range(options.first_seed or 0, (options.first_seed or 0) + max(options.seeds))
    of_trials = range(options.tuning_seed, options.tuning_seed + tunings * trials)
    if of_trials.start < of_runs.stop and of_trials.stop > of_runs.start:  # they overlap
        reason = f"these are seeds of final runs; choose one from {of_runs.stop}"
        raise SettingError(f"`tuning_seed` {options.tuning_seed}: {reason}")
    return replace(options, space=tuple(space), tunings=tunings, trials=trials)
