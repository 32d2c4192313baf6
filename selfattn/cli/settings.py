"""The settings of every command as frozen dataclasses; the command line is generated from them. Imports no torch."""

# No `from __future__ import annotations`: what a dataclass inherits has to be known by value, not by name.

import dataclasses
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, Token

from selfattn.cli.given_options import GivenFiles
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import UserError
from selfattn.models.config import ModelConfig, override
from selfattn.training.config import AverageName, Precision, ScheduleName, TrainingConfig
from selfattn.training.distributed.parallel import process_count


def _split_commas(type_: Any, tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(name for token in tokens for name in token.value.split(",") if name)


Names = Annotated[tuple[str, ...], Parameter(converter=_split_commas, n_tokens=1)]
"""Names given as ``a,b,c``, or by naming the option again."""


def _whole_number(type_: Any, tokens: Sequence[Token]) -> int:
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"expected a whole number, got {tokens[0].value}") from None


# Without the converter cyclopts would round 1.5 to 2.
Whole = Annotated[int, Parameter(converter=_whole_number)]
MaybeWhole = Annotated[int | None, Parameter(converter=_whole_number)]

DEFAULT_LOCALES = ("en_US",)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Settings of the training; those that are not given come from the recipe of the task.

    Attributes:
        epochs: how many; --max-steps goes before it.
        max_steps: stop after so many steps of the optimizer, in whatever epoch; the schedule falls over as many.
        items_per_epoch: pairs in an epoch; for a file the default is all of it.
        batch_size: pairs in a batch.
        max_tokens: most tokens in a batch, source and target with padding.
        accumulate: batches whose gradients make one step, as if they were one large batch.
        lr: the highest learning rate.
        schedule: how the rate falls after the warm-up.
        warmup: share of all steps over which the rate rises from zero.
        warmup_steps: the same as a number of steps, in place of the share.
        weight_decay: of AdamW.
        clip_norm: the gradient is scaled down to this norm where it is longer; 0 leaves it.
        label_smoothing: probability mass spread evenly over the vocabulary.
        r_drop: weight of the divergence between two passes with different dropout; 0 makes one pass.
        teacher_forcing: probability that the model reads the right token and not its own guess; below 1 it is slower.
        teacher_forcing_end: the same at the last step; between the first and the last it changes evenly.
        precision: of the computation; weights stay float32.
        average: which weights are validated and kept: those of the step (none), their exponential moving average (ema),
            or the mean of those at the last validations (last).
        ema_decay: of ema: how much of the average stays at each step.
        average_last: of last: over how many validations.
        validation_items: unseen pairs for the validation.
        validate_every: steps between two validations; where not given, one after each epoch.
        patience: stop after so many validations in a row that did not find better weights.
        target_exact_match: stop when the validation reaches this share.
    """

    epochs: MaybeWhole = None
    max_steps: MaybeWhole = None
    items_per_epoch: MaybeWhole = None
    batch_size: MaybeWhole = None
    max_tokens: MaybeWhole = None
    accumulate: MaybeWhole = None
    lr: float | None = None
    schedule: ScheduleName | None = None
    warmup: float | None = None
    warmup_steps: MaybeWhole = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    label_smoothing: float | None = None
    r_drop: float | None = None
    teacher_forcing: float | None = None
    teacher_forcing_end: float | None = None
    precision: Precision | None = None
    average: AverageName | None = None
    ema_decay: float | None = None
    average_last: MaybeWhole = None
    validation_items: MaybeWhole = None
    validate_every: MaybeWhole = None
    patience: MaybeWhole = None
    target_exact_match: float | None = None

    def applied_to(self, recipe: TrainingConfig, *, seed: int) -> TrainingConfig:
        """Return the recipe with the settings that were given, and the seed.

        Raises:
            UserError: a value is out of its range.

        Example:
            >>> TrainingOptions(epochs=3).applied_to(TrainingConfig(), seed=7).epochs
            3
        """
        given = {name: value for name, value in vars(self).items() if value is not None}
        return dataclasses.replace(recipe, seed=seed, **given)


AS_THE_RECIPE = TrainingOptions()
Training = Annotated[
    TrainingOptions, Parameter(group=Group("Training (where not given, as the recipe says)", sort_key=9))
]


Device = Literal["auto", "cpu", "cuda"]
_RUN = Group("Run", sort_key=8)
_Flag = Annotated[bool, Parameter(group=_RUN, negative="")]
_Place = Annotated[Path | None, Parameter(group=_RUN)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Settings of every training that say nothing of what it learns.

    Attributes:
        resume: go on with the training that --out holds; the result is the same as without the stop.
        device: where to compute; auto takes a GPU where there is one.
        save_every: steps between two checkpoints to go on from; where not given, after every validation, and in
            between as often as costs at most 2 % of the time.
        tensorboard: write learning curves for TensorBoard into this directory.
        sharded: for a model too large for one device: of several processes, which torchrun starts, each keeps a part.
    """

    resume: _Flag = False
    device: Annotated[Device, Parameter(group=_RUN)] = "auto"
    save_every: Annotated[MaybeWhole, Parameter(group=_RUN)] = None
    tensorboard: _Place = None
    sharded: _Flag = False

    def __post_init__(self) -> None:
        if self.sharded and process_count() == 1:
            raise UserError(
                "--sharded: one process has nothing to share out; start several by torchrun or leave it out"
            )

    def for_fit(self) -> dict[str, Any]:
        """Return the arguments of `selfattn.runs.fit.fit` that these settings stand for."""
        observers: list[Any] = []
        if self.tensorboard is not None:
            from selfattn.training.tensorboard import TensorBoardObserver

            observers.append(TensorBoardObserver(self.tensorboard))
        rest = {"resume": self.resume, "device": self.device, "save_every": self.save_every, "sharded": self.sharded}
        return rest | {"observers": observers}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrainDates(RunOptions):
    """Settings of ``selfattn train dates``.

    Attributes:
        model: which model; `selfattn models` lists them.
        out: where the run is kept; must not hold one already.
        locales: CLDR locales of the embedded dates, separated by commas.
        data: take pairs from two parallel files instead, or from one (TSV, CSV, JSON lines or the book's), plain or
            .gz.
        columns: names of the source's and the target's column, or their numbers from 1, separated by a comma.
        seed: of every random stream of the run.
        quick: a small training that ends within seconds, to try things out.
        set: a setting of the model as name=value, such as encoder.dim=128; may be given several times.
        training: how it is trained.
    """

    model: str = "transformer"
    out: Path
    locales: Names = DEFAULT_LOCALES
    data: GivenFiles = ()
    columns: Names = ()
    seed: Whole = 0
    quick: bool = False
    set: tuple[str, ...] = ()
    training: Training = AS_THE_RECIPE


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrainLM(RunOptions):
    """Settings of ``selfattn train lm``.

    Attributes:
        model: which decoder-only model; it gets a source of no tokens.
        out: where the run is kept; must not hold one already.
        data: a text file in UTF-8, one text a line, plain or .gz; empty lines are skipped.
        valid: another one to choose the best weights by; where none is given, a tenth of the different lines, at most
            --validation-items of them.
        context: most characters that are read as one; a longer line is cut into windows that know nothing of each
            other.
        seed: of every random stream of the run.
        set: a setting of the model as name=value, such as stack.dim=128; may be given several times.
        training: how it is trained.
    """

    model: str = "decoder-only"
    out: Path
    data: Path
    valid: Path | None = None
    context: Whole = 256
    seed: Whole = 0
    set: tuple[str, ...] = ()
    training: Training = AS_THE_RECIPE


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How outputs are decoded; without any of these, greedily.

    Attributes:
        beam: beam search with so many hypotheses at each step.
        length_penalty: alpha of the beam's length penalty ((5 + length) / 6) ** alpha, which log-probabilities are
            divided by; 0 is none, above 0 favours long outputs.
        n_best: write so many outputs for each input, the best first, each as a line: number of the input from 1, tab,
            score (log-probability / length penalty), tab, output. Needs a beam at least as wide.
        sample: draw every token from the model's distribution.
        temperature: divides the logits before drawing; below 1 more careful, above 1 bolder.
        top_k: draw from so many tokens only, the most probable.
        top_p: draw from the fewest most probable tokens that together reach this share.
        seed: of the drawing; the same seed and input line number give the same output.
        max_length: most tokens of an output, its end counted; where not given, what the run was trained for.
    """

    beam: Whole = 1
    length_penalty: float = 0.0
    n_best: MaybeWhole = None
    sample: bool = False
    temperature: float = 1.0
    top_k: MaybeWhole = None
    top_p: float | None = None
    seed: Whole = 0
    max_length: MaybeWhole = None

    def options(self) -> DecodingOptions:
        """Return the checked options.

        Raises:
            UserError: a value is out of its range, or two of them do not go together.

        Example:
            >>> Decoding(beam=3).options().beam
            3
        """
        return DecodingOptions(**vars(self) | {"n_best": 1 if self.n_best is None else self.n_best})


DECODING_DEFAULTS = Decoding()


def with_settings(config: ModelConfig, settings: Sequence[str], model: str = "") -> ModelConfig:
    """Change settings of a model that were given as ``name=value``, or as ``model:name=value`` for one model.

    A value is read as JSON where it can be (numbers, ``true``, ``null``), else as text.

    Args:
        config: the model's.
        settings: such as ``["encoder.hidden_dim=64"]``.
        model: the model's name; default none, which no ``model:`` meets.

    Raises:
        UserError: there is no ``=``, no such setting, or the value is out of its range.

    Example:
        >>> from selfattn.models.decoder_only.config import DecoderOnlyConfig
        >>> from selfattn.models.transformer_config import TransformerConfig
        >>> with_settings(DecoderOnlyConfig(stack=TransformerConfig()), ["stack.norm=rms", "x:stack.dim=2"]).stack.norm
        'rms'
    """
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--set {setting}: expected name=value, such as --set encoder.dropout=0.1")
        owner, colon, rest = name.partition(":")
        if colon and owner != model:
            continue
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        values[(rest if colon else name).strip()] = value
    changed: ModelConfig = override(config, values)
    return changed


_NOT_THE_RESULT = ("resume", "save_every", "tensorboard", "sharded")  # the same run comes out whatever they are


def command_line(command: str, options: Any) -> str:
    """Write the command that these options stand for: what differs from the defaults, ready for a shell.

    Example:
        >>> options = TrainDates(out=Path("my run"), locales=("ko_KR", "ja_JP"), training=TrainingOptions(epochs=3))
        >>> command_line("selfattn train dates", options)
        "selfattn train dates --out 'my run' --locales ko_KR,ja_JP --epochs 3"
    """
    return " ".join([command, *_flags(options)])


def _flags(options: Any) -> Iterator[str]:
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        flag = "--" + field.name.replace("_", "-")
        if value == field.default or field.name in _NOT_THE_RESULT:
            continue
        if isinstance(value, TrainingOptions):
            yield from _flags(value)
        elif value is True:
            yield flag
        elif field.name == "set":
            yield from (f"{flag} {shlex.quote(one)}" for one in value)
        else:
            is_files = isinstance(value, tuple) and any(isinstance(one, Path) for one in value)
            texts = map(str, value) if is_files else [",".join(value) if isinstance(value, tuple) else str(value)]
            yield " ".join([flag, *map(shlex.quote, texts)])
