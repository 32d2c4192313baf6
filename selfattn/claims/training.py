"""Small trainings: a model of a preset and a stream of batches, with the project's loss and optimizer, and no files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from selfattn.claims.sequences import stream
from selfattn.data.batches import Batch
from selfattn.models.build import build
from selfattn.models.config import ModelConfig, override
from selfattn.models.presets import get_preset
from selfattn.models.protocol import Seq2Seq
from selfattn.streams import generator
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.parallel import Replica
from selfattn.training.optimizer import make_optimizer
from selfattn.training.step import Stepper


def resized(preset: str, changes: Mapping[str, Any] | None = None, **of_both: Any) -> ModelConfig:
    """Return the configuration of a preset with other settings.

    Args:
        preset: whose encoder and decoder have settings of the same names.
        changes: settings by dotted paths; default none.
        of_both: settings of the encoder and of the decoder, such as their width.

    Raises:
        UserError: there is no such preset or setting, or a value is out of its range.

    Example:
        >>> config = resized("luong-dot", {"encoder.num_layers": 2, "decoder.num_layers": 2}, hidden_dim=16)
        >>> config.encoder.hidden_dim, config.decoder.hidden_dim, config.encoder.num_layers
        (16, 16, 2)
    """
    settings = {f"{part}.{name}": value for part in ("encoder", "decoder") for name, value in of_both.items()}
    made: ModelConfig = override(get_preset(preset).config, settings | dict(changes or {}))
    return made


def trained(
    config: ModelConfig,
    make: Callable[[torch.Generator], Batch],
    *,
    vocab_size: int,
    steps: int,
    seed: int,
    rate: float | None,
) -> Seq2Seq:
    """Build a model and train it on batches made by rule; the same seed gives every model the same batches.

    Args:
        config: of the model.
        make: one batch of a generator.
        vocab_size: of the model.
        steps: of the optimizer.
        seed: of the first weights, of the batches and of dropout.
        rate: see :func:`train_for`.

    Raises:
        UserError: the loss is no longer a finite number.
    """
    model = build(config, vocab_size=vocab_size, seed=seed)
    train_for(model, stream(make, seed=seed), steps=steps, lr=rate, seed=seed)
    return model


def train_for(
    model: Seq2Seq,
    batches: Iterator[Batch],
    *,
    steps: int,
    lr: float | None,
    seed: int,
    teacher_forcing: float = 1.0,
    teacher_forcing_end: float | None = None,
    weight_decay: float = 0.01,
) -> float:
    """Train a model in place for so many steps; after it the model is in evaluation mode.

    AdamW, a cosine schedule after a tenth of warm-up, the gradient clipped at norm 1. The global random state is left
    as it was.

    Args:
        model: of :func:`selfattn.build`.
        batches: one a step; at least as many as steps.
        steps: of the optimizer.
        lr: the highest learning rate, as a claim's `measure` gets it of an arm that has some.
        seed: of dropout and of scheduled sampling.
        teacher_forcing: see :class:`selfattn.training.config.TrainingConfig`; default 1.
        teacher_forcing_end: likewise; default it stays as it is.
        weight_decay: of matrices; default 0.01.

    Returns:
        The mean loss of the last tenth of the steps, in nats a token.

    Raises:
        UserError: the loss is no longer a finite number.

    Example:
        >>> from selfattn.claims.sequences import copies, stream
        >>> from selfattn.models.build import build
        >>> model = build("transformer", vocab_size=13, seed=0)
        >>> batches = stream(lambda draws: copies(4, 5, symbols=10, generator=draws), seed=0)
        >>> train_for(model, batches, steps=2, lr=1e-3, seed=0) > 0
        True
    """
    assert lr is not None
    config = TrainingConfig(
        seed=seed,
        max_steps=steps,
        lr=lr,
        schedule="cosine",
        weight_decay=weight_decay,
        teacher_forcing=teacher_forcing,
        teacher_forcing_end=teacher_forcing_end,
    )
    stepper = Stepper(Replica(model), make_optimizer(model, config), config, generator(seed, "forcing/0"))
    model.train()
    losses = []
    with torch.random.fork_rng(devices=[]):
        stepper.begin_epoch(0)
        for number in range(1, steps + 1):
            losses.append(stepper.step([next(batches)], number, total_steps=steps, epoch=0)[0])
    model.eval()
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last)
