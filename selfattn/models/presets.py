"""The named models, read from ``presets.toml``; a plugin registers its own with ``register.preset``.

The project's own families come in here, too: each registers itself when it is imported. Imports no torch.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import selfattn.models.decoder_only.config
import selfattn.models.encoder_decoder.config  # noqa: F401  # registers its families, as the one above
from selfattn.models.config import ModelConfig, config_from_dict
from selfattn.registry import PRESETS, Registry, register

__all__ = ["PRESETS", "USUAL", "Preset", "get_preset"]

USUAL = ("rnn-attention", "transformer")
"""The models that are compared where none are named; the last is trained where none is."""


@dataclass(frozen=True)
class Preset:
    """A named model.

    Attributes:
        summary: what it is, in one line.
        source: whose it is.
        make: makes its settings when they are first asked for; those of the project have about 182,000 parameters
            outside the embeddings each, so that comparisons begin at equal size.
        attention: whether the target looks at the source through attention.

    Example:
        >>> from selfattn.models.decoder_only.config import DecoderOnlyConfig
        >>> from selfattn.models.transformer_config import TransformerConfig
        >>> Preset("tiny", "me", lambda: DecoderOnlyConfig(stack=TransformerConfig(dim=8))).config.stack.dim
        8
    """

    summary: str
    source: str
    make: Callable[[], ModelConfig]
    attention: bool = True

    @cached_property
    def config(self) -> ModelConfig:
        """Its settings."""
        return self.make()


def get_preset(name: str) -> Preset:
    """Look a preset up.

    Args:
        name: one of :data:`selfattn.registry.PRESETS`.

    Raises:
        UserError: there is none of that name; the message offers the nearest.

    Example:
        >>> get_preset("transformer").attention
        True
    """
    presets: Registry[Preset] = PRESETS
    return presets[name]


PRESETS.expect(
    None, lambda part: None if isinstance(part, Preset) else f"expected a Preset, got {type(part).__name__}; make one"
)

_TABLE = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
for _name, _config in _TABLE.items():
    _about = {key: _config.pop(key) for key in ("summary", "source", "attention") if key in _config}
    register.preset(_name)(Preset(**_about, make=partial(config_from_dict, _config, where=f"model {_name}")))
