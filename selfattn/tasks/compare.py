"""The main job: several models trained on the same dates, tested on the same unseen ones, set side by side.

`python -m tasks.compare` takes the settings of `selfattn compare dates`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from rich.console import Console

from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.evaluate import evaluate
from selfattn.evaluation.latency import median_ms
from selfattn.models.config import ModelConfig
from selfattn.models.presets import PRESETS, get_preset
from selfattn.report.files import ReportFiles, write_report
from selfattn.report.record import Record
from selfattn.report.terminal import print_summary
from selfattn.tasks.command import make_app, run_app
from selfattn.tasks.compare_record import Trial, make_record
from selfattn.tasks.dates import TASK, make_data, prepare, training_config
from selfattn.tasks.fit import fit
from selfattn.tasks.options import COMPARE_DEFAULTS, CompareDates, command_line, with_settings
from selfattn.tasks.recipes import QUICK_TEST_ITEMS, TEST_ITEMS
from selfattn.tasks.run import Run
from selfattn.training.config import TrainingConfig
from selfattn.training.run_dir import RunConfig, RunDirectory

_TIMED = 50  # inputs that are timed one by one


def compare_dates(options: CompareDates) -> tuple[Record, ReportFiles]:
    """Train the models, test them, and write the report into ``options.out``.

    All models of one seed see the same examples in the same batches in the same order, and all of all seeds are
    tested on the same pairs.

    Args:
        options: see :class:`selfattn.tasks.options.CompareDates`.

    Returns:
        The record, and where the report lies.

    Raises:
        UserError: a setting, the data or the directory is not usable.
    """
    models = choose(options)
    training = training_config(options.training, seed=0, quick=options.quick, from_file=options.data is not None)
    check_out(options.out)
    trials: list[Trial] = []
    for seed in range(options.seeds):
        trials += _one_seed(options, models, dataclasses.replace(training, seed=seed))
    record = make_record(trials, command=command_line("selfattn compare dates", options), quick=options.quick)
    return record, write_report(record, options.out)


def choose(options: CompareDates) -> dict[str, ModelConfig]:
    """Look the models up and apply what is set, before any work is done.

    Raises:
        UserError: a model is unknown or named twice, a setting is not one of a model, or a number is out of range.
    """
    names = tuple(PRESETS) if options.models == ("all",) else options.models
    if not names:
        raise UserError("--models: no model given; name at least one, or all")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"--models: {', '.join(twice)} is named twice; name each model once")
    for flag, value in (("--seeds", options.seeds), ("--test-items", options.test_items)):
        if value is not None and value < 1:
            raise UserError(f"{flag}: expected a whole number of at least 1, got {value}")
    for setting in options.set:
        owner, colon, _ = setting.partition("=")[0].partition(":")
        if colon and owner not in names:
            raise UserError(f"--set {setting}: {owner!r} is not a model of this comparison: {', '.join(names)}")
    return {name: with_settings(get_preset(name).config, options.set, name) for name in names}


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
        raise UserError(f"{out}: holds something already, such as another comparison; choose another --out")


def _one_seed(options: CompareDates, models: dict[str, ModelConfig], training: TrainingConfig) -> list[Trial]:
    """Train and test every model with one seed, all on the same examples."""
    data = make_data(options.data, options.locales, training)
    material, max_length = prepare(data, training, keep=True)
    test = data.test(_test_items(options))
    trials = []
    for name, model in models.items():
        config = RunConfig(TASK, name, model, training, data.settings, max_length)
        label = f"{name}-seed{training.seed}"
        command = command_line("selfattn compare dates", options)
        run = fit(config, material, options.out / "runs" / label, command=command, label=label)
        trials.append(_test(run, f"runs/{label}", test))
    return trials


def _test(run: Run, directory: str, pairs: list[Pair]) -> Trial:
    evaluation = evaluate(run.predict, pairs)
    alone = median_ms(run.predict, [pair.source for pair in pairs[:_TIMED]])
    kept = RunDirectory(run.path)
    return Trial(directory, run, kept.record(), kept.metrics(), evaluation, alone)


def _test_items(options: CompareDates) -> int | None:
    """How many pairs to test on; None for a file's whole test part."""
    if options.test_items is None and options.quick:
        return QUICK_TEST_ITEMS
    return TEST_ITEMS if options.test_items is None and options.data is None else options.test_items


def compare_command(options: CompareDates = COMPARE_DEFAULTS) -> None:
    """Compare models on dates: train each, test on unseen dates, write report.html, report.md and results.json."""
    record, files = compare_dates(options)
    print_summary(record, Console(highlight=False), files.html)


def main() -> None:
    """Run `selfattn compare dates` under the name of this module."""
    app = make_app("tasks.compare", help="Compare models on dates; the same as `selfattn compare dates`.")
    app.default(compare_command)
    app.command(compare_command, name="dates")
    run_app(app)


if __name__ == "__main__":
    main()
