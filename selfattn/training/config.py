"""The configuration of a training. Imports no torch, so that the command line can list it at once."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypedDict

from annotated_types import Gt, Le

from selfattn.codec import Plain
from selfattn.errors import SettingError
from selfattn.settings import (
    Condition,
    Count,
    CountOrZero,
    Positive,
    PositiveOrZero,
    Probability,
    Seed,
    Share,
    check,
    check_bounds,
    excludes,
    needs,
)

ScheduleName = Literal["constant", "linear", "cosine", "inverse_sqrt"]
Precision = Literal["float32", "bfloat16"]
AverageName = Literal["none", "ema", "last"]
DeviceName = Literal["auto", "cpu", "cuda"]
MOST_THREADS = 1024


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Plain):
    """Configuration of a training.

    Attributes:
        seed: Seed of all random streams of the run (order of the data, initialisation, dropout).
        epochs: Number of epochs.
        max_steps: Optimizer steps to train for, instead of epochs. Required for streamed data. Default: all epochs.
        items_per_epoch: Pairs in an epoch. Default: the full file.
        batch_size: Examples in a batch.
        max_tokens: Largest batch, in tokens of source and target, with padding. Default: no limit.
        accumulate: Batches to accumulate gradients over before each step, weighted by tokens.
        lr: Learning rate. Peak value after warm-up.
        schedule: Learning-rate schedule after warm-up.
        warmup: Share of all steps for learning-rate warm-up.
        warmup_steps: Steps of learning-rate warm-up. Replaces the share.
        weight_decay: Weight decay of AdamW. Not applied to biases, norms and embeddings.
        betas: Betas of AdamW.
        clip_norm: Largest gradient norm; larger gradients are scaled down. 0: no clipping.
        label_smoothing: Probability mass spread evenly over the vocabulary.
        r_drop: Weight of R-Drop, the divergence between two dropout passes (Wu et al. 2021).
        guided: Weight of guided alignment: one head learns the links of pairs (Garg et al. 2019). Default: none.
        teacher_forcing: Probability of feeding the correct previous token instead of the model's prediction.
        teacher_forcing_end: Value of ``teacher_forcing`` at the last step, reached linearly. Default: constant.
        precision: Precision of computation. bfloat16 uses autocast; weights stay in float32.
        average: Weights to validate and keep: current ones, exponential average, or mean of the last validations.
        ema_decay: Largest decay of the exponential average (``average`` ema).
        average_last: Validations to average the weights of (``average`` last). At most a quarter of all.
        validation_items: Pairs in the validation set.
        validate_every: Steps between validations. Default: once per epoch.
        patience: Stop after this many validations without improvement. Default: never.
        target_exact_match: Stop when exact match on validation reaches this share. Default: never.
        look_items: Validation pairs of a first look. Only where these reach the target, all validation pairs are
            answered, and decide. Default: all at every validation.

    Raises:
        SettingError: a value is out of its range.

    Example:
        >>> TrainingConfig(epochs=3).lr
        0.003
        >>> TrainingConfig(lr=-1.0)
        Traceback (most recent call last):
        ...
        selfattn.errors.SettingError: `lr`: expected a number in (0, 1e+300], got -1.0
    """

    # Checked for the settings that a user gives; a recipe may hold values for another average.
    conditions: ClassVar[tuple[Condition, ...]] = (
        needs("`target_exact_match`", lambda config: config.target_exact_match is not None, "look_items"),
        excludes("`max_steps`", lambda config: config.max_steps is not None, "epochs"),
        excludes("`warmup_steps`", lambda config: config.warmup_steps is not None, "warmup"),
        needs("`average` ema", lambda config: config.average == "ema", "ema_decay"),
        needs("`average` last", lambda config: config.average == "last", "average_last"),
    )

    seed: Seed = 0
    epochs: Count = 10
    max_steps: Count | None = None
    items_per_epoch: Count | None = None
    batch_size: Count = 128
    max_tokens: Count | None = None
    accumulate: Count = 1
    lr: Positive = 3e-3
    schedule: ScheduleName = "linear"
    warmup: Share = 0.1
    warmup_steps: CountOrZero | None = None
    weight_decay: PositiveOrZero = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    clip_norm: PositiveOrZero = 1.0
    label_smoothing: Share = 0.0
    r_drop: PositiveOrZero = 0.0
    guided: Positive | None = None
    teacher_forcing: Probability = 1.0
    teacher_forcing_end: Probability | None = None
    precision: Precision = "float32"
    average: AverageName = "none"
    ema_decay: Share = 0.999
    average_last: Count = 5
    validation_items: Count = 1000
    validate_every: Count | None = None
    patience: Count | None = None
    target_exact_match: Annotated[float, Gt(0), Le(1)] | None = None
    look_items: Count | None = None

    def __post_init__(self) -> None:
        check_bounds(self)
        check(self, "betas", tuple, _are_betas, "two numbers in [0, 1)")
        ends = self.teacher_forcing if self.teacher_forcing_end is None else self.teacher_forcing_end
        if self.guided and min(self.teacher_forcing, ends) < 1:
            raise SettingError("`guided`: links are of the right tokens; leave `teacher_forcing` at 1")


class TrainingSettings(TypedDict, total=False):
    """Fields of :class:`TrainingConfig` as keyword arguments, without the seed; those left out come from the task."""

    epochs: int
    max_steps: int | None
    items_per_epoch: int | None
    batch_size: int
    max_tokens: int | None
    accumulate: int
    lr: float
    schedule: ScheduleName
    warmup: float
    warmup_steps: int | None
    weight_decay: float
    betas: tuple[float, float]
    clip_norm: float
    label_smoothing: float
    r_drop: float
    guided: float | None
    teacher_forcing: float
    teacher_forcing_end: float | None
    precision: Precision
    average: AverageName
    ema_decay: float
    average_last: int
    validation_items: int
    validate_every: int | None
    patience: int | None
    target_exact_match: float | None
    look_items: int | None


def _are_betas(values: tuple[Any, ...]) -> bool:
    return len(values) == 2 and all(isinstance(value, float | int) and 0 <= value < 1 for value in values)
