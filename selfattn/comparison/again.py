"""Report again, or report runs of several comparisons, from what is on disk: no model is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from selfattn.comparison.compare import outputs_of, with_demo, write_comparison
from selfattn.comparison.options import Lang
from selfattn.comparison.plan import FULL, Plan, PlannedModel, read_plan, run_name
from selfattn.comparison.record import make_record
from selfattn.comparison.testing import Tested
from selfattn.errors import SettingError, UserError
from selfattn.experiments.plan import PLAN
from selfattn.report.write import ReportFiles, write_report
from selfattn.results.plan import Departure, PlanCheck
from selfattn.results.record import Record
from selfattn.runs.ledger import LEDGER
from selfattn.settings import command_line
from selfattn.training.config import TrainingConfig
from selfattn.words.catalogue import SOURCE


def report(
    paths: Sequence[Path], out: Path, lang: Lang = SOURCE, declared: Sequence[str] = ()
) -> tuple[Record, ReportFiles]:
    """Write the report of a comparison, or of runs from one or several; the same runs give the same bytes.

    Args:
        paths: one comparison; or tested runs, and comparisons whose runs are meant.
        out: directory of the report.
        lang: language in which it opens.
        declared: settings of the training in which the runs differ on purpose; any other difference that was not tuned
            leaves "not comparable".

    Raises:
        UserError: there is no tested run, runs were tested on different pairs, or a declared setting is unknown.
    """
    settings = [field.name for field in fields(TrainingConfig)]
    for name in declared:
        if name not in settings:
            raise SettingError(f"`declared` {name}: not a setting of the training; choose of {', '.join(settings)}")
    if len(paths) == 1 and (paths[0] / PLAN).is_file():
        if declared:
            raise SettingError("`declared`: the runs of one comparison were trained in one way; name runs of several")
        return write_comparison(paths[0], out, lang)
    tested = [run for path in paths for run in _runs_at(path)]
    first = tested[0]
    for run in tested:
        if run.config.task != first.config.task or run.pairs != first.pairs:
            raise UserError(f"{run.path}: not tested on the same pairs as {first.path}; name runs of one test")
    homes = dict.fromkeys(run.path.resolve().parent.parent for run in tested)
    for home in homes:
        if (home / PLAN).is_file() and read_plan(home).pilot:
            raise UserError(f"{home}: a pilot only explores; name it alone")
    models: dict[str, list[Tested]] = {}
    for run in tested:
        models.setdefault(_name(run, tested), []).append(run)
    runs = {name: sorted(same, key=lambda run: run.seed) for name, same in models.items()}
    options = {"out": out} | ({"declared": tuple(declared)} if declared else {})
    command = command_line("report " + " ".join(shlex.quote(str(path)) for path in paths), options)
    tuned, space = _tuning(runs)
    plan = Plan(
        first.config.task,
        command,
        quick=False,
        seeds=1,
        models=tuned,
        headline=first.result.headline,
        space=space,
        declared=tuple(declared),
    )
    record = make_record({FULL: runs}, plan)
    if lost := [home.name for home in homes if (home / LEDGER).is_file() and not (home / PLAN).is_file()]:
        record = replace(record, plan=PlanCheck(departures=(Departure("plan", tuple(lost)),)))
    # The runs lie elsewhere than beside this report.
    placed = [replace(model, run_dirs=tuple(str(run.path) for run in runs[model.name])) for model in record.models]
    record = with_demo(replace(record, models=tuple(placed)), runs, out, lang)
    return record, write_report(record, out, lang, outputs_of(runs))


def _runs_at(path: Path) -> list[Tested]:
    if not (path / PLAN).is_file():
        return [Tested(path)]
    plan = read_plan(path)
    runs = ((name, seed) for name, seed, variant in plan.runs() if variant == plan.main)
    return [Tested(path / run_name(name, seed, plan.main), name) for name, seed in runs]


def _tuning(runs: Mapping[str, Sequence[Tested]]) -> tuple[dict[str, PlannedModel], Mapping[str, str]]:
    """Return the models as tuned and the space of their tuning, where it is the same for all."""
    models: dict[str, PlannedModel] = {}
    spaces = []
    for name, same in runs.items():
        for run in same:
            home = run.path.parent.parent
            plan = read_plan(home) if (home / PLAN).is_file() else None
            planned = plan.models.get(_directory_name(run)) if plan else None
            if plan is None or planned is None or not planned.trials or models.setdefault(name, planned) != planned:
                return {}, {}
            spaces.append(plan.space)
    return (models, spaces[0]) if all(space == spaces[0] for space in spaces) else ({}, {})


def _name(run: Tested, runs: Sequence[Tested]) -> str:
    """Return the name of a run's model: its preset, or that of the directory where a preset has several models.

    Raises:
        UserError: two runs of one name have the same seed.
    """
    same = [other for other in runs if other.name == run.name]
    if all(other.config.model == run.config.model for other in same) and len({other.seed for other in same}) == len(
        same
    ):
        return run.name
    name = _directory_name(run)
    for other in same:
        if other is not run and _directory_name(other) == name and other.seed == run.seed:
            raise UserError(f"{run.path} and {other.path}: two runs of {name} with the same seed; name one of them")
    return name


def _directory_name(run: Tested) -> str:
    return re.sub(r"-seed[0-9]+$", "", run.path.name)
