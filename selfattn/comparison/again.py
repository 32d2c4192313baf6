"""Make a report again, or a new one of other runs, from what lies on disk: no model is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from selfattn.comparison.compare import write_comparison
from selfattn.comparison.plan import PLAN, Lang, Plan, read_plan, run_name
from selfattn.comparison.record import make_record
from selfattn.comparison.testing import Tested
from selfattn.errors import UserError
from selfattn.figures.record import Record
from selfattn.report.words.catalogue import SOURCE
from selfattn.report.write import ReportFiles, write_report
from selfattn.settings import command_line


def report(paths: Sequence[Path], out: Path, lang: Lang = SOURCE) -> tuple[Record, ReportFiles]:
    """Write the report of a comparison, or of runs from one or several.

    The same runs give the same bytes.

    Args:
        paths: one comparison; or runs that a comparison has tested, and comparisons whose runs are meant.
        out: where to.
        lang: language in which it opens.

    Raises:
        UserError: there is no tested run, or runs were not tested on the same pairs.
    """
    if len(paths) == 1 and (paths[0] / PLAN).is_file():
        return write_comparison(paths[0], out, lang)
    found: list[Tested] = []
    for path in paths:
        found += _runs(path)
    for run in found:
        if run.config.task != found[0].config.task or run.pairs != found[0].pairs:
            raise UserError(f"{run.path}: not tested on the same pairs as {found[0].path}; name runs of one test")
    models: dict[str, list[Tested]] = {}
    for run in found:
        models.setdefault(_name(run, found), []).append(run)
    runs = {name: sorted(own, key=lambda run: run.seed) for name, own in models.items()}
    command = command_line("report " + " ".join(shlex.quote(str(path)) for path in paths), {"out": out})
    plan = Plan(
        found[0].config.task, command, quick=False, seeds=1, models={}, few=(), headline=found[0].result.headline
    )
    record = make_record(runs, plan)
    # The runs lie elsewhere than beside this report.
    placed = [replace(one, run_dirs=tuple(str(run.path) for run in runs[one.name])) for one in record.models]
    record = replace(record, models=tuple(placed))
    return record, write_report(record, out, lang)


def _runs(path: Path) -> list[Tested]:
    if not (path / PLAN).is_file():
        return [Tested(path)]
    plan = read_plan(path)
    return [Tested(path / run_name(name, seed, few), name) for name, seed, few in plan.runs() if few is None]


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
