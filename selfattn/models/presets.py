"""What a named model says of itself. Imports no torch; the models themselves come in through ``@register.preset``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from selfattn.models.config import ModelConfig
from selfattn.registry import PRESETS, Registry

__all__ = ["PRESETS", "Preset", "get_preset"]


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
