"""A run that is resumed: opened again with the same settings, or lengthened."""

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from selfattn.codec import encode, flat
from selfattn.errors import UserError, number_of, say
from selfattn.files import sha256_of
from selfattn.registry import TASKS
from selfattn.runs.directory import CHECKPOINT, CONFIG, RECORD, TOKENIZER, RunDirectory, files_in, tokenizer_files
from selfattn.runs.record import RunConfig, changed_contents
from selfattn.settings import divide
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.checkpoint import CheckpointFile


def reopen(path: Path, config: RunConfig, tokenizer: Tokenizer, command: str) -> RunDirectory | None:
    """Open the directory of a run to resume it.

    Args:
        path: of the run.
        config: must be that of the run; a run that failed may resume with a lower learning rate, a finished one
            with more epochs or steps, and one that stopped early with more patience.
        tokenizer: must be that of the run.
        command: that resumes it; the record of a lengthened run has it too.

    Returns:
        The directory; None where no run has begun yet.

    Raises:
        UserError: the run is of other settings or plugins; the message names the first that differs.
    """
    run = RunDirectory(path)
    if not (path / RECORD).exists() or not run.record().files:  # killed before its settings were there
        return None
    saved = run.config(exact=True)
    record = run.record()
    is_slower = record.status == "failed" and config.training.lr < saved.training.lr  # what diverged needs it
    if is_slower:
        saved = replace(saved, training=replace(saved.training, lr=config.training.lr))
    length = "epochs" if saved.training.max_steps is None else "max_steps"
    before, now = (getattr(training, length) for training in (saved.training, config.training))
    # Killed between its record and its settings, a lengthened run is no longer finished, and not yet longer.
    is_pending = record.status == "interrupted" and sha256_of(path / CONFIG) != record.files[CONFIG][0]
    patience = saved.training.patience
    is_patient = patience is not None and (config.training.patience or math.inf) > patience
    is_patient = is_patient and (record.status == "stopped early" or is_pending)
    is_longer = (record.status == "finished" or is_pending or is_patient) and now is not None and now > before
    if is_patient:
        saved = replace(saved, training=replace(saved.training, patience=config.training.patience))
    elif record.status == "stopped early" and now is not None and now > before:
        reason = f"stopped early, after {number_of(patience or 0, 'validation')} without improvement"
        raise UserError(f"{path}: {reason}; give a larger `patience` too, or none")
    if is_longer:
        saved = replace(saved, training=replace(saved.training, **{length: now}))
    if not saved.longest_source:  # older runs name none, and keep one limit for all outputs
        config = replace(config, longest_source=0)
    _check_settings(path, saved, config)
    if tokenizer_files(tokenizer) != files_in(path / TOKENIZER):
        raise UserError(f"{path / TOKENIZER}: not the tokenizer of these data; choose another `out`")
    earlier = record.command.rpartition(" && ")[0] if is_pending else record.command
    changes = {"status": "interrupted", "command": f"{earlier} && {command} --resume"}
    if is_longer:
        if not is_pending:
            CheckpointFile(path / CHECKPOINT).plan_again()
        say(
            f"{path}: lengthened from {before:,} to {now:,} {length.replace('_', ' ')}; the learning rate follows the "
            f"longer schedule from here on, so the result is not that of {now:,} from the start"
        )
    if is_longer or is_patient:
        run.save_config(config, **changes)
    elif is_slower:
        run.save_config(config)
    return run


def _check_settings(path: Path, saved: RunConfig, config: RunConfig) -> None:
    """Refuse to resume a run with other settings. Files are told apart by their content, not by their paths.

    Runs of schema 1 kept no options, and fewer checksums: what they kept must be the same.
    """
    left_out = _left_out(saved, config)
    options = []
    for run_config in (saved, config):
        task_options = encode(run_config.task_options)
        options.append({f"`{name}`": value for name, value in task_options.items() if name not in left_out})
    _refuse_other(path, saved, *options)
    if changed := changed_contents(saved.data, config.data):
        advice = "restore the file, or choose another `out`"
        raise UserError(f"{path}: begun with another content of {changed[0]}; {advice}")
    _refuse_other(path, saved, _settings_of(saved), _settings_of(config))


def _refuse_other(path: Path, saved: RunConfig, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise unless values are the same; the message names the first that differs."""
    for name in (*now, *before):
        if saved.options is None and (name not in now or name not in before):
            continue
        old = repr(before[name]) if name in before else "nothing"
        new = repr(now[name]) if name in now else "nothing"
        if old != new:
            advice = "resume with the same settings, or choose another `out`"
            raise UserError(f"{path}: begun with {name} = {old}, now asked for {new}; {advice}")


def _settings_of(config: RunConfig) -> dict[str, Any]:
    """Return what decides a run, by name, but for the options of its task; what follows from the data comes last."""
    values: dict[str, Any] = encode(config)
    for name in ("task_options", "options", "made_by", "plugins"):
        values.pop(name, None)
    data = _without_paths(values.pop("data"))
    return dict(flat(values)) | dict(flat(data, "data."))


def _left_out(saved: RunConfig, config: RunConfig) -> set[str]:
    """Return the names of options that are not compared: how a comparison tests, and paths, whose content is."""
    if config.task not in TASKS:  # an object of a class that nobody registered
        return set()
    kind = TASKS[config.task]
    options, _ = divide(config.task_options, kind.Options, kind.TestOptions)
    left_out = {field.name for field in fields(kind.TestOptions)}
    for name, value in options.items():
        items = value if isinstance(value, tuple) else [value]
        if name in saved.task_options and any(isinstance(item, Path) for item in items):
            left_out.add(name)
    return left_out


def _without_paths(value: Any) -> Any:
    """Return settings of data without the paths of files, whose content has a checksum beside it."""
    if isinstance(value, dict):
        return {name: _without_paths(item) for name, item in value.items() if name != "path"}
    return [_without_paths(item) for item in value] if isinstance(value, list) else value
