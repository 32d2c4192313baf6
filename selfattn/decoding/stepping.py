"""A model for many steps: in evaluation mode, the projections of its self-attention joined into one product."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.layers import TransformerBlock

M = TypeVar("M", bound=nn.Module)


class _JoinedProjections:
    """The query, key and value projections of a layer as one product, of which each hands out its part.

    Args:
        parts: linear layers of one input.
    """

    def __init__(self, parts: list[nn.Linear]) -> None:
        biases = [part.bias for part in parts if part.bias is not None]
        self.weight = torch.cat([part.weight.detach() for part in parts])
        self.bias = torch.cat([bias.detach() for bias in biases]) if biases else None
        self.widths = [part.out_features for part in parts]
        self.input: Tensor | None = None
        self.outputs: tuple[Tensor, ...] = ()

    def output(self, x: Tensor, number: int) -> Tensor:
        """Return the part of this number for ``x``; the product is computed when an input comes for the first time."""
        if x is not self.input:
            self.input, self.outputs = x, torch.split(F.linear(x, self.weight, self.bias), self.widths, dim=-1)
        return self.outputs[number]


class _Part(nn.Module):
    def __init__(self, joined: _JoinedProjections, number: int, linear: nn.Linear) -> None:
        super().__init__()
        self.joined, self.number = joined, number
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x: Tensor) -> Tensor:
        return self.joined.output(x, self.number)


def _join(module: M) -> M:
    """Return a copy of a module with joined projections, all else shared; the module itself where nothing is joined."""
    parts = {name: None if part is None else _join(part) for name, part in module._modules.items()}
    if isinstance(module, TransformerBlock):
        attention = module.self_attn
        names = ("q_proj", "k_proj", "v_proj") if attention.project else ()
        plain = [part for name in names if type(part := getattr(attention, name)) is nn.Linear]
        if len(plain) == 3 and len({(part.in_features, part.weight.dtype, part.bias is None) for part in plain}) == 1:
            joined = _JoinedProjections(plain)
            copied = copy.copy(attention)
            pairs = enumerate(zip(names, plain, strict=True))
            copied._modules = attention._modules | {name: _Part(joined, k, part) for k, (name, part) in pairs}
            parts["self_attn"] = copied
    if all(part is module._modules[name] for name, part in parts.items()):
        return module
    changed = copy.copy(module)
    changed._modules = parts
    return changed


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put every part of a model into evaluation mode, and afterwards back into the mode that it was in.

    Example:
        >>> model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5).eval())
        >>> with evaluating(model):
        ...     [part.training for part in model]
        [False, False]
        >>> [part.training for part in model]
        [True, False]
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def stepping(model: M) -> Iterator[M]:
    """Yield a model that computes the same in fewer products, for many steps with the weights of now.

    Example:
        >>> from selfattn.models.build import build
        >>> model = build("transformer", vocab_size=11)
        >>> with stepping(model) as stepper:
        ...     type(stepper.decoder.layers[0].self_attn.q_proj).__name__
        '_Part'
        >>> type(model.decoder.layers[0].self_attn.q_proj).__name__
        'Linear'
    """
    with evaluating(model):
        yield _join(model)
