"""Train one model on one task's data into a run directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from selfattn.data.batches import Example, collate
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.metrics import exact_matches
from selfattn.evaluation.predict import predict
from selfattn.models.build import build, count_parameters
from selfattn.models.protocol import Seq2Seq
from selfattn.tasks.progress import ProgressObserver
from selfattn.tasks.run import Run
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.loop import EXACT_MATCH, train
from selfattn.training.machine import commit, machine, versions
from selfattn.training.observer import EpochReport, Measure, Observer
from selfattn.training.run_dir import RunConfig, RunDirectory


@dataclass(frozen=True)
class Material:
    """What a model is trained on, ready to be used by several models one after the other.

    Attributes:
        tokenizer: of all of them.
        epoch: gives the training examples of an epoch, counted from 0.
        validation: unseen examples for the loss.
        measure: what chooses the best weights.
        longest: the longest source with the longest target, to find out whether a model can read them.
    """

    tokenizer: Tokenizer
    epoch: Callable[[int], Sequence[Example]]
    validation: Sequence[Example]
    measure: Measure
    longest: Example


def fit(config: RunConfig, material: Material, out: Path, *, command: str, label: str | None = None) -> Run:
    """Train a model and keep the run.

    The weights of the best epoch are on disk as soon as there are any, so a run that is killed can be used. So can
    one that was interrupted from the keyboard; the interrupt is raised again when everything is in place.

    Args:
        config: of the run.
        material: what to train on.
        out: the run directory, made here.
        command: what made the run, for its record.
        label: what to call it in the progress on standard error; default the model's name.

    Raises:
        UserError: the directory is taken, the model cannot read texts that long, or the loss is no longer a number.
        KeyboardInterrupt: the user stopped the training.
    """
    tokenizer = material.tokenizer
    model = build(config.model, vocab_size=len(tokenizer), pad_id=tokenizer.pad_id, seed=config.training.seed)
    _probe(model, config, material)
    parameters, non_embedding = count_parameters(model)
    record = {
        "status": "running",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "seed": config.training.seed,
        "parameters": parameters,
        "parameters_non_embedding": non_embedding,
        "train_seconds": 0.0,
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
    }
    directory = RunDirectory.create(out, config, tokenizer, record)
    keeper = _Keeper(directory, record)

    try:
        with ProgressObserver(label or config.preset) as progress:
            outcome = train(
                model,
                material.epoch,
                material.validation,
                config.training,
                pad_id=tokenizer.pad_id,
                bos_id=tokenizer.bos_id,
                measure=material.measure,
                observers=[keeper, progress],
            )
    except BaseException as error:
        keeper.update(status="interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    directory.save_weights(model)
    keeper.update(status=outcome.status, train_seconds=outcome.seconds)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt(f"{out} keeps the best weights so far")
    return Run(out, config, model, tokenizer)


def exact_match(tokenizer: Tokenizer, pairs: Sequence[Pair], *, max_length: int) -> Measure:
    """Measure a model by the share of its greedy outputs that are exactly right.

    Args:
        tokenizer: of the model.
        pairs: unseen ones, at least one.
        max_length: most tokens of an output, ``<eos>`` counted.
    """
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]

    def figures(model: Seq2Seq, loss: float) -> Mapping[str, float]:
        right = exact_matches(predict(model, tokenizer, sources, max_length=max_length), targets)
        return {EXACT_MATCH: sum(right) / len(right)}

    return Measure(figures, EXACT_MATCH)


class _Keeper(Observer):
    """Writes down every epoch, and the weights whenever they are the best so far."""

    def __init__(self, directory: RunDirectory, record: Mapping[str, Any]) -> None:
        self.directory = directory
        self.record = dict(record)

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        self.directory.append(report)
        if is_best:
            self.directory.save_weights(model)
        self.update(train_seconds=report.seconds)

    def update(self, **changes: Any) -> None:
        self.record |= changes
        self.directory.write_record(self.record)


def _probe(model: Seq2Seq, config: RunConfig, material: Material) -> None:
    """Let the model read the longest example, to learn now and not in the middle whether it can."""
    tokenizer = material.tokenizer
    batch = collate([material.longest], tokenizer.pad_id, tokenizer.bos_id, [0])
    try:
        with torch.inference_mode():
            model(batch.source, batch.target_in, source_mask=batch.source_mask)
    except ValueError as error:
        raise UserError(f"{config.preset}: cannot read the longest pair of these data: {error}") from None
