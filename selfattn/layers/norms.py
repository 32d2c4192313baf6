"""Which normalisation a block uses."""

from __future__ import annotations

from typing import Literal

from torch import nn

Norm = Literal["layer", "rms"]


def make_norm(kind: Norm, dim: int) -> nn.Module:
    """Build a normalisation over the last axis.

    Args:
        kind: ``"layer"`` (Ba et al. 2016) or ``"rms"`` (Zhang and Sennrich 2019).
        dim: width of that axis.

    Raises:
        ValueError: the kind is unknown.

    Example:
        >>> make_norm("rms", 8)
        RMSNorm((8,), eps=1e-06, elementwise_affine=True)
    """
    if kind == "layer":
        return nn.LayerNorm(dim)
    if kind == "rms":
        return nn.RMSNorm(dim, eps=1e-6)
    raise ValueError(f"unknown norm {kind!r}; known: layer, rms")
