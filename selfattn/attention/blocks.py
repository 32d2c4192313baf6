"""The inner sum of the additive scores, ``sum_a v_a tanh(query_ia + key_ja)``, within a bound on memory.

Written out, the tanh is a tensor ``[b h i j a]``: 8 GiB for 64 pairs of 512 tokens at width 128. It is never whole
here. Autograd would keep every block for the backward pass; so the derivative is written by hand, and each block is
computed again there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from einops import rearrange
from torch import Tensor
from torch.autograd.function import FunctionCtx

# Elements of a block that is one of many: small enough to stay in a processor's cache, where it is read several times.
CACHED_ELEMENTS = 2**20


def summed_tanh(query: Tensor, key: Tensor, v: Tensor, block_elements: int) -> Tensor:
    """Return ``sum_a v_a tanh(query_ia + key_ja)``.

    Args:
        query: ``[b h i a]``.
        key: ``[b h j a]``.
        v: ``[a]``.
        block_elements: how many elements of ``[b h i j a]`` may exist at once, forward and backward; where all of
            them may, autograd keeps them and saves the second computation. At least one query's ``[j a]`` exists.

    Returns:
        ``[b h i j]``.

    Raises:
        NotImplementedError: a second derivative is asked for of what was computed in blocks.

    Example:
        >>> query, key = torch.zeros(1, 1, 1, 2), torch.tensor([[[[0.0, 0.0], [9.0, -9.0]]]])
        >>> summed_tanh(query, key, torch.tensor([3.0, 1.0]), block_elements=2).round().tolist()
        [[[[0.0, 2.0]]]]
    """
    if query.numel() * key.shape[-2] <= block_elements:
        return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ v
    b = query.shape[0]
    query, key = (rearrange(x, "b h length a -> (b h) length a") for x in (query, key))
    scores: Tensor = _SummedTanh.apply(query, key, v, block_elements)  # type: ignore[no-untyped-call]  # PyTorch has no types for it
    return rearrange(scores, "(b h) i j -> b h i j", b=b)


class _SummedTanh(torch.autograd.Function):
    """The same for ``query [n i a]`` and ``key [n j a]``, block by block in both directions."""

    @staticmethod
    def forward(ctx: FunctionCtx, query: Tensor, key: Tensor, v: Tensor, block_elements: int) -> Tensor:
        ctx.save_for_backward(query, key, v)
        ctx.block_elements = block_elements  # type: ignore[attr-defined]  # PyTorch has no types for it
        scores = query.new_empty(*query.shape[:2], key.shape[1])
        for heads, rows, tanh in _blocks(query, key, block_elements):
            scores[heads, rows] = tanh @ v
        return scores

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        if torch.is_grad_enabled():  # create_graph=True: what follows would be taken for a constant, silently
            raise NotImplementedError(
                "additive and concat scores in blocks can be differentiated once; for second derivatives build the "
                "score with a larger block_elements"
            )
        query, key, v = ctx.saved_tensors  # type: ignore[attr-defined]  # PyTorch has no types for it
        wide = torch.promote_types(query.dtype, torch.float32)  # sums over many blocks
        query_grad, key_grad, v_grad = (torch.zeros_like(x, dtype=wide) for x in (query, key, v))
        one = query.new_ones(())
        for heads, rows, tanh in _blocks(query, key, ctx.block_elements):  # type: ignore[attr-defined]  # PyTorch has no types for it
            part = grad[heads, rows].unsqueeze(-1)
            v_grad += (part.flatten() @ tanh.flatten(0, -2)).to(wide)
            torch.addcmul(one, tanh, tanh, value=-1, out=tanh).mul_(part)  # d tanh(x) / dx = 1 - tanh(x)^2
            query_grad[heads, rows] = tanh.sum(dim=-2, dtype=wide)
            key_grad[heads] += tanh.sum(dim=-3, dtype=wide)
        return (query_grad * v).to(query.dtype), (key_grad * v).to(key.dtype), v_grad.to(v.dtype), None


def _blocks(query: Tensor, key: Tensor, block_elements: int) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield heads, rows and their ``tanh(query + key) [n i j a]``, each in the memory of the one before."""
    n, i, a = query.shape
    of_one_query = key.shape[1] * a
    size = max(of_one_query, min(block_elements, CACHED_ELEMENTS))
    at_once = min(i, size // of_one_query)
    heads_at_once = min(n, size // (at_once * of_one_query))
    scratch = query.new_empty(heads_at_once * at_once * of_one_query)
    for head in range(0, n, heads_at_once):
        for row in range(0, i, at_once):
            heads, rows = slice(head, head + heads_at_once), slice(row, row + at_once)
            left, right = query[heads, rows].unsqueeze(-2), key[heads].unsqueeze(-3)
            shape = (*left.shape[:2], *right.shape[-2:])
            block = scratch[: math.prod(shape)].view(shape)
            yield heads, rows, torch.add(left, right, out=block).tanh_()
