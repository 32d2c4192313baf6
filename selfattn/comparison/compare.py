"""Compare models: train them on the same data, test them on the same unseen pairs, and write the report."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from statistics import mean
from typing import Any, Unpack

from selfattn.codec import fingerprint
from selfattn.comparison.check import decisions
from selfattn.comparison.costs import measure_costs, step_key, step_seconds, steps_of
from selfattn.comparison.options import CompareOptions, CompareSettings
from selfattn.comparison.plan import TUNING, ComparisonPlan, planned_trials
from selfattn.comparison.preparation import make_plan, prepare
from selfattn.comparison.report import Published, check_free_of_others, write_comparison
from selfattn.comparison.tested import RunOnDisk, is_tested
from selfattn.comparison.trainings import digest_of_trials, tune
from selfattn.errors import number_of, say
from selfattn.evaluation.variances import runs_for_ratio
from selfattn.experiments.plan import PLAN, backfill_ledger, begin, check_out, resume, write_plan
from selfattn.experiments.queue import connect_backend, stop_workers
from selfattn.processes import use_threads
from selfattn.runs.ledger import seal_step
from selfattn.runs.task import TaskData, task_class
from selfattn.runs.train import merge_settings, rehearsal
from selfattn.training.config import TrainingSettings
from selfattn.words.messages import message

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


def compare(
    task: str | TaskData,
    options: CompareOptions | None = None,
    *,
    training: TrainingSettings | None = None,
    task_options: object = None,
    rehearse: bool = True,
    **settings: Unpack[CompareSettings],
) -> Published:
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
    settings_by_name = merge_settings(
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
            backfill_ledger(options.out, plan, {path: RunOnDisk(path).digests for path in tested})
            if plan.tuned and len(tested) == len(plan.runs()):
                say(f"{options.out}: all runs are finished; only the report is written again")
        else:
            check_out(options.out)
            plan = make_plan(trainings, chosen)
            if rehearse and plan.plugins:
                _rehearse(task, settings_by_name)
            plan = stack.enter_context(begin(options.out, plan, decisions(plan, trainings)))
        trainings.seal = plan.seal
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
        measure_costs(trainings, plan)
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
        configs = [(job, job.training_from(recipe)) for job in trials or runs]
        timed = {step_key(job.name, training): (job.model.config, training) for job, training in configs}
        seconds = step_seconds(timed, trainings)
    sha256 = fingerprint(decisions(plan, trainings))
    plan = replace(plan, steps=steps_of(trainings.data(trainings.first_seed)[0], recipe))
    # Tuning has not chosen yet, so a model's final runs count as long as its trials on average.
    count = len(trials) + len(runs)
    taken: dict[str, list[float]] = {name: [] for name in plan.models}
    for job, training in configs:
        steps = training.max_steps or plan.steps_with(job.model.training)
        taken[job.name].append(steps * seconds[step_key(job.name, training)])
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
