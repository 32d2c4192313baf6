"""Load trained models: a run, an export of one, or several runs as an ensemble."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch

from selfattn.decoding.options import OwnSearch
from selfattn.errors import SettingError, UserError
from selfattn.layers.init import without_memory
from selfattn.models.build import Ensemble, EnsembleConfig, count_parameters
from selfattn.runs.directory import TOKENIZER, WEIGHTS, RunDirectory, files_in, foreign_kind
from selfattn.runs.export import export_once, open_exported
from selfattn.runs.exported import Engine, format_of
from selfattn.runs.model import build_model, check_default_device
from selfattn.runs.run import Run
from selfattn.settings import shown
from selfattn.training.device import choose_device


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
        paths = [export_once(run.path, run.config, run.model, run.tokenizer, engine) for run in runs]
        run = load(*paths, device=device)
        run.reference = _ensemble(runs) if others else runs[0]
        return run
    if others:
        return _ensemble([load(run, device=device) for run in (path, *others)])
    from selfattn.runs.hub import fetch, is_address

    directory = RunDirectory(fetch(path) if is_address(path) else Path(path))
    kind = foreign_kind(directory.path)
    if kind is not None:
        advice = "; a training with `init_from` makes a run of it" if kind == "marian" else ""
        raise UserError(f"{directory.path}: a model of Hugging Face ({kind}), not a run{advice}")
    config = directory.config()
    tokenizer = directory.tokenizer()
    if (kind := format_of(directory.path)) is not None:
        if device.type != "cpu":
            raise UserError(f"{directory.path}: an exported run computes on the CPU; load the run")
        return Run(directory.path, config, open_exported(directory.path, kind).eval(), tokenizer)
    check_default_device()
    with without_memory():  # the model may not be the right one
        parameters, _ = count_parameters(build_model(config.model, tokenizer, config.training.seed))
    directory.check_size(parameters)
    model = build_model(config.model, tokenizer, config.training.seed)
    directory.load_weights(model)
    model.eval()
    with torch.inference_mode():
        source = torch.tensor([[tokenizer.eos_id]])
        start = torch.tensor([[tokenizer.bos_id]])
        if not model(source, start, source_mask=source >= 0).isfinite().all():
            raise UserError(f"{directory.path / WEIGHTS}: numbers of this model overflow; train again")
    model.to(device)
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
