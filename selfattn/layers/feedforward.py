"""The position-wise feed-forward block and its gated variant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.layers.dropout import Dropout

Activation = Literal["relu", "gelu", "silu", "swiglu"]

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """``fc2(activation(fc1(x)))`` at every position (Vaswani et al. 2017, section 3.3, equation 2).

    ``swiglu`` multiplies by a second, linear projection: ``fc2(silu(fc1(x)) * gate(x))`` (Shazeer 2020, equation 6).

    Args:
        dim: model width ``d``.
        ffn_dim: width inside.
        activation: ``"relu"`` (default), ``"gelu"``, ``"silu"`` (also called swish: ``x * sigmoid(x)``) or
            ``"swiglu"``.
        dropout: probability of dropping an inner unit while training; default 0.
        bias: whether the projections have biases; default True.

    Raises:
        ValueError: the activation is unknown.

    Example:
        >>> import torch
        >>> FeedForward(8, 32)(torch.randn(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self, dim: int, ffn_dim: int, *, activation: Activation = "relu", dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        if activation not in ("relu", "gelu", "silu", "swiglu"):
            raise ValueError(f"unknown activation {activation!r}; known: relu, gelu, silu, swiglu")
        self.activation = activation
        self.fc1 = nn.Linear(dim, ffn_dim, bias=bias)
        self.gate = nn.Linear(dim, ffn_dim, bias=bias) if activation == "swiglu" else None
        self.fc2 = nn.Linear(ffn_dim, dim, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[b i d]`` to ``[b i d]``."""
        inner = self.fc1(x)
        inner = F.silu(inner) * self.gate(x) if self.gate is not None else FUNCTIONS[self.activation](inner)
        mapped: Tensor = self.fc2(self.dropout(inner))
        return mapped
