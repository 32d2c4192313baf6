"""Compare models: train them on the same data, test them on the same unseen pairs, and write the report."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any, Unpack

from selfattn.codec import fingerprint
from selfattn.comparison.analysis import primary_pair
from selfattn.comparison.check import check_sizes, decisions
from selfattn.comparison.costs import COSTS, digest_of_costs, measure_costs, step_key, step_seconds, steps_of
from selfattn.comparison.options import (
    MOST_SEEDS,
    NOT_THE_RESULT,
    QUICK_RUNS,
    RUNS,
    SEEDS,
    TRIALS,
    TRIALS_TO_TARGET,
    CompareOptions,
    CompareSettings,
)
from selfattn.comparison.plan import (
    READ_IN_A_STEP,
    TUNING,
    ComparisonPlan,
    PlannedModel,
    planned_trials,
    read_space,
    tuned_settings,
)
from selfattn.comparison.record import check_free_of_others, write_comparison
from selfattn.comparison.tested import Tested, is_tested
from selfattn.comparison.testing import batch_shape
from selfattn.comparison.trainings import Trainings, digest_of_trials, tune
from selfattn.errors import SettingError, UserError, number_of, say
from selfattn.evaluation.cost import BatchShape, training_flops
from selfattn.evaluation.metrics import EXACT_MATCH
from selfattn.evaluation.significance import FEWEST
from selfattn.evaluation.variances import runs_for_ratio
from selfattn.experiments.plan import (
    PLAN,
    backfill_ledger,
    begin,
    check_out,
    resume,
    write_plan,
)
from selfattn.experiments.queue import connect_backend, stop_workers
from selfattn.models.build import body, match, parameters
from selfattn.models.config import ModelConfig
from selfattn.models.families import PRESETS, get_preset
from selfattn.processes import use_threads
from selfattn.registry import is_name
from selfattn.report.write import ReportFiles
from selfattn.results.plan import Axis
from selfattn.results.record import Matching, Record
from selfattn.runs.ledger import read_ledger, seal_step
from selfattn.runs.record import used_plugins
from selfattn.runs.task import Resource, TaskData, decided_by, headline, make_task, metric_names, task_class
from selfattn.runs.train import gathered, rehearsal, with_settings
from selfattn.settings import Settings, changed, check_conditions, command_line, divide
from selfattn.streams import seed_for
from selfattn.training.config import TrainingConfig, TrainingSettings
from selfattn.words.messages import SOURCE, message

_SPREAD = 0.15  # standard deviation of the logarithm of what runs of a model need, as a forecast takes it
_REHEARSAL: dict[str, Any] = {  # settings of the rehearsal, in place of those of the comparison
    "quick": True,
    "jobs": 1,
    "max_steps": 2,
    "validation_items": 5,
    "test_items": 5,
}
_NOT_REHEARSED = (
    "epochs", "warmup_steps",  # do not fit two batches
    "until", "at_most", "look_items",  # any training shows what a plugin lacks
    "seeds", "budgets", "budget_in", "tune", "space", "trials", "tunings", "tuning_seed",  # one seed, as it is quick
    "resume", "backend", "address",
)  # fmt: skip
_LENGTH = ("epochs", "max_steps", "items_per_epoch")  # settings that decide the length of a training
_FEWEST_TUNINGS = 5  # with fewer seeds than this, each seed has a tuning
_TUNING_SEEDS = 1_000_000  # so many first seeds
_NOT_OF_ONE = ("out", "resume", "lang", "plan_only")  # they are given for all comparisons together, or not at all


def compare(
    task: str | TaskData,
    options: CompareOptions | None = None,
    *,
    training: TrainingSettings | None = None,
    task_options: object = None,
    rehearse: bool = True,
    **settings: Unpack[CompareSettings],
) -> tuple[Record, ReportFiles]:
    """Train the models of a comparison, test them, and write the report.

    All models of one seed see the same batches in the same order, and all runs are tested on the same pairs. A
    comparison that was stopped continues with ``resume``. Settings that are left out come from the task.

    The steps are: plan, tune each model, train and test the final runs, measure costs, write the report.

    Args:
        task: name of the task, such as ``"dates"``; or a task object with its options.
        options: of the comparison.
        training: settings of every training, in place of those of the task's recipe.
        task_options: options of a task that is given by name: settings by name, or an object of ``TaskData.Options`` or
            ``TaskData.TestOptions``.
        rehearse: with plugins, first make a complete comparison of two batches, so that a broken plugin fails at once.
        settings: fields of ``options`` and ``training`` by name, in place of these two; also options of the task, which
            are checked at run time.

    Returns:
        The record, and the paths of the report's files.

    Raises:
        SettingError: a setting is unknown or given twice, or its value is not allowed.
        UserError: the data or the directory cannot be used.

    Example:
        ``compare("dates", models=("rnn-attention", "transformer"), quick=True, out="compare/dates")``

        ``compare("dates", CompareOptions(models=("rnn-attention", "transformer"), out=Path("compare/dates")),
        training={"epochs": 3}, task_options={"locales": ("ko_KR",)})``
    """
    kind = task_class(task)
    settings_by_name = gathered(
        settings, options, CompareOptions, training, task_options, kind.Options, kind.TestOptions
    )
    trainings, chosen = prepare(task, settings_by_name)
    options = trainings.options
    with ExitStack() as stack:
        stack.callback(stop_workers)
        stack.enter_context(use_threads(options.threads))
        # plan
        if options.resume and (options.out / PLAN).exists():
            plan = stack.enter_context(resume(ComparisonPlan, options.out, trainings.command))
            check_free_of_others(options.out)
            tested = [options.out / run.path for run in plan.runs() if is_tested(options.out / run.path)]
            backfill_ledger(options.out, plan, {path: Tested(path).digests for path in tested})
            if plan.tuned and len(tested) == len(plan.runs()):
                say(f"{options.out}: all runs are finished; only the report is written again")
        else:
            check_out(options.out)
            plan = make_plan(trainings, chosen)
            if rehearse and plan.plugins:
                _rehearse(task, settings_by_name)
            plan = stack.enter_context(begin(options.out, plan, decisions(plan, trainings)))
        trainings.keep_to(plan.seal)
        # tuning
        if not plan.tuned:
            trials = sum(map(len, planned_trials(plan).values()))
            counts = {"trials": trials, "tunings": plan.tunings, "each": plan.tuning_trials}
            key = "progress.plan" if plan.until is None else "progress.plan.target"
            text = message(key, **counts, runs=len(plan.runs()), space=", ".join(plan.space) or "–")
            say(text.say(options.lang))
            plan = tune(plan, options.out, trainings.run_all)
            digest = digest_of_trials(plan, options.out)
            seal_step(options.out, TUNING, plan.command, plan=plan.seal.sha256, digest=digest)
            write_plan(options.out, plan)
        trainings.run_all(plan.runs())
        # costs and report
        is_new = measure_costs(trainings, plan)
        if is_new or not any(entry.sealed == COSTS for entry in read_ledger(options.out)):
            digest = digest_of_costs(options.out)
            seal_step(options.out, COSTS, plan.command, plan=plan.seal.sha256, digest=digest)
        return write_comparison(options.out, options.out, options.lang)


def _rehearse(task: str | TaskData, settings: Mapping[str, Any]) -> None:
    """Train every model on two batches, test it, and write a report; the results are thrown away."""
    with rehearsal() as folder:
        shortened = {name: value for name, value in settings.items() if name not in _NOT_REHEARSED}
        compare(task, rehearse=False, **shortened | _REHEARSAL | {"out": folder / "out"})


def forecast(task: str | TaskData, **settings: Unpack[CompareSettings]) -> list[str]:
    """Forecast what :func:`compare` would train with these settings, from a few timed steps of each model.

    Args:
        task: see :func:`compare`.
        settings: see :func:`compare`.

    Returns:
        Lines of text. The time assumes that trainings side by side do not slow each other down.

    Raises:
        UserError: see :func:`compare`.
    """
    trainings, chosen = prepare(task, settings)
    options = trainings.options
    recipe = trainings.recipe
    with use_threads(options.threads):
        plan = make_plan(trainings, chosen)
        trials = list(chain.from_iterable(planned_trials(plan).values()))
        runs = plan.runs()
        sizes = {step_key(job.name, replace(recipe, **job.model.training)): job for job in trials or runs}
        seconds = step_seconds(
            {key: (job.model.config, replace(recipe, **job.model.training)) for key, job in sizes.items()}, trainings
        )
    sha256 = fingerprint(decisions(plan, trainings))
    plan = replace(plan, steps=steps_of(trainings.data(trainings.first_seed)[0], recipe))
    # Tuning has not chosen yet, so a model's final runs count as long as its trials on average.
    count = len(trials) + len(runs)
    taken: dict[str, list[float]] = {name: [] for name in plan.models}
    for job in trials or runs:
        steps = job.variant.applied_to(recipe, plan.steps_with(job.model.training)).max_steps
        total = steps or plan.steps_with(job.model.training)
        taken[job.name].append(total * seconds[step_key(job.name, replace(recipe, **job.model.training))])
    with connect_backend(trainings.workers, count) as (_, jobs):
        minutes = sum(map(mean, taken.values())) * count / len(taken) / jobs / 60
    lines = [f"{key}: {1000 * step:.1f} ms a step" for key, step in seconds.items()]
    if trials:
        tunings = f"{number_of(plan.tunings, 'tuning')} of {number_of(plan.tuning_trials, 'trial')}"
        lines.append(f"{tunings} for each model and budget, settings from {', '.join(plan.space)}")
    lines.append(f"plan: SHA-256 {sha256}; the same command seals the same plan")
    if plan.until is not None:
        needed = {factor: runs_for_ratio(factor, _SPREAD) for factor in (2.0, 1.3)}
        runs_of = " and ".join(f"{runs} show a factor of {factor:g}" for factor, runs in needed.items())
        lines.append(f"runs of each model: {plan.tunings}; where runs differ by {_SPREAD:.0%}, {runs_of} (power 80 %)")
        lines.append(f"a training ends at the target, or after {recipe.items_per_epoch:,} examples at the latest")
    return [
        *lines,
        f"{number_of(count, 'training')}, {jobs} in parallel: "
        f"about {minutes:,.1f} minutes, plus validation, tests and report",
    ]


def make_plan(trainings: Trainings, chosen: Mapping[str, PlannedModel]) -> ComparisonPlan:
    """Match the sizes of the chosen models, and return the plan of the comparison, not yet sealed."""
    task = trainings.task
    options = trainings.options
    recipe = trainings.recipe
    primary = primary_pair(task, list(chosen))
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
    copied = ("quick", "first_seed", "test_draw", "budget_in", "pilot", "margin", "threads")
    tuning: dict[str, Any] = {}
    if options.tune:
        names = tuned_settings(options.space, list(chosen))
        read_in_a_step = {name: getattr(recipe, name) for name in READ_IN_A_STEP if name in names}
        tuning = {
            "space": options.space,
            "tuning_seed": options.tuning_seed,
            "tuning_trials": options.trials,
            "tunings": options.tunings,
            "read_in_a_step": {name: value for name, value in read_in_a_step.items() if value is not None},
        }
    if options.until is not None:
        tuning |= {
            "until": options.until,
            "tuning_seed": options.first_seed or 0,
            "tuning_trials": options.trials if options.tune else 1,
            "tunings": options.seeds or 1,
        }
    return ComparisonPlan(
        **{name: getattr(options, name) for name in copied},
        task=task.name,
        command=trainings.command,
        seeds=options.seeds or 1,
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
        **tuning,
    )


def compare_each(
    task: str, settings: Mapping[str, Mapping[str, Any]], out: Path, *, resume: bool = False, lang: str = SOURCE
) -> dict[str, Path]:
    """Train comparisons one after the other, each in a directory of its own.

    All are planned before the first is trained, so files that are missing, or models that differ, are refused at once.
    Each plan is sealed as its comparison begins.

    Args:
        task: name of the task that they are comparisons on, such as ``"translation"``.
        settings: those of :func:`compare`, without `out`, by the name of the data set.
        out: directory of all, new; a comparison is in the folder of its name.
        resume: continue; finished runs are not repeated. Default False.
        lang: of the reports. Default English.

    Returns:
        The directory of each comparison, for `selfattn.comparison.together.read_together`.

    Raises:
        SettingError: fewer than three data sets or two models, other models or another metric than the first has, a
            name that no folder can have, or a setting that :func:`compare` refuses.
        UserError: see :func:`compare`.

    Example:
        ``compare_each("translation", {"kor": {"data": ("kor.tsv",)}, "jpn": {"data": ("jpn.tsv",)}, ...},
        Path("compare/phones"))``
    """
    if not resume:
        check_out(out)
    if len(settings) < FEWEST:
        raise SettingError(f"{number_of(len(settings), 'data set')}: a verdict over tasks needs {FEWEST} or more")
    first: tuple[str, ComparisonPlan] | None = None
    complete: dict[str, dict[str, Any]] = {}
    for name, values in settings.items():
        if not is_name(name):
            raise SettingError(f"{name!r}: a data set's name is made of at most 100 letters, digits, - and _")
        for setting in _NOT_OF_ONE:
            if setting in values:
                raise SettingError(f"{name}: `{setting}` is not for one of several data sets; leave it out there")
        try:
            plan = make_plan(*prepare(task, values))  # nothing is written
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
        if len(plan.models) < 2:
            raise SettingError(f"{name}: one model has no differences; compare two")
        if first is None:
            first = name, plan
        elif [*plan.models] != [*first[1].models]:
            raise SettingError(f"{name}: compares {', '.join(plan.models)}, other models than {first[0]}")
        elif plan.headline != first[1].headline:
            raise SettingError(
                f"{name}: is decided by {plan.headline.metric}, {first[0]} by {first[1].headline.metric}"
            )
        complete[name] = own_settings(name, plan) | dict(values)
    places = {}
    for number, (name, values) in enumerate(complete.items(), 1):
        places[name] = out / name
        say(f"{name}: {number} of {len(settings)}, in {places[name]}")
        compare(task, **values, out=places[name], resume=resume, lang=lang)
    return places


def own_settings(name: str, plan: ComparisonPlan) -> dict[str, int]:
    """Return a first seed of the trials that follows from the name of a data set; nothing where nothing is tuned.

    With the same trials for every data set, the luck of a tuning would be the same for all, and a verdict over data
    sets would take it for a difference of the models: false alarms of 9 to 19 % instead of 3 to 5 %.

    Args:
        name: of the data set.
        plan: of its comparison.
    """
    if not plan.space or plan.until is not None:
        return {}
    return {"tuning_seed": MOST_SEEDS + seed_for(0, f"tuning/{name}") % _TUNING_SEEDS}


def prepare(task: str | TaskData, settings: Settings) -> tuple[Trainings, dict[str, PlannedModel]]:
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
    check_conditions(changed(options).keys() & of_comparison.keys(), options, CompareOptions.conditions)
    if options.metric is not None:
        task = decided_by(task, options.metric)
    given = recorded | of_training
    command = command_line(f"compare {task.name}", recorded | task.changed_options() | of_training)
    recipe = replace(task.recipe(options.quick), **usual_training | of_training | {"seed": 0})
    check_conditions(of_training, recipe, (*TrainingConfig.conditions, *task.training_conditions()))
    models = choose(task, options)
    if options.tune:
        options = _with_tuning(task, options, models, recipe, of_training, is_chosen="space" in of_comparison)
    return Trainings(task, recipe, options, command, given), models


def _usual_settings(task: TaskData, of_comparison: Settings, of_training: Settings) -> list[dict[str, Any]]:
    """Return the task's usual settings of a comparison, and of its trainings.

    They are few where trainings have another length than the task's own, and in a quick comparison without a target.
    """
    usual = task.usual_comparison()
    has_other_length = any(name in of_training for name in _LENGTH)
    if "until" in usual:  # these ask for scores after the same training
        has_other_length = has_other_length or any(name in of_comparison for name in ("budgets", "margin"))
        has_other_length = has_other_length or of_comparison.get("metric") not in (None, EXACT_MATCH)
    is_quick = of_comparison.get("quick") and "until" not in usual
    if is_quick or (has_other_length and any(name in usual for name in ("until", *_LENGTH))):
        usual = {name: usual[name] for name in ("models", "out", "match")}
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
        if value != getattr(usual, name) and name not in NOT_THE_RESULT:
            recorded[name] = value
    if options.tune is False:
        recorded["no_tune"] = not recorded.pop("tune")
    return recorded


def _completed(options: CompareOptions, of_comparison: Settings, of_training: Settings) -> CompareOptions:
    """Fill in the defaults that depend on other settings."""
    is_tuned = options.tune
    seeds = 1 if options.quick else SEEDS
    if options.until is not None:
        if is_tuned is None:
            is_tuned = "lr" not in of_training or any(of_comparison.get(name) for name in ("space", "trials"))
        seeds = QUICK_RUNS if options.quick else RUNS
        if options.quick and "seeds" not in of_comparison:
            options = replace(options, seeds=seeds, trials=options.trials if "trials" in of_comparison else 1)
    if is_tuned is None:
        is_usual = not options.quick and "lr" not in of_training
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


def choose(task: TaskData, options: CompareOptions) -> dict[str, PlannedModel]:
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
