"""A comparison from start to report: several models trained on the same data and tested on the same unseen pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfattn.comparison.costs import Forecast, forecast_of, measure_costs, steps_of
from selfattn.comparison.diagnostics import batch_shape
from selfattn.comparison.planning.matching import match_models
from selfattn.comparison.planning.models import choose, primary_pair
from selfattn.comparison.planning.options import NOT_THE_RESULT, CompareOptions
from selfattn.comparison.planning.plan import PLAN, Plan, Planned, Variant, read_plan, read_to_resume, run_name
from selfattn.comparison.planning.protocol import hold_against_plan, seal_of
from selfattn.comparison.planning.tuning import space, tune
from selfattn.comparison.record import make_record
from selfattn.comparison.running.jobs import Jobs, jobs_of
from selfattn.comparison.running.side_by_side import do_all
from selfattn.comparison.testing import Tested, is_tested
from selfattn.demo.page import EXAMPLES, write_demo_of
from selfattn.errors import SettingError
from selfattn.files import HALF_WRITTEN, LOCK, clear_half_written, in_use, writing
from selfattn.registry import TASKS
from selfattn.report.blocks import Outputs
from selfattn.report.sections.attention import DEMO
from selfattn.report.verdict.ranking import ranked
from selfattn.report.write import ReportFiles, write_report
from selfattn.results.record import Record
from selfattn.runs.directory import used_plugins
from selfattn.runs.ledger import begin_ledger, note_look, read_looks
from selfattn.runs.task import Task, make_task
from selfattn.settings import changed, command_line, divide
from selfattn.training.config import TrainingConfig
from selfattn.training.device import use_threads
from selfattn.words.catalogue import SOURCE

ON_DEMO = 4  # models at most
LENGTH = ("epochs", "max_steps", "items_per_epoch")  # of a training: settings that decide it


def compare(task: str | Task, **settings: Any) -> tuple[Record, ReportFiles]:
    """Train the models of a comparison, test them, and write the report.

    All models of one seed see the same examples in the same batches in the same order, and all of all seeds are
    tested on the same pairs. What is done is on disk: a comparison that was stopped goes on with ``resume``.

    Args:
        task: what they are compared on: its name, such as ``"dates"``; or the task, made with its options.
        settings: fields of :class:`selfattn.comparison.planning.options.CompareOptions`; of
            :class:`selfattn.training.config.TrainingConfig`, in place of what the task's recipe says; and where the
            task is given by its name, its own options.

    Returns:
        The record, and the paths of the report's files.

    Raises:
        SettingError: there is no such setting, or its value is not allowed.
        UserError: the data or the directory is not usable.

    Example:
        ``compare("dates", models=("rnn-attention", "transformer"), quick=True, out=Path("compare/dates"))``
    """
    jobs, chosen = _prepared(task, settings)
    options = jobs.options
    with ExitStack() as held:
        plan = None
        if options.resume and (options.out / PLAN).exists():
            held.enter_context(in_use(options.out))
            clear_half_written(options.out.rglob(HALF_WRITTEN))
            plan = read_to_resume(options.out, jobs.command)
            options = replace(options, threads=plan.threads)
            jobs = Jobs(jobs.task, jobs.recipe, options, jobs.command)
            _note_what_is_not_noted(plan, jobs)
        held.enter_context(use_threads(options.thread_count))
        if plan is None:
            check_out(options.out)
            plan = make_plan(jobs, chosen)
            held.enter_context(in_use(options.out))
            check_out(options.out)  # that nobody was faster
            seal = seal_of(plan, jobs)
            plan = replace(plan, seal=seal).save(options.out)
            begin_ledger(options.out, seal, plan.command)
        if not plan.tuned:
            plan = tune(plan, jobs).save(options.out)
        do_all(jobs, jobs_of(plan))
        measure_costs(jobs, plan)
        return write_comparison(options.out, options.out, options.lang)


def _note_what_is_not_noted(plan: Plan, jobs: Jobs) -> None:
    """Write into the ledger what a comparison had done that was killed before it wrote it down."""
    if plan.seal is None:
        return
    out = jobs.options.out
    tested = [out / job.path for job in jobs_of(plan) if job.tested and is_tested(out / job.path)]
    looks = read_looks(out)
    if not (tested or looks):
        begin_ledger(out, plan.seal, plan.command)
    for run in tested if looks else ():
        if run.name not in {look.run for look in looks}:
            note_look(run, jobs.command, plan=plan.seal.sha256, answers=Tested(run).result.answers_sha256 or "")


def forecast(task: str | Task, **settings: Any) -> Forecast:
    """Say what :func:`compare` would train with these settings, about how long it takes and how much disk.

    The models are sized, and a few steps of each are timed; nothing is trained or written.

    Args:
        task: see :func:`compare`.
        settings: see :func:`compare`.

    Raises:
        UserError: see :func:`compare`.
    """
    jobs, chosen = _prepared(task, settings)
    with use_threads(jobs.options.thread_count):
        return forecast_of(jobs, make_plan(jobs, chosen))


def _prepared(task: str | Task, settings: Mapping[str, Any]) -> tuple[Jobs, dict[str, Planned]]:
    """The jobs that settings ask for, and the models as they were chosen."""
    kind: type[Task] = TASKS[task] if isinstance(task, str) else type(task)
    own, training, of_task, of_tests = divide(settings, CompareOptions, TrainingConfig, kind.Options, kind.TestOptions)
    made = make_task(task, of_task | of_tests)
    usual = made.usual_comparison()
    if own.get("quick") or any(name in training for name in LENGTH):
        usual.pop("budgets", None)  # which are shares of the usual training
    options = CompareOptions(**usual | own)
    usual |= {name: getattr(options, name) for name in NOT_THE_RESULT}  # no part of the command: the same comes out
    given = changed(options) | {name: getattr(options, name) for name in own if name in usual}
    given = {name: value for name, value in given.items() if name not in usual or value != usual[name]}
    if options.metric is not None:
        made = made.decided_by(options.metric)
    command = command_line(f"compare {made.name}", given | made.given() | training)
    recipe = replace(made.recipe(options.quick), **training | {"seed": 0})
    return Jobs(made, recipe, options, command), choose(made, options)


def make_plan(jobs: Jobs, chosen: dict[str, Planned]) -> Plan:
    """Size the chosen models, and return the plan of the comparison."""
    task, options, primary = jobs.task, jobs.options, primary_pair(jobs.task, list(chosen))
    if options.margin is not None and primary is None:
        raise SettingError("`margin`: of which difference? The comparison is about all of its models: name two of them")
    data = jobs.training_set(0)
    in_parts = options.budgets != (1.0,)
    examples = data.epoch(0) if in_parts else ()
    if options.budget_in == "examples" and not isinstance(examples, list | tuple):
        raise SettingError("`budget_in` examples: the data are a stream, whose length nobody knows; take steps")
    sized, matching = match_models(
        {name: model.model for name, model in chosen.items()},
        options,
        vocab_size=len(data.tokenizer),
        training=jobs.recipe,
        shape=batch_shape(data.validation, jobs.recipe),
    )
    return Plan(
        task=task.name,
        command=jobs.command,
        quick=options.quick,
        seeds=options.seed_count,
        first_seed=options.first_seed,
        test_draw=options.test_draw,
        budgets=tuple(sorted(options.budgets)),
        budget_in=options.budget_in,
        steps=steps_of(data, jobs.recipe) if in_parts else 0,
        examples=_different(examples, jobs.recipe) if options.budget_in == "examples" else 0,
        pilot=options.pilot,
        primary=primary,
        margin=options.margin,
        models={name: model.resized(sized[name]) for name, model in chosen.items()},
        headline=task.headline,
        matching=matching,
        space=space(jobs.recipe, options.budgets) if options.tune else {},
        baseline=task.stated_baseline,
        tuned=not options.tune,
        threads=options.thread_count,
        plugins=used_plugins(task.name, task.metric_names(), *(model.model for model in chosen.values())),
    )


def _different(epoch: Iterable[object], recipe: TrainingConfig) -> int:
    """How many different pairs a training sees: a file's once, of endless data those of all epochs."""
    return len(list(epoch)) * (1 if recipe.items_per_epoch is None else recipe.epochs)


def write_comparison(comparison: Path, out: Path, lang: str = SOURCE) -> tuple[Record, ReportFiles]:
    """Write the report of a comparison from its tested runs on disk.

    Args:
        comparison: its directory.
        out: where to write the report; an older one there is replaced.
        lang: language in which the report opens, such as `ko`.

    Raises:
        UserError: a run is missing or broken, or the report cannot be written.
    """
    plan = read_plan(comparison)
    runs: dict[Variant, dict[str, list[Tested]]] = {}
    for name, seed, variant in plan.runs():
        path = comparison / run_name(name, seed, variant)
        if not is_tested(path):
            raise SettingError(f"{path}: not tested yet, or gone; finish the comparison: {plan.command} `resume`")
        runs.setdefault(variant, {}).setdefault(name, []).append(Tested(path, name))
    made = replace(make_record(runs, plan), protocol=hold_against_plan(comparison, plan, runs))
    record = with_demo(made, runs[plan.main], out, lang)
    return record, write_report(record, out, lang, outputs_of(runs[plan.main]))


def outputs_of(models: Mapping[str, Sequence[Tested]]) -> Outputs:
    """Return what the runs of every model wrote for every test pair."""
    pairs = next(iter(models.values()))[0].pairs
    written = {name: tuple(tuple(a.output for a in run.answers) for run in runs) for name, runs in models.items()}
    return Outputs(tuple(pair.source for pair in pairs), tuple(pair.target for pair in pairs), written)


def with_demo(record: Record, models: Mapping[str, Sequence[Tested]], out: Path, lang: str) -> Record:
    """Write the page on which the models answer beside a report, where one can run them: the first seed of the best.

    Returns:
        The record, which knows whether the page is there.
    """
    with writing(out, "choose another place"):
        out.mkdir(parents=True, exist_ok=True)
    best = [next(run for run in models[model.name] if not run.failed) for model in ranked(record)[:ON_DEMO]]
    examples = [(answer.source, answer.target) for answer in best[0].answers[:EXAMPLES]]
    names = [model.name for model in record.models]
    return replace(record, demo=write_demo_of([run.path for run in best], out / DEMO, lang, examples, names))


def check_out(out: Path) -> None:
    """Check the directory of a new comparison: it is not there yet, or is empty.

    Raises:
        SettingError: it holds something, or cannot be read.
    """
    try:
        names = {found.name for found in out.iterdir() if not found.match(HALF_WRITTEN)} if out.is_dir() else set()
        taken = (out.exists() and not out.is_dir()) or bool(names - {LOCK})
    except OSError as error:
        raise SettingError(f"{out}: cannot be looked into ({error.strerror}); choose another `out`") from None
    if taken:
        resume = ", or go on with it: `resume`" if (out / PLAN).is_file() else ""
        raise SettingError(f"{out}: holds something already, such as another comparison; choose another `out`{resume}")
