"""Dropout that draws its mask in bulk: on a CPU, drawing one number for each element is a fifth of a training step."""

from typing import Any

import torch
from torch import Tensor, nn

from selfattn.attention.core import is_transformed

_LEVELS = 2**16  # of a 16-bit number


class Dropout(nn.Dropout):
    """Set each element to 0 with probability ``p`` while training, and scale the others by 1 / (1 - p).

    Srivastava et al. 2014, "Dropout". On a CPU four elements share one drawn 64-bit number: ``p`` is taken as the next
    multiple of 2^-16, and the scale is that of the probability used. Elsewhere, for ``p`` 0 or 1, under ``torch.func``
    and in forward-mode differentiation it is ``torch.nn.Dropout``. The mask comes from PyTorch's global generator.

    Args:
        p: probability, from 0 to 1; default 0.5.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> dropped = Dropout(0.25)(torch.ones(1000))
        >>> sorted({round(value, 3) for value in dropped.tolist()}), 0.7 < (dropped > 0).float().mean().item() < 0.8
        ([0.0, 1.333], True)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to a tensor of any shape."""
        if not self.training:
            return x
        cut = round(self.p * _LEVELS)
        if x.device.type != "cpu" or not 0 < cut < _LEVELS or not x.is_floating_point() or is_transformed():
            return super().forward(x)
        dropped: Tensor = _Drop.apply(x, cut)  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        return dropped


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cut: int) -> Tensor:
        bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), 2**63 - 1).view(torch.int16)
        keep = (bits[: x.numel()] >= cut - _LEVELS // 2).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = _LEVELS / (_LEVELS - cut)
        scaled: Tensor = x * keep * ctx.scale
        return scaled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return gradients[0] * keep * ctx.scale, None
