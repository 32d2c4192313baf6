"""Load trained models: a run, an export of one, or several runs as an ensemble."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import torch

from selfattn.decoding.options import OwnSearch
from selfattn.errors import SettingError, UserError
from selfattn.layers.init import without_memory
from selfattn.models.build import Ensemble, EnsembleConfig, build, count_parameters
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.ownership import new_directory, remove_remains
from selfattn.processes import choose_device
from selfattn.runs.directory import CONFIG, TOKENIZER, WEIGHTS, RunDirectory, check_is_free, files_in, foreign_kind
from selfattn.runs.predictor import Engine, export_format
from selfattn.runs.run import Run, export_once, open_exported
from selfattn.settings import command_line, shown
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.weights import copy_of, freeze, mean_of, named_weights, put_into


def load(
    path: str | os.PathLike[str],
    *others: str | os.PathLike[str],
    device: str | torch.device = "cpu",
    engine: Engine = "torch",
) -> Run:
    """Load a trained model.

    Args:
        path: a run directory, made by training or by :meth:`Run.export`; or ``hf://user/name``, or
            ``hf://user/name@revision``, of the Hugging Face Hub.
        others: runs of the same task and vocabulary, of any family, for an ensemble: the mean of their probabilities
            is decoded.
        device: to compute on: a device or its name, such as ``cuda:1``; ``auto`` takes a GPU if there is one. Default
            the CPU.
        engine: what computes. For ``onnx`` and ``ctranslate2`` the run is exported once, to ``RUN-ENGINE`` beside it;
            the first outputs are compared with those of torch, and a difference is said on standard error.

    Raises:
        UserError: a file is missing or broken, a plugin is not loaded, the device is missing, the runs do not fit
            together, or the engine is missing or does not support the model.
    """
    for run_path in (path, *others):
        if not isinstance(run_path, str | os.PathLike):
            raise SettingError(f"load: expected a run directory, got {shown(run_path)}")
    if engine not in get_args(Engine):
        raise UserError(f"engine: expected one of {', '.join(get_args(Engine))}, got {engine!r}")
    device = choose_device(device)
    if engine != "torch":
        if device.type != "cpu":
            raise SettingError(f"`engine` {engine}: computes on the CPU; leave `device` out")
        runs = [load(name) for name in (path, *others)]
        paths = [export_once(run, engine) for run in runs]
        run = load(*paths, device=device)
        run.reference = _ensemble(runs) if others else runs[0]
        return run
    if others:
        return _ensemble([load(run, device=device) for run in (path, *others)])
    from selfattn.runs.hub import fetch

    directory = RunDirectory(fetch(path))
    kind = foreign_kind(directory.path)
    if kind is not None:
        advice = "; a training with `init_from` makes a run of it" if kind == "marian" else ""
        raise UserError(f"{directory.path}: a model of Hugging Face ({kind}), not a run{advice}")
    config = directory.config()
    tokenizer = directory.tokenizer()
    if (kind := export_format(directory.path)) is not None:
        if device.type != "cpu":
            raise UserError(f"{directory.path}: an exported run computes on the CPU; load the run")
        return Run(directory.path, config, open_exported(directory.path, kind).eval(), tokenizer)
    with without_memory():  # the model may not be the right one
        parameters, _ = count_parameters(build_model(config.model, tokenizer, config.training.seed))
    directory.check_size(parameters)
    with torch.inference_mode(False):  # whose weights would have no gradients afterwards
        model = build_model(config.model, tokenizer, config.training.seed)
        directory.load_weights(model)
        model.eval().to(device)
    with torch.inference_mode():
        source = torch.tensor([[tokenizer.eos_id]], device=device)
        start = torch.tensor([[tokenizer.bos_id]], device=device)
        if not model(source, start, source_mask=source >= 0).isfinite().all():
            raise UserError(f"{directory.path / WEIGHTS}: numbers of this model overflow; train again")
    return Run(directory.path, config, model, tokenizer)


def _ensemble(runs: Sequence[Run]) -> Run:
    """Return runs as one whose probabilities are the mean of theirs."""
    first = runs[0]
    for run in runs:
        if run.config.task != first.config.task:
            raise UserError(f"{run.path}: trained on {run.config.task}, not on {first.config.task} as {first.path}")
        if files_in(run.path / TOKENIZER) != files_in(first.path / TOKENIZER):
            raise UserError(f"{run.path}: has another vocabulary than {first.path}; an ensemble needs one")
        if isinstance(run.model, OwnSearch):
            raise UserError(f"{run.path}: gives no probabilities of each step; take the run that it was exported from")
    config = replace(
        first.config,
        preset=" + ".join(run.config.preset for run in runs),
        model=EnsembleConfig(tuple(run.config.model for run in runs)),
        max_length=min(run.config.max_length for run in runs),
        longest_source=max(run.config.longest_source for run in runs),
    )
    return Run(first.path, config, Ensemble([run.model for run in runs]), first.tokenizer)


def build_model(config: ModelConfig, tokenizer: Tokenizer, seed: int) -> Seq2Seq:
    """Build a model for a tokenizer, with initial weights.

    Args:
        config: of the model.
        tokenizer: of both sides; the source may have a vocabulary of its own.
        seed: of the initial weights.

    Raises:
        UserError: source and target have separate vocabularies, and the model needs a shared one; or torch's default
            dtype is not float32.
    """
    if torch.get_default_dtype() != torch.float32:
        default = torch.get_default_dtype()
        raise UserError(f"torch's default dtype is {default}, and models of runs are float32; set it to float32")
    try:
        sizes = {"vocab_size": len(tokenizer), "source_vocab_size": len(tokenizer.source)}
        return build(config, **sizes, pad_id=tokenizer.pad_id, seed=seed)
    except ValueError as error:
        advice = "" if tokenizer.source is tokenizer else "; leave `separate` out"
        raise UserError(f"this model cannot be built: {error}{advice}") from None


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
    if export_format(path) is not None:
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
    record = replace(
        directory.record(),
        status="finished",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command_line(f"average {shlex.quote(str(path))}", {"out": out, "last": last}),
        averaged=tuple(steps),
    )
    with new_directory(out) as folder:
        averaged = RunDirectory(folder)
        directory.copy(folder, f"{TOKENIZER}/*", CONFIG)
        averaged.write_record(record)
        averaged.save_weights(model)
    return steps
