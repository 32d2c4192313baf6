"""Everything that decides how a model is trained. Imports no torch, so that the command line can list it at once."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from selfattn.codec import Plain
from selfattn.settings import check

ScheduleName = Literal["constant", "linear", "cosine", "inverse_sqrt", "one_cycle"]
Precision = Literal["float32", "bfloat16"]
AverageName = Literal["none", "ema", "last"]
DeviceName = Literal["auto", "cpu", "cuda"]
MOST_THREADS = 1024


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Plain):
    """How a model is trained.

    Attributes:
        seed: of every random stream of the run (order of the data, first weights, dropout).
        epochs: how many; ``max_steps`` overrides it.
        max_steps: stop after so many steps of the optimizer, in whatever epoch; the schedule falls over as many.
            Needed where the data are a stream, whose length nobody knows. Default: all epochs.
        items_per_epoch: pairs in an epoch; default for a file all of it.
        batch_size: pairs in a batch.
        max_tokens: most tokens in a batch, source and target with padding; default no limit.
        accumulate: batches whose gradients make one step, weighted by their tokens, as if they were one large batch.
        lr: the highest learning rate.
        schedule: how the rate falls after the warm-up; see :func:`selfattn.training.optim.optimizer.lr_factor`.
        warmup: share of all steps over which the rate rises from zero.
        warmup_steps: the same as a number of steps, in place of the share.
        weight_decay: of AdamW; biases, norms and embeddings never decay.
        betas: of AdamW.
        clip_norm: the gradient is scaled down to this norm where it is longer; 0 leaves it.
        label_smoothing: probability mass spread evenly over the vocabulary.
        r_drop: weight of the divergence between two passes with different dropout (Wu et al. 2021); 0 makes one pass.
        teacher_forcing: probability that the model reads the right token before the next, and not its own guess; see
            :mod:`selfattn.training.objective.scheduled_sampling`.
        teacher_forcing_end: the same at the last step, reached in equal steps; default: it stays as it is.
        precision: of the computation: float32, or bfloat16 where autocast allows it; weights stay float32.
        average: which weights are validated and kept: those of the step (``none``), their exponential moving average
            (``ema``), or the mean of those at the last validations (``last``).
        ema_decay: of ``ema``: how much of the average stays at each step, at most; see
            :class:`selfattn.training.optim.averaging.ExponentialAverage`.
        average_last: of ``last``: over how many validations.
        validation_items: unseen pairs for the validation.
        validate_every: steps between two validations, and one after the last step; default: after each epoch.
        patience: stop after so many validations in a row that did not find better weights; default: never.
        target_exact_match: stop when the validation reaches this share; default: never.

    Raises:
        SettingError: a value is out of its range.

    Example:
        >>> TrainingConfig(epochs=3).lr
        0.003
        >>> TrainingConfig(lr=-1.0)
        Traceback (most recent call last):
        ...
        selfattn.errors.SettingError: lr: expected a number above 0, got -1.0
    """

    seed: int = 0
    epochs: int = 10
    max_steps: int | None = None
    items_per_epoch: int | None = None
    batch_size: int = 128
    max_tokens: int | None = None
    accumulate: int = 1
    lr: float = 3e-3
    schedule: ScheduleName = "linear"
    warmup: float = 0.1
    warmup_steps: int | None = None
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    clip_norm: float = 1.0
    label_smoothing: float = 0.0
    r_drop: float = 0.0
    teacher_forcing: float = 1.0
    teacher_forcing_end: float | None = None
    precision: Precision = "float32"
    average: AverageName = "none"
    ema_decay: float = 0.999
    average_last: int = 5
    validation_items: int = 1000
    validate_every: int | None = None
    patience: int | None = None
    target_exact_match: float | None = None

    def __post_init__(self) -> None:
        fits = partial(check, self, said="{}")
        fits("seed", int, lambda x: True, "a whole number")
        counts = "epochs batch_size accumulate average_last validation_items max_steps items_per_epoch max_tokens"
        fits(f"{counts} validate_every patience", int, lambda x: x >= 1, "a whole number of at least 1")
        fits("warmup_steps", int, lambda x: x >= 0, "a whole number of at least 0")
        fits("lr", float, lambda x: x > 0, "a number above 0")
        fits("weight_decay clip_norm r_drop", float, lambda x: x >= 0, "a number of at least 0")
        fits("warmup label_smoothing ema_decay", float, lambda x: 0 <= x < 1, "a share in [0, 1)")
        fits("teacher_forcing teacher_forcing_end", float, lambda x: 0 <= x <= 1, "a probability in [0, 1]")
        fits("target_exact_match", float, lambda x: 0 < x <= 1, "a share in (0, 1]")
        for name, choices in (("schedule", ScheduleName), ("precision", Precision), ("average", AverageName)):
            options = typing.get_args(choices)
            fits(name, str, options.__contains__, f"one of {', '.join(options)}")
        fits("betas", tuple, _are_betas, "two numbers in [0, 1)")


def _are_betas(values: tuple[Any, ...]) -> bool:
    return len(values) == 2 and all(isinstance(value, float | int) and 0 <= value < 1 for value in values)
