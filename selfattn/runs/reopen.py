"""Open the directory of a run again: to resume it, to lengthen it, or with a lower learning rate after a failure."""

import math
from dataclasses import replace
from pathlib import Path

from selfattn.codec import encode
from selfattn.errors import UserError, number_of, say
from selfattn.files import sha256_of
from selfattn.runs.directory import CHECKPOINT, CONFIG, RECORD, TOKENIZER, RunDirectory, files_in, files_of
from selfattn.runs.record import RunConfig, flat
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.checkpoint import CheckpointFile

_DERIVED = ("data.parts.", "data.length_ratio")


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
    settings = [dict(flat(encode(each))) for each in (saved, config)]
    # What was chosen goes before what follows from it, such as the parts of a corpus.
    for name in sorted((*settings[0], *settings[1]), key=lambda name: name.startswith(_DERIVED)):
        old, new = (repr(values[name]) if name in values else "nothing" for values in settings)
        if old != new and not name.startswith("plugins"):
            advice = "resume with the same settings, or choose another `out`"
            raise UserError(f"{path}: begun with {name} = {old}, now asked for {new}; {advice}")
    if files_of(tokenizer) != files_in(path / TOKENIZER):
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
