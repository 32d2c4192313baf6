"""One attention core for RNN seq2seq and Transformers: build, train, look inside and compare attention models.

The names here are the public interface; everything else is in the subpackages.

>>> import torch
>>> from selfattn import attend
>>> query, key, value = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 11, 13)
>>> attend(query, key, value).output.shape
torch.Size([2, 3, 5, 13])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfattn.attention import Attended, KeyValue, MultiHeadAttention, attend, masks, positions, scores
    from selfattn.comparison.compare import compare
    from selfattn.decoding.options import DecodingOptions
    from selfattn.errors import UserError
    from selfattn.integrations.explorer import explore
    from selfattn.integrations.transformers import watch
    from selfattn.models.build import build
    from selfattn.registry import load_plugin, register
    from selfattn.runs.run import Run, load
    from selfattn.runs.train import train

__version__ = "0.1.0"

# Where the public names live; loaded when first asked for, so that `selfattn --help` does not wait for torch.
_HOMES = {
    "selfattn.attention": ("Attended", "KeyValue", "MultiHeadAttention", "attend", "masks", "positions", "scores"),
    "selfattn.comparison.compare": ("compare",),
    "selfattn.decoding.options": ("DecodingOptions",),
    "selfattn.errors": ("UserError",),
    "selfattn.integrations.explorer": ("explore",),
    "selfattn.integrations.transformers": ("watch",),
    "selfattn.models.build": ("build",),
    "selfattn.registry": ("load_plugin", "register"),
    "selfattn.runs.run": ("Run", "load"),
    "selfattn.runs.train": ("train",),
}

__all__ = [  # classes first
    "Attended",
    "DecodingOptions",
    "KeyValue",
    "MultiHeadAttention",
    "Run",
    "UserError",
    "attend",
    "build",
    "compare",
    "explore",
    "load",
    "load_plugin",
    "masks",
    "positions",
    "register",
    "scores",
    "train",
    "watch",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            module = importlib.import_module(home)
            return getattr(module, name) if hasattr(module, name) else importlib.import_module(f"{home}.{name}")
    raise AttributeError(f"module 'selfattn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
