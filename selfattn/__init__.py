"""One attention core for RNN seq2seq and Transformers: build, train, look inside and compare attention models.

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
    from selfattn.attention import (
        Attended,
        KeyValue,
        MultiHeadAttention,
        attend,
    )
    from selfattn.decoding.options import DecodingOptions
    from selfattn.errors import UserError
    from selfattn.runs.run import Run, load

__version__ = "0.1.0"

# Where each public name lives; loaded when first asked for, so that `selfattn --help` does not wait for torch.
_HOME = {
    "Attended": "selfattn.attention",
    "DecodingOptions": "selfattn.decoding.options",
    "KeyValue": "selfattn.attention",
    "MultiHeadAttention": "selfattn.attention",
    "Run": "selfattn.runs.run",
    "UserError": "selfattn.errors",
    "attend": "selfattn.attention",
    "load": "selfattn.runs.run",
}

__all__ = ["Attended", "DecodingOptions", "KeyValue", "MultiHeadAttention", "Run", "UserError", "attend", "load"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'selfattn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
