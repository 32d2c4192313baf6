"""The main job: several models trained on the same data, tested on the same unseen pairs, set side by side.

`python -m tasks.compare` takes what `selfattn compare` takes, and without a task compares on dates.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from selfattn.cli.app import make_app, run_app
from selfattn.cli.compare_options import COMPARE_DATES, CompareDates, CompareOptions, Lang
from selfattn.cli.given_options import chosen_columns
from selfattn.cli.settings import command_line
from selfattn.comparison.matching import match_models
from selfattn.comparison.plan import PLAN, Plan, Planned, choose, read_plan, run_name
from selfattn.comparison.record import Frame, make_record
from selfattn.comparison.tuning import best, choices, space
from selfattn.console import say
from selfattn.errors import UserError
from selfattn.figures.record import Record, TuningTrial
from selfattn.files import writing
from selfattn.models.config import ModelConfig
from selfattn.report.render.terminal import print_summary
from selfattn.report.write import ReportFiles, write_report
from selfattn.runs.diagnostics import lesson_shape
from selfattn.runs.directory import RECORD, RunConfig, RunDirectory
from selfattn.runs.fit import fit
from selfattn.runs.run import load
from selfattn.runs.task import Lesson, Task
from selfattn.runs.testing import Tested, is_tested, test_run
from selfattn.tasks.date_data import Given
from selfattn.tasks.dates import DatesTask, training_config
from selfattn.tasks.recipes import PROBE_ITEMS, QUICK_TEST_ITEMS, TEST_ITEMS
from selfattn.training.config import TrainingConfig

_DONE = ("finished", "target reached", "stopped early")  # of a run's status


def compare_dates(options: CompareDates) -> tuple[Record, ReportFiles]:
    """Train the models on dates, test them, and write the report into ``options.out``.

    Args:
        options: see :class:`selfattn.cli.compare_options.CompareDates`.

    Returns:
        The record, and where the report lies.

    Raises:
        UserError: a setting, the data or the directory is not usable.
    """
    training = training_config(options.training, seed=0, quick=options.quick, from_file=bool(options.data))
    test_items = options.test_items
    if test_items is None and not options.data:
        test_items = QUICK_TEST_ITEMS if options.quick else TEST_ITEMS
    probes = 0 if options.quick or options.data else PROBE_ITEMS
    given = Given(options.data, chosen_columns(options.columns), options.locales)
    task = DatesTask(given, training, test_items=test_items, probe_items=probes)
    return compare(task, options, command_line("selfattn compare dates", options))


def compare(
    task: Task, options: CompareOptions, command: str, size: Callable[[ModelConfig], ModelConfig] | None = None
) -> tuple[Record, ReportFiles]:
    """Train the models of a comparison on any task, test them, and write the report.

    All models of one seed see the same examples in the same batches in the same order, and all of all seeds are
    tested on the same pairs. What is done is on disk: a comparison that was stopped goes on with ``options.resume``.

    Args:
        task: what they are compared on.
        options: which models, how often, how fairly.
        command: makes the same again.
        size: gives a preset the size that the task asks for; default as it is.

    Raises:
        UserError: a setting, the data or the directory is not usable.
    """
    chosen = choose(options, size)
    classroom = _Classroom(task)
    plan = _resumed(options, command) if options.resume else None
    if plan is None:
        check_out(options.out)
        plan = _plan(classroom, options, chosen, command)
        with writing(options.out):
            plan.save(options.out)
    if not plan.tuned:
        plan = _tune(plan, classroom, options)
        with writing(options.out):
            plan.save(options.out)
    for name, seed, few in plan.runs():
        path = options.out / run_name(name, seed, few)
        if not is_tested(path):
            _train_and_test(plan.models[name], path, classroom, plan, seed, few)
    return write_comparison(options.out, options.out, options.lang)


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
            raise UserError(f"{path}: not tested yet, or gone; finish the comparison: {plan.command} --resume")
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


@dataclass
class _Classroom:
    """Prepares lessons when they are needed, and keeps the last one."""

    task: Task
    _made: tuple[tuple[int, int | None], Lesson] | None = None
    _noted: bool = False

    def notes(self) -> Sequence[str]:
        """Lines on the data, the first time that they are asked for; they are the same for every seed."""
        if self._noted or self._made is None:
            return ()
        self._noted = True
        return self._made[1].notes

    def lesson(self, seed: int, few: int | None = None) -> Lesson:
        if self._made is None or self._made[0] != (seed, few):
            training = replace(self.task.training, seed=seed)
            self._made = (seed, few), self.task.lesson(training, first=few)
        return self._made[1]


def _plan(classroom: _Classroom, options: CompareOptions, chosen: Mapping[str, Planned], command: str) -> Plan:
    lesson = classroom.lesson(0)
    shown = lesson.material.epoch(0) if options.few else ()
    for few in options.few_counts:
        if isinstance(shown, Sequence) and few > len(shown):
            raise UserError(f"--few {few}: an epoch has {len(shown):,} pairs, so these would be all; give fewer")
    configs = {name: model.config for name, model in chosen.items()}
    sized, matching = match_models(configs, options, lesson, lesson_shape(lesson))
    return Plan(
        task=classroom.task.name,
        command=command,
        quick=options.quick,
        seeds=options.seed_count,
        few=options.few_counts,
        models={name: replace(model, config=sized[name]) for name, model in chosen.items()},
        headline=classroom.task.headline,
        matching=matching,
        space=space(classroom.task.training) if options.tune else {},
        floor=classroom.task.floor,
        tuned=not options.tune,
    )


def _resumed(options: CompareOptions, command: str) -> Plan | None:
    """The plan of the comparison that was stopped; None where there is nothing yet."""
    if not (options.out / PLAN).exists():
        return None
    plan = read_plan(options.out)
    if _without_language(plan.command) != _without_language(command):
        raise UserError(
            f"{options.out}: holds another comparison, made by: {plan.command}; give the same settings to go on "
            "with it, or choose another --out"
        )
    if plan.command != command:
        plan = replace(plan, command=command)
        with writing(options.out):
            plan.save(options.out)
    return plan


def _without_language(command: str) -> list[str]:
    """The words of a command but for `--lang`, which decides nothing but how the report opens."""
    try:
        words = shlex.split(command)
    except ValueError:  # nothing that this program has written
        return [command]
    if "--lang" in words:
        place = words.index("--lang")
        del words[place : place + 2]
    return words


def check_out(out: Path) -> None:
    """Make sure that there is nothing at the place of the report.

    Raises:
        UserError: there is.
    """
    try:
        taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
    except OSError as error:
        raise UserError(f"{out}: cannot be looked into ({error.strerror}); choose another --out") from None
    if taken:
        resume = ", or go on with it: --resume" if (out / PLAN).is_file() else ""
        raise UserError(f"{out}: holds something already, such as another comparison; choose another --out{resume}")


def _tune(plan: Plan, classroom: _Classroom, options: CompareOptions) -> Plan:
    """Try the same settings for every model, and take each one's best."""
    tuned = {}
    for name, model in plan.models.items():
        trials, tried = [], choices(options.tune, classroom.task.training)
        for number, choice in enumerate(tried):
            config, training = choice.apply(model.config, classroom.lesson(0).training)
            path = options.out / "tuning" / f"{name}-trial{number}"
            config_of_run = _run_config(replace(model, config=config), classroom, training, None)
            _trained(config_of_run, classroom, classroom.lesson(0), path, plan.command)
            directory = RunDirectory(path)
            reached = _best_validation(directory, classroom.lesson(0))
            trials.append(TuningTrial(choice.to_json(), reached, directory.record()["train_seconds"]))
        winner = best([trial.valid for trial in trials])
        config, _ = tried[winner].apply(model.config, classroom.task.training)
        marked = tuple(replace(trial, chosen=k == winner) for k, trial in enumerate(trials))
        tuned[name] = Planned(model.preset, config, tried[winner].training, marked)
    return replace(plan, models=tuned, tuned=True)


def _best_validation(directory: RunDirectory, lesson: Lesson) -> float:
    criterion = lesson.material.criterion
    return max(criterion.value({criterion.name: line[f"valid_{criterion.name}"]}) for line in directory.metrics())


def _train_and_test(
    model: Planned, path: Path, classroom: _Classroom, plan: Plan, seed: int, few: int | None
) -> Tested:
    lesson = classroom.lesson(seed, few)
    training = replace(lesson.training, **model.training)
    _trained(_run_config(model, classroom, training, few), classroom, lesson, path, plan.command)
    thorough = seed == 0 and few is None and not plan.quick
    return test_run(load(path), classroom.task, lesson, thorough=thorough)


def _run_config(model: Planned, classroom: _Classroom, training: TrainingConfig, few: int | None) -> RunConfig:
    lesson = classroom.lesson(training.seed, few)
    return RunConfig(classroom.task.name, model.preset, model.config, training, lesson.settings, lesson.max_length)


def _trained(config: RunConfig, classroom: _Classroom, lesson: Lesson, path: Path, command: str) -> None:
    """Train, or go on training, if that is not done yet."""
    if (path / RECORD).is_file() and RunDirectory(path).record().get("status") in _DONE:
        return
    fit(config, lesson.material, path, command=command, label=path.name, resume=True, notes=classroom.notes())


def compare_command(options: CompareDates = COMPARE_DATES) -> None:
    """Compare models on dates: train each, test on unseen dates, write report.html, report.md and results.json."""
    show(compare_dates, options)


def show(job: Callable[..., tuple[Record, ReportFiles]], options: CompareOptions) -> None:
    """Run a comparison, and end with its verdict in the terminal."""
    try:
        record, files = job(options)
    except KeyboardInterrupt:
        if (options.out / PLAN).is_file():
            say(f"stopped; what is done is kept in {options.out}: the same command with --resume goes on")
        raise
    print_summary(record, Console(highlight=False), files.html)


def main() -> None:
    """Run `selfattn compare` under the name of this module, without a task on dates."""
    from selfattn.tasks.translation import compare_command as compare_translations

    app = make_app("tasks.compare", help="Compare models; the same as `selfattn compare`.")
    app.default(compare_command)
    app.command(compare_command, name="dates")
    app.command(compare_translations, name="translation")
    run_app(app)


if __name__ == "__main__":
    main()
