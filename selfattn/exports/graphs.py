"""The two graphs of a model as modules that torch.onnx can read: the start and one step, with states as tensors."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.models.protocol import DecoderState, Seq2Seq


class Graph(nn.Module):
    """One of the two graphs of a model, as torch.export reads it.

    Args:
        model: from :func:`exportable`.
        first: example of a complete state before the first step.
        compute: :func:`start` or :func:`step`.
    """

    def __init__(self, model: Seq2Seq, first: DecoderState, compute: Callable[..., dict[str, Tensor]]) -> None:
        super().__init__()
        self.model, self.first, self.compute = model, first, compute

    def forward(self, ids: Tensor, other: Any) -> dict[str, Tensor]:
        """Return the tensors of the graph, and the attention weights ``[b h i j]`` of every layer."""
        with watched(self.model) as weights:
            return self.compute(self.model, self.first, ids, other) | weights


def start(model: Seq2Seq, first: DecoderState, source: Tensor, source_mask: Tensor) -> dict[str, Tensor]:
    """Map ids ``[b s]`` and mask ``[b s]`` to the tensors of the state before the first step."""
    state = completed(model.start(model.encode(source, source_mask)), first, source.shape[0])
    # Cloned: an output that is also an input, or another output, would share its name.
    return {name: tensor.clone() for name, tensor in tensors_of(state)}


def step(model: Seq2Seq, first: DecoderState, token: Tensor, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Map tokens ``[b]`` and a state to ``logits [b v]`` and the changes of the state."""
    logits, new = model.step(token, with_tensors(first, iter(state.values())))
    return {"logits": logits} | {
        f"next.{name}": tensor for name, tensor in tensors_of(new) if tensor is not state[name]
    }


@contextmanager
def watched(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the weights of every attention inside a ``with`` block, by the names of the layers."""
    weights: dict[str, Tensor] = {}
    handles = []

    def request(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, named | {"need_weights": True}

    for name, layer in model.named_modules():
        if isinstance(layer, MultiHeadAttention):

            def keep(module: nn.Module, args: Any, attended: Any, name: str = name) -> None:
                weights[f"weights.{name}"] = attended.weights

            handles += [layer.register_forward_pre_hook(request, with_kwargs=True), layer.register_forward_hook(keep)]
    try:
        yield weights
    finally:
        for handle in handles:
            handle.remove()


class Recurrent(nn.Module):
    """An LSTM or GRU of one layer and direction as the ONNX operator of that name, for any number of steps.

    torch.export would unroll the steps of its example. Only for a graph that is exported.

    Args:
        rnn: has the weights.
    """

    w: Tensor
    r: Tensor
    b: Tensor

    def __init__(self, rnn: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        self.takes_lengths = isinstance(rnn, nn.LSTM)  # its cells are only in its final state
        self.hidden_dim = rnn.hidden_size
        # ONNX's order of the gates; torch's is input, forget, cell, output and reset, update, new.
        order = (0, 3, 1, 2) if self.takes_lengths else (1, 0, 2)

        def in_order(weight: Tensor) -> Tensor:
            parts = weight.detach().chunk(len(order))
            return torch.cat([parts[place] for place in order])

        weights: dict[str, Any] = dict(rnn.named_parameters())
        self.register_buffer("w", in_order(weights["weight_ih_l0"])[None])
        self.register_buffer("r", in_order(weights["weight_hh_l0"])[None])
        self.register_buffer("b", torch.cat([in_order(weights["bias_ih_l0"]), in_order(weights["bias_hh_l0"])])[None])

    def forward(self, x: Tensor, start: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """Read ``[b t d]``; return outputs ``[b t hidden]`` and the final state ``[1 b hidden]``, as in torch."""
        starts = [None] if start is None else list(start) if isinstance(start, tuple) else [start]
        sizes = x.shape[1], 1, x.shape[0], self.hidden_dim
        number = None if lengths is None else lengths.to(torch.int32)
        kind, count = ("LSTM", 3) if self.takes_lengths else ("GRU", 2)
        attributes: dict[str, Any] = {"hidden_size": self.hidden_dim}
        outputs, *last = torch.onnx.ops.symbolic_multi_out(
            kind,
            (x.transpose(0, 1), self.w, self.r, self.b, number, *starts),
            attributes if kind == "LSTM" else attributes | {"linear_before_reset": 1},
            dtypes=[x.dtype] * count,
            shapes=[sizes, *[sizes[1:]] * (count - 1)],
        )
        return outputs[:, 0].transpose(0, 1), tuple(last) if len(last) > 1 else last[0]


def exportable(model: Seq2Seq) -> Seq2Seq:
    """Return a copy of a model, on the CPU and in evaluation mode, that torch.onnx can read."""
    model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    for module in list(model.modules()):
        for name, part in module.named_children():
            if isinstance(part, (nn.LSTM, nn.GRU)):
                setattr(module, name, Recurrent(part))
    return model


def tensors_of(tree: Any, name: str = "state") -> Iterator[tuple[str, Tensor]]:
    """Iterate over the tensors of a state, with names of their places.

    Args:
        tree: a state of any family: nested dataclasses and tuples of tensors.
        name: prefix of the names.

    Example:
        >>> import torch
        >>> from selfattn.attention import KeyValue
        >>> cache = KeyValue(torch.zeros(1, 2, 0, 4), torch.zeros(1, 2, 0, 4))
        >>> [name for name, _ in tensors_of((cache, torch.zeros(1)))]
        ['state.0.key', 'state.0.value', 'state.1']
    """
    if isinstance(tree, Tensor):
        yield name, tree
    elif isinstance(tree, tuple):
        for place, part in enumerate(tree):
            yield from tensors_of(part, f"{name}.{place}")
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            yield from tensors_of(getattr(tree, field.name), f"{name}.{field.name}")


def with_tensors(tree: Any, tensors: Iterator[Tensor]) -> Any:
    """Return the state with other tensors, in the order of :func:`tensors_of`."""
    if isinstance(tree, Tensor):
        return next(tensors)
    if isinstance(tree, tuple):
        return tuple(with_tensors(part, tensors) for part in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = {field.name: with_tensors(getattr(tree, field.name), tensors) for field in dataclasses.fields(tree)}
        return type(tree)(**parts)
    return tree


def completed(state: Any, first: Any, rows: Any) -> Any:
    """Fill the gaps of a state before the first step: a cache without keys, zeros for other tensors.

    Args:
        state: before the first step.
        first: example of a complete state, from :func:`first_of`.
        rows: of the state.
    """
    if state is None and isinstance(first, Tensor):
        return first if first.shape == (0,) else first.new_zeros(rows, *first.shape[1:])  # positions have no rows
    if isinstance(first, tuple):
        return tuple(completed(*pair, rows) for pair in zip_longest(state or (), first))
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in dataclasses.fields(first)]
        parts = {name: completed(getattr(state, name, None), getattr(first, name), rows) for name in names}
        return type(first)(**parts)
    return first if state is None else state


def first_of(once: Any, twice: Any) -> Any:
    """Return an example of a complete state before the first step, from the states after one step and after two.

    Axes that grow with each step are extrapolated back.

    Example:
        >>> import torch
        >>> first_of((torch.ones(3, 1), torch.ones(3)), (torch.ones(3, 2), torch.ones(3)))[0].shape
        torch.Size([3, 0])
    """
    pairs = zip(tensors_of(once), tensors_of(twice), strict=True)
    shapes = ((x, [2 * a - b for a, b in zip(x.shape, y.shape, strict=True)]) for (_, x), (_, y) in pairs)
    return with_tensors(once, (tensor.new_zeros(shape) for tensor, shape in shapes))
