"""What every training can be told, besides its task: settings of the run and of the model. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from selfattn.errors import SettingError
from selfattn.models.config import ModelConfig, override
from selfattn.training.config import DeviceName
from selfattn.training.distributed.parallel import process_count


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Settings of every training of one model, besides those of the task and of how it is trained.

    Attributes:
        model: which model; `selfattn models` lists them.
        out: where the run is kept; must not hold one already.
        seed: of every random stream of the run.
        quick: a small training that ends within seconds, to try things out.
        set: a setting of the model as name=value, such as encoder.dim=128; may be given several times.
        resume: go on with the training that --out holds; the result is the same as without the stop.
        device: where to compute; auto takes a GPU where there is one.
        save_every: steps between two checkpoints to go on from; where not given, after every validation, and in
            between as often as costs at most 2 % of the time.
        tensorboard: write learning curves for TensorBoard into this directory.
        sharded: for a model too large for one device: of several processes, which torchrun starts, each keeps a part.
    """

    repeated: ClassVar[tuple[str, ...]] = ("set",)
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "Run": ("resume", "device", "save_every", "tensorboard", "sharded")
    }

    model: str = ""
    out: Path
    seed: int = 0
    quick: bool = False
    set: tuple[str, ...] = ()
    resume: bool = False
    device: DeviceName = "auto"
    save_every: int | None = None
    tensorboard: Path | None = None
    sharded: bool = False

    def __post_init__(self) -> None:
        if self.sharded and process_count() == 1:
            raise SettingError(
                "`sharded`: one process has nothing to share out; start several by torchrun or leave it out"
            )


def with_settings(
    config: ModelConfig,
    settings: Sequence[str],
    model: str = "",
    size: Callable[[ModelConfig], ModelConfig] | None = None,
) -> ModelConfig:
    """Change settings of a model that were given as ``name=value``, or as ``model:name=value`` for one model.

    A value is read as JSON where it can be (numbers, ``true``, ``null``), else as text.

    Args:
        config: the model's.
        settings: such as ``["encoder.hidden_dim=64"]``.
        model: the model's name; default none, which no ``model:`` meets.
        size: gives the model the size that a task asks for, before what is set; default as it is.

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
            raise SettingError(f"`set` {setting}: expected name=value, such as `set` encoder.dropout=0.1")
        owner, colon, rest = name.partition(":")
        if colon and owner != model:
            continue
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        values[(rest if colon else name).strip()] = value
    changed_config: ModelConfig = override(config if size is None else size(config), values)
    return changed_config
