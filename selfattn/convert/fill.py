"""How a module of one library gets its weights from a module of the other."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def filled(make: Callable[[], M], weights: Mapping[str, Tensor]) -> M:
    """Make a module that has these weights from the start.

    No first values are drawn, so no random generator moves; dtype and device are those of the weights.

    Args:
        make: makes the module.
        weights: a tensor for each of its parameters, by name; copied.

    Example:
        >>> layer = filled(lambda: nn.Linear(2, 1, bias=False), {"weight": torch.tensor([[3.0, 5.0]]).double()})
        >>> layer(torch.tensor([1.0, 1.0]).double()).item()
        8.0
    """
    with torch.device("meta"):
        module = make()
    fill(module, weights)
    return module


def fill(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Replace all parameters of a module by copies of these tensors, which must be as many and of the same shapes.

    Example:
        >>> norm = nn.LayerNorm(2)
        >>> fill(norm, nn.LayerNorm(2).double().state_dict())
        >>> norm.weight.dtype
        torch.float64
    """
    module.load_state_dict({name: tensor.detach().clone() for name, tensor in weights.items()}, assign=True)


def copied_norm(norm: nn.Module | None, where: str) -> nn.LayerNorm:
    """Copy a layer norm, its epsilon with it.

    Args:
        norm: what should be a layer norm.
        where: what to call the place in an error message.

    Raises:
        TypeError: it is something else.

    Example:
        >>> copied_norm(nn.LayerNorm(2, eps=0.5), "norm1").eps
        0.5
    """
    return copy.deepcopy(expect_type(norm, nn.LayerNorm, where))


def expect_type(module: nn.Module | None, kind: type[M], where: str) -> M:
    """Return the module, if it is of exactly this class: a subclass may compute anything.

    Raises:
        TypeError: it is of another class.

    Example:
        >>> expect_type(nn.GELU(), nn.ReLU, "demo")
        Traceback (most recent call last):
        ...
        TypeError: demo: expected ReLU itself, got GELU
    """
    if type(module) is not kind:
        raise TypeError(f"{where}: expected {kind.__name__} itself, got {type(module).__name__}")
    return module
