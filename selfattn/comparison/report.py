"""Write the report of a comparison, or of runs of several, from what is on disk: no model is run."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

from torch import Tensor

from selfattn.comparison.archive import ARCHIVE, write_archive
from selfattn.comparison.check import check_plan, check_together, plans_of
from selfattn.comparison.options import Lang
from selfattn.comparison.plan import Plan, read_plan
from selfattn.comparison.record import make_record, outputs_of
from selfattn.comparison.tested import Runs, Tested, read_runs
from selfattn.demo.page import EXAMPLES, obstacle, write_demo
from selfattn.errors import SettingError, UserError
from selfattn.experiments.plan import PLAN
from selfattn.files import writing
from selfattn.report.blocks import Outputs
from selfattn.report.sections.attention import DEMO
from selfattn.report.verdict.ranking import ranked
from selfattn.report.write import ReportFiles, write_report
from selfattn.results.record import Record, TuningTrial
from selfattn.runs.run import Run, load
from selfattn.settings import command_line
from selfattn.training.config import TrainingConfig
from selfattn.words.messages import SOURCE

ON_DEMO = 4  # most models on the demo page
_MOST_WEIGHTS = 1_000_000  # of a model on that page, which nobody asked for


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
    runs = read_runs(comparison, plan)
    record = make_record(runs, plan)
    record = replace(record, plan=check_plan(comparison, plan, runs, record.pairs))
    return write_files(record, plan, runs, out, lang)


def write_files(record: Record, plan: Plan, runs: Runs, out: Path, lang: str) -> tuple[Record, ReportFiles]:
    """Write a report, with the demo page and the archive of all outputs beside it.

    Args:
        record: of the runs.
        plan: of the runs.
        runs: by budget and model.
        out: directory of the report.
        lang: language in which it opens.

    Returns:
        The record, which says what lies beside the report, and the paths of the files.
    """
    models = runs[plan.main]
    with writing(out, "choose another place"):
        out.mkdir(parents=True, exist_ok=True)
    first = next(iter(models.values()))[0]
    sha256 = write_archive(out / ARCHIVE, first.config.data, outputs_of(runs))
    record = with_demo(replace(record, outputs_sha256=sha256), models, out, lang)
    pairs = first.pairs
    texts = {name: tuple(tuple(run.answered.outputs) for run in same) for name, same in models.items()}
    outputs = Outputs(tuple(pair.source for pair in pairs), tuple(pair.target for pair in pairs), texts)
    return record, write_report(record, out, lang, outputs)


def with_demo(record: Record, models: Mapping[str, Sequence[Tested]], out: Path, lang: str) -> Record:
    """Write the demo page of the best models that a page can run beside a report, each with its first seed.

    Returns:
        The record, which says whether there is a page.
    """
    best = {model.name: next(run for run in models[model.name] if not run.failed) for model in ranked(record)[:ON_DEMO]}
    runs: dict[str, Run] = {}
    for name, tested in best.items():
        with suppress(UserError):  # a run without its weights
            run = load(tested.path)
            if not obstacle(run, run) and sum(map(Tensor.numel, run.model.parameters())) <= _MOST_WEIGHTS:
                runs[name] = run
    if runs:
        examples = [(answer.source, answer.target) for answer in next(iter(best.values())).answers[:EXAMPLES]]
        names = [model.name for model in record.models]
        write_demo(list(runs.values()), out / DEMO, lang, examples, list(runs), names)
    return replace(record, demo=bool(runs))


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
        if "--pilot" in shlex.split(run.record.command):
            raise UserError(f"{run.path}: of a pilot, which only explores; name its comparison alone")
    models: dict[str, list[Tested]] = {}
    for run in tested:
        models.setdefault(_name(run, tested), []).append(run)
    runs = {name: sorted(same, key=lambda run: run.seed) for name, same in models.items()}
    options = {"out": out} | ({"declared": tuple(declared)} if declared else {})
    command = command_line("report " + " ".join(shlex.quote(str(path)) for path in paths), options)
    plans = plans_of(tested)
    trials, space = _tuning(runs, plans)
    plan = Plan(
        task=first.config.task,
        command=command,
        quick=False,
        seeds=1,
        models={},
        trials=trials,
        headline=first.result.headline,
        space=space,
        declared=tuple(declared),
    )
    record = replace(make_record({plan.main: runs}, plan), plan=check_together(runs, plans))
    # The runs lie elsewhere than beside this report.
    placed = [replace(model, run_dirs=tuple(str(run.path) for run in runs[model.name])) for model in record.models]
    return write_files(replace(record, models=tuple(placed)), plan, {plan.main: runs}, out, lang)


def _runs_at(path: Path) -> list[Tested]:
    if not (path / PLAN).is_file():  # a run, or a comparison that has lost its plan
        return [Tested(run) for run in sorted(path.glob("runs/*")) or [path]]
    plan = read_plan(path)
    return [Tested(path / run.path, run.name) for run in plan.runs() if run.budget == plan.main]


def _tuning(
    runs: Mapping[str, Sequence[Tested]], plans: Mapping[Path, Plan | None]
) -> tuple[dict[str, tuple[TuningTrial, ...]], Mapping[str, str]]:
    """Return the trials of the tuning and its space, where it is the same for all."""
    trials: dict[str, tuple[TuningTrial, ...]] = {}
    spaces = []
    for name, run in ((name, run) for name, same in runs.items() for run in same):
        plan = plans[run.home]
        of_run = plan.trials.get(run.directory_name) if plan else None
        if plan is None or not of_run or trials.setdefault(name, of_run) != of_run:
            return {}, {}
        spaces.append(plan.space)
    return (trials, spaces[0]) if all(space == spaces[0] for space in spaces) else ({}, {})


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
    name = run.directory_name
    for other in same:
        if other is not run and other.directory_name == name and other.seed == run.seed:
            raise UserError(f"{run.path} and {other.path}: two runs of {name} with the same seed; name one of them")
    return name
