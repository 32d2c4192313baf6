"""Make a report again, or a new one of other runs, from what lies on disk: no model is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from selfattn.comparison.compare import outputs_of, with_demo, write_comparison
from selfattn.comparison.planning.options import Lang
from selfattn.comparison.planning.plan import PLAN, WHOLE, Plan, Planned, read_plan, run_name
from selfattn.comparison.record import make_record
from selfattn.comparison.testing import Tested
from selfattn.errors import SettingError, UserError
from selfattn.report.write import ReportFiles, write_report
from selfattn.results.record import Record
from selfattn.settings import command_line
from selfattn.training.config import TrainingConfig
from selfattn.words.catalogue import SOURCE


def report(
    paths: Sequence[Path], out: Path, lang: Lang = SOURCE, declared: Sequence[str] = ()
) -> tuple[Record, ReportFiles]:
    """Write the report of a comparison, or of runs from one or several.

    The same runs give the same bytes.

    Args:
        paths: one comparison; or runs that a comparison has tested, and comparisons whose runs are meant.
        out: where to.
        lang: language in which it opens.
        declared: settings of the training in which the runs differ on purpose, which the report then says; any other
            difference that was not tuned for leaves "not comparable".

    Raises:
        UserError: there is no tested run, runs were not tested on the same pairs, or what is declared is no setting.
    """
    settings = [field.name for field in fields(TrainingConfig)]
    for name in declared:
        if name not in settings:
            raise SettingError(f"`declared` {name}: not a setting of the training; choose of {', '.join(settings)}")
    if len(paths) == 1 and (paths[0] / PLAN).is_file():
        if declared:
            raise SettingError("`declared`: the runs of one comparison were trained in one way; name runs of several")
        return write_comparison(paths[0], out, lang)
    found: list[Tested] = []
    for path in paths:
        found += _runs(path)
    for run in found:
        if run.config.task != found[0].config.task or run.pairs != found[0].pairs:
            raise UserError(f"{run.path}: not tested on the same pairs as {found[0].path}; name runs of one test")
    for home in dict.fromkeys(run.path.resolve().parent.parent for run in found):
        if (home / PLAN).is_file() and read_plan(home).pilot:
            raise UserError(f"{home}: a pilot, which only explores; its runs are put together with none, name it alone")
    models: dict[str, list[Tested]] = {}
    for run in found:
        models.setdefault(_name(run, found), []).append(run)
    runs = {name: sorted(own, key=lambda run: run.seed) for name, own in models.items()}
    given = {"out": out} | ({"declared": tuple(declared)} if declared else {})
    command = command_line("report " + " ".join(shlex.quote(str(path)) for path in paths), given)
    tuned, space = _tuned(runs)
    plan = Plan(
        found[0].config.task,
        command,
        quick=False,
        seeds=1,
        models=tuned,
        headline=found[0].result.headline,
        space=space,
        declared=tuple(declared),
    )
    record = make_record({WHOLE: runs}, plan)
    # The runs lie elsewhere than beside this report.
    placed = [replace(one, run_dirs=tuple(str(run.path) for run in runs[one.name])) for one in record.models]
    record = with_demo(replace(record, models=tuple(placed)), runs, out, lang)
    return record, write_report(record, out, lang, outputs_of(runs))


def _runs(path: Path) -> list[Tested]:
    if not (path / PLAN).is_file():
        return [Tested(path)]
    plan = read_plan(path)
    return [Tested(path / run_name(name, seed, one), name) for name, seed, one in plan.runs() if one == plan.main]


def _tuned(models: Mapping[str, Sequence[Tested]]) -> tuple[dict[str, Planned], Mapping[str, str]]:
    """The models as their comparisons tuned them, where all were tuned in one space, and that space."""
    found: dict[str, Planned] = {}
    spaces = []
    for name, runs in models.items():
        for run in runs:
            home = run.path.parent.parent
            plan = read_plan(home) if (home / PLAN).is_file() else None
            planned = plan.models.get(_own_name(run)) if plan else None
            if plan is None or planned is None or not planned.trials or found.setdefault(name, planned) != planned:
                return {}, {}
            spaces.append(plan.space)
    return (found, spaces[0]) if all(space == spaces[0] for space in spaces) else ({}, {})


def _name(run: Tested, runs: Sequence[Tested]) -> str:
    """What a run's model is called: its preset, or the run's own name where a preset stands for several models.

    Raises:
        UserError: two runs of one name have the same seed.
    """
    same = [other for other in runs if other.name == run.name]
    if all(other.config.model == run.config.model for other in same) and len({other.seed for other in same}) == len(
        same
    ):
        return run.name
    name = _own_name(run)
    for other in same:
        if other is not run and _own_name(other) == name and other.seed == run.seed:
            raise UserError(f"{run.path} and {other.path}: two runs of {name} with the same seed; name one of them")
    return name


def _own_name(run: Tested) -> str:
    return re.sub(r"-seed[0-9]+$", "", run.path.name)
