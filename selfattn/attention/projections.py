"""What the projections of attention give, and projections that lie together in memory so that one product makes all.

Axis letters are those of :mod:`selfattn.attention.core`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.dlpack import from_dlpack


@dataclass(frozen=True)
class Query:
    """Projected queries, made by :meth:`~selfattn.attention.layer.MultiHeadAttention.project`.

    Attributes:
        heads: ``[b h i e]``.
    """

    heads: Tensor


@dataclass(frozen=True)
class KeyValue:
    """Projected keys and values.

    :meth:`~selfattn.attention.layer.MultiHeadAttention.project_context` makes them, and the caller hands them over.

    Attributes:
        key: ``[b h j e]``.
        value: ``[b h j c]``.
        positions: ``[j]`` or ``[b j]``, where in its text each key stands; None where no position is used.
        shared_by: how many consecutive rows of queries attend to each row, such as the hypotheses of a source in a
            beam search; default 1.
    """

    key: Tensor
    value: Tensor
    positions: Tensor | None = None
    shared_by: int = 1

    def reorder(self, index: Tensor) -> KeyValue:
        """Pick rows along the batch axis, int64 ``[new b]``."""
        key = self.key.index_select(0, index)
        value = self.value.index_select(0, index)
        return KeyValue(key, value, self.picked_positions(index), self.shared_by)

    def picked_positions(self, index: Tensor) -> Tensor | None:
        """Return the positions of some rows; ``[j]`` are those of every row."""
        rows = self.positions
        return rows if rows is None or rows.dim() == 1 else rows.index_select(0, index)


def check_states(states: object, what: str, width: int) -> None:
    """Make sure that something is a tensor ``[b n width]``.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(states, Tensor) or states.dim() != 3 or states.shape[-1] != width:
        got = tuple(states.shape) if isinstance(states, Tensor) else type(states).__name__
        raise ValueError(f"MultiHeadAttention: expected {what} with {width} features, got {got}")


def checked_sizes(x: Tensor | Query, context: Tensor | KeyValue | None, width: int) -> tuple[int, int, int]:
    """Return the sizes ``b i j``, and check that each row of queries has its row of keys: nothing is broadcast."""
    if isinstance(x, Query):
        b, _, i, _ = x.heads.shape
        if not isinstance(context, KeyValue):
            raise ValueError("MultiHeadAttention: projected queries need the keys that project_self returned with them")
    else:
        check_states(x, "x [b i d]", width)
        b, i, _ = x.shape
    shared_by = 1
    if isinstance(context, KeyValue):
        rows = context.key.shape[0]
        j = context.key.shape[2]
        shared_by = context.shared_by
    elif isinstance(context, Tensor) and context.dim() == 3:
        rows, j, _ = context.shape
    else:
        return b, i, i  # self-attention; project_context refuses a context of a wrong type or shape
    if b != rows * shared_by:
        sharing = f" shared by {shared_by} each" if shared_by > 1 else ""
        raise ValueError(f"MultiHeadAttention: x has {b} rows, context {rows}{sharing}; give each row its own")
    return b, i, j


class JoinedLinears:
    """Linear layers of one input whose weights lie one below the other in memory.

    The layers stay what they are: each weight and bias is a tensor of its own, whose memory is its part of the joined
    matrix or vector. So they can be trained, saved, replaced by adapters and called one by one, and one product
    computes them all.

    Args:
        owner: has the layers, plain linear ones, all with biases or all without; their weights are moved together.
        names: of the layers.

    Example:
        >>> owner = nn.ModuleDict({"first": nn.Linear(3, 2), "second": nn.Linear(3, 5)})
        >>> joined, x = JoinedLinears(owner, ("first", "second")), torch.randn(7, 3)
        >>> [torch.allclose(output, part(x)) for output, part in zip(joined(x), owner.values(), strict=True)]
        [True, True]
        >>> owner["second"] = nn.Linear(3, 5)
        >>> joined.holds(owner)
        False
    """

    def __init__(self, owner: nn.Module, names: Sequence[str]) -> None:
        parts = [cast(nn.Linear, owner.get_submodule(name)) for name in names]
        self.widths = [part.out_features for part in parts]
        self.weight = _joined([part._parameters["weight"] for part in parts])
        self.bias = None if parts[0].bias is None else _joined([part._parameters["bias"] for part in parts])
        self._places: list[tuple[str, int, int | None]] = []  # in memory, of each weight and bias
        for name, part in zip(names, parts, strict=True):
            bias_place = None if self.bias is None else part.bias.data_ptr()
            self._places.append((name, part.weight.data_ptr(), bias_place))

    @classmethod
    def fits(cls, owner: nn.Module, names: Sequence[str]) -> bool:
        """Say whether these are plain linear layers of one input width, dtype and device, in memory of their own."""
        kinds: set[tuple[object, ...]] = set()
        for name in names:
            part = owner._modules[name]
            weight = None if part is None else part._parameters.get("weight")
            if type(part) is not nn.Linear or weight is None or type(weight.data) is not Tensor:
                return False
            if weight.device.type not in ("cpu", "cuda") or (weight.is_cpu and weight.untyped_storage().is_shared()):
                return False  # no memory, or one that other processes share
            kinds.add((part.in_features, weight.dtype, weight.device, part.bias is None))
        return len(kinds) == 1

    def holds(self, owner: nn.Module) -> bool:
        """Say whether the owner still has the layers whose weights lie here, and nothing else acts on them."""
        if torch.nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]  # no types
            return False
        for name, weight_place, bias_place in self._places:
            part = owner._modules[name]
            if type(part) is not nn.Linear or part._forward_hooks or part._forward_pre_hooks:
                return False
            weight = part._parameters.get("weight")
            bias = part._parameters.get("bias")
            if weight is None or weight.data_ptr() != weight_place or weight.stride(1) != 1:
                return False
            if (None if bias is None else bias.data_ptr()) != bias_place or "forward" in part.__dict__:
                return False
        return True

    def __call__(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of all layers for ``x [.. d]``."""
        return torch.split(F.linear(x, self.weight, self.bias), self.widths, dim=-1)


def _joined(parameters: Sequence[Tensor | None]) -> Tensor:
    """Move tensors together along the first axis.

    Each of them gets a storage of its own over its part of the memory: as views of one storage they would be saved
    whole, or refused, by torch.save and safetensors.
    """
    tensors = [parameter for parameter in parameters if parameter is not None]
    with torch.no_grad():
        joined = torch.cat(tensors)
    for tensor, rows in zip(tensors, torch.split(joined, [len(tensor) for tensor in tensors]), strict=True):
        tensor.data = from_dlpack(rows)
    return joined
