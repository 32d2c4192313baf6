"""The models: one protocol, and a room for each family behind it. The names here are loaded when asked for.

>>> from selfattn.models import get_preset
>>> get_preset("transformer").config.encoder.dim
96
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfattn.models.config import Limits as Limits
    from selfattn.models.config import ModelConfig as ModelConfig
    from selfattn.models.config import Width as Width
    from selfattn.models.config import config_from_dict as config_from_dict
    from selfattn.models.config import config_to_dict as config_to_dict
    from selfattn.models.config import override as override
    from selfattn.models.presets import Preset as Preset
    from selfattn.models.presets import get_preset as get_preset
    from selfattn.models.protocol import AttentionMaps as AttentionMaps
    from selfattn.models.protocol import Decoded as Decoded
    from selfattn.models.protocol import DecoderState as DecoderState
    from selfattn.models.protocol import Memory as Memory
    from selfattn.models.protocol import Seq2Seq as Seq2Seq
    from selfattn.models.sizing import match as match

_HOME = {
    "config": ("Limits", "ModelConfig", "Width", "config_from_dict", "config_to_dict", "override"),
    "presets": ("Preset", "get_preset"),
    "protocol": ("AttentionMaps", "Decoded", "DecoderState", "Memory", "Seq2Seq"),
    "sizing": ("match",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
