"""The main job: several models trained on the same data, tested on the same unseen pairs, set side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from selfattn.comparison.jobs import Jobs
from selfattn.comparison.matching import match_models
from selfattn.comparison.options import CompareOptions, Lang
from selfattn.comparison.plan import PLAN, Plan, choose, read_plan, read_to_resume, run_name
from selfattn.comparison.record import Frame, make_record
from selfattn.comparison.tuning import space, tune
from selfattn.errors import SettingError
from selfattn.figures.record import Record
from selfattn.registry import TASKS
from selfattn.report.write import ReportFiles, write_report
from selfattn.runs.diagnostics import batch_shape
from selfattn.runs.task import Task, make_task
from selfattn.runs.testing import Tested, is_tested
from selfattn.settings import changed, command_line, divide
from selfattn.training.config import TrainingConfig


def compare(task: str | Task, **settings: Any) -> tuple[Record, ReportFiles]:
    """Train the models of a comparison, test them, and write the report.

    All models of one seed see the same examples in the same batches in the same order, and all of all seeds are
    tested on the same pairs. What is done is on disk: a comparison that was stopped goes on with ``resume``.

    Args:
        task: what they are compared on: its name, such as ``"dates"``; or the task, made with its options.
        settings: those of :class:`selfattn.comparison.options.CompareOptions`, those of
            :class:`selfattn.training.config.TrainingConfig` that are not to be as the recipe says, and where the task
            is given by its name, its own options.

    Returns:
        The record, and where the report lies.

    Raises:
        SettingError: there is no such setting, or it cannot be meant.
        UserError: the data or the directory is not usable.

    Example:
        ``compare("dates", models=("rnn-attention", "transformer"), quick=True, out=Path("compare/dates"))``
    """
    kind: type[Task] = TASKS[task] if isinstance(task, str) else type(task)
    own, training, of_task, of_tests = divide(settings, CompareOptions, TrainingConfig, kind.Options, kind.TestOptions)
    made = make_task(task, of_task | of_tests)
    usual = made.usual_comparison()
    options = CompareOptions(**usual | own)
    usual["resume"] = options.resume  # the same comes out with and without
    shown = {name: value for name, value in changed(options).items() if name not in usual or value != usual[name]}
    if options.metric is not None:
        made = made.decided_by(options.metric)
    command = command_line(f"compare {made.name}", shown | made.given() | training)
    recipe = replace(made.recipe(options.quick), **training | {"seed": 0})
    chosen = choose(made, options)
    jobs = Jobs(made, recipe, options)
    plan = read_to_resume(options.out, command) if options.resume else None
    if plan is None:
        check_out(options.out)
        plan = make_plan(jobs, chosen, command).save(options.out)
    if not plan.tuned:
        plan = tune(plan, jobs).save(options.out)
    for name, seed, few in plan.runs():
        jobs.train_and_test(plan, name, seed, few)
    return write_comparison(options.out, options.out, options.lang)


def make_plan(jobs: Jobs, chosen: Any, command: str) -> Plan:
    """Size the models that were chosen, and write down what is to be done."""
    task, options, data = jobs.task, jobs.options, jobs.training_set(0)
    shown = data.epoch(0) if options.few else ()
    for few in options.few:
        if isinstance(shown, list | tuple) and few > len(shown):
            raise SettingError(f"`few` {few}: an epoch has {len(shown):,} pairs, so these would be all; give fewer")
    sized, matching = match_models(
        {name: model.model for name, model in chosen.items()},
        options,
        vocab_size=len(data.tokenizer),
        training=jobs.recipe,
        shape=batch_shape(data.validation, jobs.recipe.batch_size),
    )
    return Plan(
        task=task.name,
        command=command,
        quick=options.quick,
        seeds=options.seed_count,
        few=options.few,
        models={name: model.resized(sized[name]) for name, model in chosen.items()},
        headline=task.headline,
        matching=matching,
        space=space(jobs.recipe) if options.tune else {},
        floor=task.stated_floor,
        tuned=not options.tune,
    )


def write_comparison(comparison: Path, out: Path, lang: Lang = "en") -> tuple[Record, ReportFiles]:
    """Make the report of a comparison from what lies on disk.

    Args:
        comparison: its directory.
        out: where to write the report.
        lang: in which the report opens.

    Raises:
        UserError: a run is missing or broken, or the report cannot be written.
    """
    plan = read_plan(comparison)
    models: dict[str, list[Tested]] = {name: [] for name in plan.models}
    few: dict[int, dict[str, Tested]] = {}
    for name, seed, first in plan.runs():
        path = comparison / run_name(name, seed, first)
        if not is_tested(path):
            raise SettingError(f"{path}: not tested yet, or gone; finish the comparison: {plan.command} `resume`")
        tested = Tested(path, name)
        if first is None:
            models[name].append(tested)
        else:
            few.setdefault(first, {})[name] = tested
    frame = Frame(
        plan.command,
        plan.headline,
        plan.quick,
        plan.matching,
        {name: model.trials for name, model in plan.models.items()},
        plan.space,
        plan.floor,
    )
    record = make_record(models, frame, few)
    return record, write_report(record, out, lang)


def check_out(out: Path) -> None:
    """Make sure that there is nothing at the place of the report.

    Raises:
        SettingError: there is.
    """
    try:
        taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
    except OSError as error:
        raise SettingError(f"{out}: cannot be looked into ({error.strerror}); choose another `out`") from None
    if taken:
        resume = ", or go on with it: `resume`" if (out / PLAN).is_file() else ""
        raise SettingError(f"{out}: holds something already, such as another comparison; choose another `out`{resume}")
