"""What a comparison trains: the settings that are given completed, the models chosen and made equally large."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from selfattn.comparison.check import check_sizes
from selfattn.comparison.costs import steps_of
from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import READ_IN_A_STEP, ComparisonPlan, PlannedModel, read_space, tuned_settings
from selfattn.comparison.testing import batch_shape
from selfattn.comparison.trainings import TrainingRunner
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.cost import BatchShape, training_flops
from selfattn.evaluation.metrics import EXACT_MATCH
from selfattn.models.build import body, match, parameters
from selfattn.models.config import ModelConfig
from selfattn.models.families import PRESETS, get_preset
from selfattn.results.plan import Axis
from selfattn.results.record import Matching
from selfattn.runs.record import used_plugins
from selfattn.runs.task import Resource, TaskData, decided_by, headline, make_task, metric_names, task_class
from selfattn.runs.train import with_settings
from selfattn.settings import Settings, check_conditions, command_line, divide, non_default
from selfattn.training.config import TrainingConfig

SEEDS = 3
TRIALS = 4
# Of a comparison by target.
RUNS = 5
QUICK_RUNS = 3
TRIALS_TO_TARGET = 2

_NOT_THE_RESULT = ("resume", "jobs", "backend", "address", "plan_only")  # options that the results do not depend on
_LENGTH = ("epochs", "max_steps", "items_per_epoch")  # settings that decide the length of a training

_FEWEST_TUNINGS = 5  # with fewer seeds than this, each seed has a tuning


def prepare(task: str | TaskData, settings: Settings) -> tuple[TrainingRunner, dict[str, PlannedModel]]:
    """Check settings, and return the runner of the trainings, and the models.

    Args:
        task: see :func:`compare`.
        settings: by name, of the comparison, of its trainings, and of the task.

    Raises:
        SettingError: a setting is unknown, its value is not allowed, or it does not go with another one.
    """
    if "seed" in settings:
        raise SettingError("`seed`: the trainings of a comparison have several; give `first_seed` or `seeds`")
    kind = task_class(task)
    of_comparison, of_training, of_task, of_tests = divide(
        settings, CompareOptions, TrainingConfig, kind.Options, kind.TestOptions
    )
    task = make_task(task, of_task | of_tests)
    usual, usual_training = _usual_settings(task, of_comparison, of_training)
    options = CompareOptions(**usual | of_comparison)
    if options.until is not None:
        not_length = {name: value for name, value in usual_training.items() if name not in _LENGTH}
        usual_training = _towards_target(task, options, of_training) | not_length
    recorded = _to_record(options, CompareOptions(**usual))
    options = _completed(options, of_comparison, of_training)
    check_conditions(non_default(options).keys() & of_comparison.keys(), options, CompareOptions.conditions)
    if options.metric is not None:
        task = decided_by(task, options.metric)
    given = recorded | of_training
    command = command_line(f"compare {task.name}", recorded | task.changed_options() | of_training)
    recipe = replace(task.recipe(options.quick), **usual_training | of_training | {"seed": 0})
    check_conditions(of_training, recipe, (*TrainingConfig.conditions, *task.training_conditions()))
    models = resolve_models(task, options)
    if options.tune:
        options = _with_tuning(task, options, models, recipe, of_training, is_chosen="space" in of_comparison)
    return TrainingRunner(task, recipe, options, command, given), models


def _usual_settings(task: TaskData, of_comparison: Settings, of_training: Settings) -> list[dict[str, Any]]:
    """Return the task's usual settings of a comparison, and of its trainings.

    They are few where trainings have another length than the task's own, and in a quick comparison without a target.
    Where scores are asked of a task that has a target, models read as much as the target's cap.
    """
    usual = task.usual_comparison()
    few = {name: usual[name] for name in ("models", "out", "match")}
    has_length = any(name in of_training for name in _LENGTH)
    is_quick = of_comparison.get("quick")
    if "until" in usual:
        asks_for_scores = "margin" in of_comparison or of_comparison.get("metric") not in (None, EXACT_MATCH)
        if has_length or "budgets" in of_comparison or (asks_for_scores and is_quick):
            usual = few
        elif asks_for_scores:
            usual = few | {"epochs": 1, "items_per_epoch": usual["at_most"]}
    elif is_quick or (has_length and any(name in usual for name in _LENGTH)):
        usual = few
    return divide(usual, CompareOptions, TrainingConfig)


def _towards_target(task: TaskData, options: CompareOptions, of_training: Settings) -> dict[str, Any]:
    """Return the usual settings of trainings towards a target: a constant rate, averaged weights, frequent looks.

    At a constant rate the single weights never settle; their average does. A schedule would have to know beforehand how
    long the training will be.

    Raises:
        SettingError: a setting of the training contradicts the target, or exact match does not decide.
    """
    metric = options.metric or headline(task).metric
    if metric != EXACT_MATCH:
        raise SettingError(f"`until`: {metric} decides here, and a target is a share of exact matches; leave it out")
    for name in (*_LENGTH, "target_exact_match", "max_tokens", "patience"):
        if name in of_training:
            raise SettingError(f"`{name}`: has no effect beside `until`, see `at_most`; leave one of them out")
    return {
        "epochs": 1,
        "items_per_epoch": options.at_most,
        "max_steps": None,
        "max_tokens": None,
        "patience": None,
        "target_exact_match": options.until,
        "batch_size": 8,
        "schedule": "constant",
        "warmup_steps": 100,
        "average": "ema",
        "ema_decay": 0.99,
        "validation_items": 1000,
        "validate_every": 25,
        "look_items": 100,
    }


def _to_record(options: CompareOptions, usual: CompareOptions) -> dict[str, Any]:
    """Return what the recorded command says of the options: what is not usual, and changes the result."""
    recorded: dict[str, Any] = {}
    for name, value in vars(options).items():
        if value != getattr(usual, name) and name not in _NOT_THE_RESULT:
            recorded[name] = value
    if options.tune is False:
        recorded["no_tune"] = not recorded.pop("tune")
    return recorded


def _completed(options: CompareOptions, of_comparison: Settings, of_training: Settings) -> CompareOptions:
    """Fill in the defaults that depend on other settings."""
    by_target = options.until is not None
    seeds, quick_seeds = (RUNS, QUICK_RUNS) if by_target else (SEEDS, 1)
    if options.quick:
        seeds = quick_seeds
        if by_target and "seeds" not in of_comparison:
            options = replace(options, seeds=seeds, trials=options.trials if "trials" in of_comparison else 1)
    is_tuned = options.tune
    if is_tuned is None:
        is_usual = "lr" not in of_training and (by_target or not options.quick)
        is_tuned = is_usual or any(of_comparison.get(name) for name in ("space", "trials", "tunings"))
    return replace(
        options,
        tune=is_tuned,
        seeds=options.seeds or seeds,
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
        owner, colon, _ = text.partition("=")[0].rpartition(":")
        if not is_chosen and colon and owner not in models:  # the task's own space names models that may be left out
            continue
        names = tuned_settings([text], list(models))
        fixed = names & training.keys()
        if fixed and is_chosen:
            raise SettingError(f"`{min(fixed)}` is one value for all trainings, and `space` tries several: give one")
        if not fixed and (is_chosen or recipe.warmup_steps is None or "warmup" not in names):
            space.append(text)
    if not space:
        raise SettingError("`tune`: nothing is left to be tried, because all settings of the space are given")
    check_space(space, models, recipe)
    if recipe.warmup_steps is not None and "warmup" in tuned_settings(space, list(models)):
        raise SettingError("`space` warmup: has no effect beside `warmup_steps`; try warmup_steps instead")
    seeds = options.seeds or SEEDS
    if options.until is not None:
        return replace(options, space=tuple(space), trials=options.trials or TRIALS_TO_TARGET)
    tunings = options.tunings or default_tunings(seeds)
    if seeds % tunings:
        raise SettingError(f"`tunings` {tunings}: `seeds` {seeds} cannot be divided among them evenly; give another")
    trials = options.trials or TRIALS
    of_runs = range(options.first_seed or 0, (options.first_seed or 0) + seeds)
    of_trials = range(options.tuning_seed, options.tuning_seed + tunings * trials)
    if of_trials.start < of_runs.stop and of_trials.stop > of_runs.start:  # they overlap
        reason = f"these are seeds of final runs; choose one from {of_runs.stop}"
        raise SettingError(f"`tuning_seed` {options.tuning_seed}: {reason}")
    return replace(options, space=tuple(space), tunings=tunings, trials=trials)


def resolve_models(task: TaskData, options: CompareOptions) -> dict[str, PlannedModel]:
    """Look the models up and apply their settings.

    A model is named as a preset, or as ``name=preset`` to give a preset another name.

    Args:
        task: gives presets their size before settings are applied.
        options: of the comparison.

    Raises:
        UserError: a model is unknown or named twice, or a setting is not one of a model.
    """
    named = [text.partition("=") for text in (PRESETS if options.models == ("all",) else options.models)]
    names = [name for name, *_ in named]
    if len(set(names)) < len(names) or not names:
        raise SettingError(f"`models` {','.join(names)}: expected different names; give one of two as name=model")
    for setting in options.set:
        owner, colon, _ = setting.partition("=")[0].partition(":")
        if colon and owner not in names:
            raise SettingError(f"`set` {setting}: {owner!r} is not a model of this comparison: {', '.join(names)}")
    models = {}
    for name, _, of_preset in named:
        preset = of_preset or name
        try:
            config = with_settings(task.size(get_preset(preset).config), options.set, name)
        except UserError as error:
            raise SettingError(f"{name}: {error}") from None
        task.check_model(config, preset)
        models[name] = PlannedModel(preset, config)
    return models


def make_plan(trainings: TrainingRunner, chosen: Mapping[str, PlannedModel]) -> ComparisonPlan:
    """Match the sizes of the chosen models, and return the plan of the comparison, not yet sealed."""
    task = trainings.task
    options = trainings.options
    recipe = trainings.recipe
    primary = task.subject().pair_among(list(chosen))
    if options.until is not None and options.margin is not None:
        raise SettingError("`margin`: is about scores, and has no effect beside `until`; leave one of them out")
    if primary is None and options.margin is not None:
        raise SettingError("`margin` is about one difference: name two models")
    data = trainings.data(trainings.first_seed)[0]
    examples = 0
    if options.budget_in == "examples":
        epoch = data.epoch(0) if options.budgets != (1.0,) else ()
        if not isinstance(epoch, Sequence):
            raise SettingError("`budget_in` examples: the data are a stream of unknown length; take steps")
        examples = len(epoch) * (1 if recipe.items_per_epoch is None else recipe.epochs)  # endless data differ by epoch
    sized, matching = match_models(
        {name: model.config for name, model in chosen.items()},
        options,
        vocab_size=len(data.tokenizer),
        training=recipe,
        shape=batch_shape(data.validation, recipe),
    )
    copied = ["quick", "seeds", "first_seed", "test_draw", "budget_in", "pilot", "margin", "threads", "until"]
    tuning: dict[str, Any] = {}
    if options.tune:
        copied += ["space", "tuning_seed", "tunings"]
        names = tuned_settings(options.space, list(chosen))
        read_in_a_step = {name: getattr(recipe, name) for name in READ_IN_A_STEP if name in names}
        tuning["tuning_trials"] = options.trials
        tuning["read_in_a_step"] = {name: value for name, value in read_in_a_step.items() if value is not None}
    if options.until is not None:
        trials = options.trials if options.tune else 1
        tuning |= {"tuning_seed": options.first_seed, "tuning_trials": trials, "tunings": options.seeds}
    return ComparisonPlan(
        **{name: getattr(options, name) for name in copied} | tuning,
        task=task.name,
        command=trainings.command,
        budgets=tuple(sorted(options.budgets)),
        steps=steps_of(data, recipe) if options.budgets != (1.0,) else 0,
        examples=examples,
        primary=primary,
        models={name: replace(model, config=sized[name]) for name, model in chosen.items()},
        headline=headline(task),
        matching=matching,
        baseline=task.stated_baseline,
        tuned=not options.tune and options.until is None,
        test_set=str(data.settings.get("test_set", "")),
        plugins=used_plugins(task.name, metric_names(task), *(model.config for model in chosen.values())),
    )


def match_models(
    models: Mapping[str, ModelConfig],
    options: CompareOptions,
    *,
    vocab_size: int,
    training: TrainingConfig,
    shape: BatchShape,
) -> tuple[dict[str, ModelConfig], Matching]:
    """Size models for one budget; without a budget, compare their parameters.

    Args:
        models: by name.
        options: say what is to be equal, and whether models may be apart all the same.
        vocab_size: of the shared tokenizer.
        training: recipe.
        shape: of a batch.

    Returns:
        The models, and what each has of the budget.

    Raises:
        UserError: a model cannot have that size, or models are too far apart.
    """
    budget: Resource | None = None if options.match is None or options.match == "none" else options.match
    quantity: Resource = budget or "parameters"
    measure = _measure(quantity, vocab_size, shape, training)
    sized = dict(models)
    target = None
    if budget is not None:
        target = statistics.median(map(measure, models.values()))
        for name, config in models.items():
            try:
                sized[name] = match(config, target, measure)
            except UserError as error:
                raise UserError(f"{name}: {error}") from None
    counts = {name: measure(config) for name, config in sized.items()}
    matching = Matching(budget or "none", target, counts, allowed_apart=options.apart)
    gate = check_sizes(matching, sized)
    if not gate.passed:
        sizes = "" if budget in ("body", "flops") else ", `match` body sizes them"
        raise SettingError(f"{gate.reason}; `apart` compares them all the same{sizes}")
    return sized, matching


def _measure(
    quantity: Resource, vocab_size: int, shape: BatchShape, training: TrainingConfig
) -> Callable[[ModelConfig], float]:
    if quantity == "parameters":
        return partial(parameters, vocab_size=vocab_size)
    if quantity == "body":
        return body
    tokens = shape.batch * shape.target
    passes = 2 if training.r_drop else 1
    return lru_cache(lambda config: passes * training_flops(config, vocab_size, shape) / tokens)


def default_space(recipe: TrainingConfig) -> tuple[str, ...]:
    """Return the default space: learning rate, batch size and warm-up around those of the recipe.

    Example:
        >>> default_space(TrainingConfig(lr=0.004, batch_size=64))
        ('lr=0.001..0.016:log', 'batch_size=8,16,32,64', 'warmup=0.05..0.4')
    """
    name = "max_tokens" if recipe.max_tokens else "batch_size"
    largest = recipe.max_tokens or recipe.batch_size
    sizes = sorted({max(1, largest // part) for part in (8, 4, 2, 1)})
    axes = [Axis("lr", low=recipe.lr / 4, high=4 * recipe.lr, log=True)]
    axes += [Axis(name, tuple(map(float, sizes)))] if len(sizes) > 1 else []
    axes += [Axis("warmup", low=0.05, high=0.4)] if recipe.warmup_steps is None else []
    return tuple(map(str, axes))


def default_tunings(seeds: int) -> int:
    """Return the default number of tunings.

    Up to five seeds have a tuning each. More seeds share the smallest number of tunings that is at least five and
    divides the number of seeds.

    Args:
        seeds: number of seeds.

    Example:
        >>> default_tunings(3), default_tunings(8), default_tunings(20)
        (3, 8, 5)
    """
    if seeds <= _FEWEST_TUNINGS:
        return seeds
    return next(count for count in range(_FEWEST_TUNINGS, seeds + 1) if seeds % count == 0)


def check_space(texts: Sequence[str], models: Mapping[str, PlannedModel], recipe: TrainingConfig) -> None:
    """Check that every model can be trained at all listed values and at the ends of all ranges.

    Args:
        texts: see :func:`read_space`.
        models: by name.
        recipe: of the training.

    Raises:
        SettingError: a model or a setting is unknown, or a value is not allowed.
    """
    for name, axes in read_space(texts, list(models)).items():
        for axis in axes:
            for value in axis.values or axis.ends:
                try:
                    replace(recipe, **models[name].at_point({axis.name: axis.typed(value)}).training)
                except UserError as error:
                    raise SettingError(f"`space` {axis}: {name}: {error}") from None
