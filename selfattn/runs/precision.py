"""Weights in fewer bits for decoding: bfloat16, or 8-bit integers in large linear layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from selfattn.decoding.options import WeightPrecision
from selfattn.errors import UserError
from selfattn.models.protocol import Seq2Seq

LARGE = 2**17
"""Fewest weights of a linear layer in 8 bits: in smaller ones rounding costs more time than it saves."""


class QuantizedLinear(nn.Module):
    """A linear layer that multiplies 8-bit integers.

    Each row of the weights and of the input has its own scale (Dettmers et al. 2022, "LLM.int8()", section 2.1), so
    no row depends on the others of its batch.

    Args:
        linear: its weights are rounded.

    Example:
        >>> exact = nn.Linear(64, 3).requires_grad_(False)
        >>> x = torch.randn(2, 5, 64)
        >>> bool((QuantizedLinear(exact)(x) - exact(x)).abs().max() < 0.05)
        True
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        integers, self.scale = _rounded(linear.weight.detach())
        self.integers, self.bias = integers.t(), linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[.. in_features]`` to ``[.. out_features]``."""
        integers, scale = _rounded(x.reshape(-1, self.in_features))
        product = torch._int_mm(integers, self.integers).float().mul_(self.scale[:, 0]).mul_(scale)
        if self.bias is not None:
            product += self.bias
        return product.view(*x.shape[:-1], self.out_features)


def _rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """Round each row ``[n d]`` to integers from -127 to 127, with the scale ``[n 1]`` that gives it back."""
    scale = x.abs().amax(dim=1, keepdim=True).clamp_(min=torch.finfo(x.dtype).tiny * 128).div_(127)
    return (x / scale).round_().to(torch.int8), scale


def reduce_precision(model: Seq2Seq, precision: WeightPrecision) -> None:
    """Round a model's weights, in place.

    Args:
        model: in evaluation mode; afterwards it can only decode and score.
        precision: ``bfloat16`` rounds all weights; ``int8`` those of linear layers with at least :data:`LARGE`;
            ``float32`` changes nothing.

    Raises:
        UserError: the device does not support the precision, or no layer is large enough.
    """
    if precision == "bfloat16":
        if not _has_bfloat16(model.device):
            raise UserError("precision: this processor does not compute in bfloat16; take float32")
        for weight in model.parameters():  # not the tables of positions, which need all digits
            weight.data = weight.data.to(torch.bfloat16)
    if precision == "int8":
        if model.device.type != "cpu":
            raise UserError("precision: int8 is for the CPU; take bfloat16 on a GPU")
        layers = [
            (parent, name) for parent in model.modules() for name, part in parent.named_children() if _is_large(part)
        ]
        if not layers:
            raise UserError(
                f"precision: no linear layer of this model has {LARGE:,} weights, and smaller ones are slower in int8; "
                "take float32"
            )
        for parent, name in layers:
            setattr(parent, name, QuantizedLinear(getattr(parent, name)))


def _is_large(module: nn.Module) -> bool:
    return type(module) is nn.Linear and module.weight.numel() >= LARGE


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    known = getattr(torch.cpu, "get_capabilities", None)
    return known is None or any(has for name, has in known().items() if "bf16" in name)
