"""Weights kept at the last validations of a training, and their mean as a new run."""

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from selfattn.errors import SettingError, UserError
from selfattn.files import writing
from selfattn.ownership import new_directory, remove_remains
from selfattn.runs.directory import CONFIG, TOKENIZER, RunDirectory, check_is_free
from selfattn.runs.exported import format_of
from selfattn.runs.model import build_model
from selfattn.settings import command_line
from selfattn.training.freeze import freeze
from selfattn.training.weights import copy_of, mean_of, named_weights, put_into

KEPT = "kept"
_START = "step-"


def kept_name(step: int) -> str:
    """Return the path of the weights of a step, inside a run.

    Example:
        >>> kept_name(350)
        'kept/step-00000350.safetensors'
    """
    return f"{KEPT}/{_START}{step:08d}.safetensors"


def kept_steps(directory: RunDirectory) -> list[int]:
    """Return the steps whose weights a run keeps, in ascending order."""
    steps = []
    for name in directory.record().files:
        digits = Path(name).stem.removeprefix(_START)
        if digits.isdecimal() and name == kept_name(int(digits)) and (directory.path / name).exists():
            steps.append(int(digits))
    return sorted(steps)


def average_kept(path: Path, out: Path, *, last: int | None = None) -> list[int]:
    """Write a run with the mean of the weights that another run keeps; it has no metrics, and cannot be resumed.

    Args:
        path: of a run that was trained with ``keep``.
        out: new directory.
        last: number of kept validations to average, the latest ones; default all.

    Returns:
        The averaged steps.

    Raises:
        SettingError: ``last`` is below 1 or above the number of kept validations.
        UserError: the run keeps no weights, a file is broken, or ``out`` is taken.
    """
    directory = RunDirectory(path)
    config = directory.config()
    if format_of(path) is not None:
        raise UserError(f"{path}: is an exported run; average the run that it was made from, and export the result")
    steps = kept_steps(directory)
    if not steps:
        raise UserError(f"{path}: keeps no weights of its validations; train with `keep`, such as `keep` 5")
    if last is not None and not 1 <= last <= len(steps):
        raise SettingError(f"`last` {last}: expected 1 to {len(steps)}, the validations that {path} keeps")
    steps = steps[-(last or len(steps)) :]
    remove_remains(out)
    check_is_free(out, resumes=False)
    model = build_model(config.model, directory.tokenizer(), config.training.seed)
    history = []
    for step in steps:
        directory.load_weights(model, kept_name(step))
        history.append(copy_of(named_weights(model)))
    freeze(model, config.freeze or ())
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    put_into(model, mean_of(history, frozen))
    settings = {"out": out} if last is None else {"out": out, "last": last}
    record = replace(
        directory.record(),
        status="finished",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command_line(f"average {shlex.quote(str(path))}", settings),
        averaged=tuple(steps),
    )
    with writing(out, "choose another `out`"), new_directory(out) as folder:
        averaged = RunDirectory(folder)
        directory.copy(folder, f"{TOKENIZER}/*", CONFIG)
        averaged.write_record(record)
        averaged.save_weights(model)
    return steps
