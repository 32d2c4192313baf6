"""Weights as named tensors, each once: copied, put back, averaged."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]


def named_weights(model: nn.Module) -> Weights:
    """Return what a model's state consists of: parameters and kept buffers, a shared tensor under its first name only.

    The tensors are the model's own.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3))
        >>> model[1].bias = model[0].bias
        >>> list(named_weights(model))
        ['0.weight', '0.bias', '1.weight']
    """
    found: Weights = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def copy_of(weights: Mapping[str, Tensor]) -> Weights:
    """Return a copy that later steps do not change."""
    return {name: tensor.clone() for name, tensor in weights.items()}


@torch.no_grad()
def copy_into(own: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Copy weights into others of the same names and shapes, in place, whatever device each side is on.

    Raises:
        ValueError: a name or a shape is another.
    """
    if {name: tensor.shape for name, tensor in own.items()} != {name: one.shape for name, one in weights.items()}:
        raise ValueError("these are the weights of another model")
    for name, tensor in own.items():
        tensor.copy_(weights[name])


def put_into(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model, in place.

    Args:
        model: of the same shape.
        weights: by the names that :func:`named_weights` gives.

    Raises:
        ValueError: a name or a shape is another.
    """
    copy_into(named_weights(model), weights)
