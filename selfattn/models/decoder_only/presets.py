"""The named decoder-only models at the size used for dates. Imports no torch."""

from __future__ import annotations

from typing import Any

from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.presets import Preset
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register


def _two_blocks(**settings: Any) -> DecoderOnlyConfig:
    stack = TransformerConfig(dim=96, num_heads=4, num_layers=2, ffn_dim=260)
    return DecoderOnlyConfig(stack=stack, **settings)


register.preset("decoder-only")(
    Preset(
        "masked self-attention over source and target as one sequence",
        "Radford et al. 2018; Liu et al. 2018",
        _two_blocks,
    )
)
register.preset("decoder-only-prefix")(
    Preset(
        "the same, the source read in both directions",
        "Raffel et al. 2020",
        lambda: _two_blocks(bidirectional_prefix=True),
    )
)
