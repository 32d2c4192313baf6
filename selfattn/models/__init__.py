"""The models: one protocol, and a room for each family behind it. The names here are loaded when asked for.

>>> from selfattn.models import get_preset
>>> get_preset("transformer").config.encoder.dim
96
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfattn.models.config import Limits, ModelConfig, Width, config_from_dict, config_to_dict, override
    from selfattn.models.presets import Preset, get_preset
    from selfattn.models.protocol import AttentionMaps, Decoded, DecoderState, Memory, Seq2Seq
    from selfattn.models.sizing import match

_HOME = {
    "config": ("Limits", "ModelConfig", "Width", "config_from_dict", "config_to_dict", "override"),
    "presets": ("Preset", "get_preset"),
    "protocol": ("AttentionMaps", "Decoded", "DecoderState", "Memory", "Seq2Seq"),
    "sizing": ("match",),
}

__all__ = [
    "AttentionMaps",
    "Decoded",
    "DecoderState",
    "Limits",
    "Memory",
    "ModelConfig",
    "Preset",
    "Seq2Seq",
    "Width",
    "config_from_dict",
    "config_to_dict",
    "get_preset",
    "match",
    "override",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
