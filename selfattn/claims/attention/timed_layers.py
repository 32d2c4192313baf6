"""An LSTM layer and a self-attention layer: the time of a training step, and operations that wait for one another."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from selfattn.attention import MultiHeadAttention
from selfattn.layers import RecurrentStack

WAYS = ("rnn", "rnn-unfused", "attention", "attention-unfused")

Layer = Callable[[Tensor], Tensor]


def layers(width: int, seed: int) -> dict[str, Layer]:
    """Make an LSTM layer and a self-attention layer; each in one kernel, and in pieces."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rnn, attention = RecurrentStack(width, width), MultiHeadAttention(width, num_heads=4)

    def one_by_one(x: Tensor) -> Tensor:
        state, outputs = None, []
        for symbol in torch.split(x, 1, dim=1):
            output, state = rnn(symbol, state)
            outputs.append(output)
        return torch.cat(outputs, dim=1)

    made: tuple[Layer, ...] = (
        lambda x: rnn(x)[0],
        one_by_one,
        lambda x: attention(x).output,
        lambda x: attention(x, need_weights=True).output,  # scores, softmax and sum written out
    )
    return dict(zip(WAYS, made, strict=True))


def seconds(layer: Layer, x: Tensor) -> float:
    """Take the processor time of a training step: forward and backward."""
    started = time.process_time()
    layer(x).square().mean().backward()  # type: ignore[no-untyped-call]  # PyTorch has no types for it
    return max(time.process_time() - started, 1e-6)


def longest_chain(output: Tensor) -> int:
    """Count the operations of the longest chain in which each waits for the one before, in the gradient's graph.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> longest_chain((x + 1) * 2)  # the leaf, a sum, a product
        3
    """
    depth: dict[object, int] = {}
    stack = [(output.grad_fn, False)]
    while stack:
        node, is_done = stack.pop()
        before = [one for one, _ in getattr(node, "next_functions", ()) if one is not None]
        if is_done:
            depth[node] = 1 + max((depth[one] for one in before), default=0)
        elif node not in depth:
            stack += [(node, True), *((one, False) for one in before)]
    return depth[output.grad_fn]
