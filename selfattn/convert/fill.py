"""How a module of one library gets its weights and parts from a module of the other."""

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
    module.load_state_dict({name: tensor.detach().clone() for name, tensor in weights.items()}, assign=True)
    return module


def copy_parts(source: nn.Module, target: nn.Module, names: Mapping[str, str], where: str) -> None:
    """Put copies of a module's parts in the places of another's, which are of the same classes.

    Args:
        source: whose parts are copied, with all that they are: an epsilon, no bias.
        target: what gets them.
        names: paths of parts in the source, and of their places in the target.
        where: what to call the place in an error message.

    Raises:
        TypeError: a part of the source is of another class than what stands in its place.

    Example:
        >>> ours, theirs = nn.ModuleDict({"first": nn.LayerNorm(2)}), nn.ModuleDict({"norm1": nn.LayerNorm(2, eps=0.5)})
        >>> copy_parts(theirs, ours, {"norm1": "first"}, "demo")
        >>> ours["first"].eps
        0.5
    """
    for part, place in names.items():
        kind = type(target.get_submodule(place))
        target.set_submodule(place, copy.deepcopy(expect_type(source.get_submodule(part), kind, f"{where}: {part}")))


def copied_norm(norm: nn.Module | None, where: str) -> nn.LayerNorm | None:
    """Copy a layer norm, its epsilon with it, where there is one.

    Raises:
        TypeError: it is something else.

    Example:
        >>> copied_norm(nn.LayerNorm(2, eps=0.5), "encoder.norm").eps
        0.5
    """
    return None if norm is None else copy.deepcopy(expect_type(norm, nn.LayerNorm, where))


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
