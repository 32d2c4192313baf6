"""The attention core beside the raw kernel and the usual forms; dropout; memory against length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.measure import Bench, Row, peak
from selfattn.attention import Additive, attend
from selfattn.layers.transformer import Dropout

SHAPES = ((128, 4, 16, 32), (64, 4, 64, 32), (16, 8, 256, 64), (2, 8, 1024, 64))


def raw(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value)


def core(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(query, key, value).output


def weighing(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    output, weights = attend(query, key, value, need_weights=True)
    assert weights is not None
    return output


def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The formula as it is usually written, which has the weights at hand."""
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    return scores.float().softmax(dim=-1).to(value.dtype) @ value


def usual_additive(score: Additive, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Bahdanau's score with every ``tanh`` at once, as it is usually written."""
    asked, keys = score.query_proj(query)[..., None, :], score.key_proj(key)[..., None, :, :]
    return score.v(torch.tanh(asked + keys))[..., 0].softmax(dim=-1) @ value


def additive(score: Additive, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(query, key, value, score=score).output


def both_ways(form: Callable[..., Tensor], inputs: list[Tensor]) -> Callable[[], object]:
    """Forward and backward."""
    return lambda: torch.autograd.grad(form(*inputs).sum(), inputs)


def drawn(shape: tuple[int, ...], device: str = "cpu", dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(shape, device=device).to(dtype).requires_grad_() for _ in range(3)]


def additive_pass(ours: bool, rows: int, length: int, width: int = 128) -> None:
    """One pass of additive attention, for its memory."""
    inputs, score = drawn((rows, 1, length, width)), Additive(width, width, width)
    both_ways(partial(additive if ours else usual_additive, score), inputs)()


def weights_pass(ours: bool) -> None:
    both_ways(weighing if ours else plain, drawn((8, 8, 512, 32)))()


def fused_pass(length: int) -> None:
    """One pass of the fused path over a long text, for its memory."""
    both_ways(core, drawn((1, 2, length, 32)))()


def rows(bench: Bench) -> Iterator[Row]:
    for shape in SHAPES:
        inputs = drawn(shape, bench.device)
        ways = {"attend": both_ways(core, inputs), "the kernel alone": both_ways(raw, inputs)}
        yield bench.row(f"attention of {' x '.join(map(str, shape))} (b h i e), both directions", ways, goal=0.97)
    inputs = drawn((64, 4, 64, 32), bench.device)
    ways = {"attend": both_ways(weighing, inputs), "the usual form": both_ways(plain, inputs)}
    yield bench.row("attention with its weights, 64 x 4 x 64 x 32", ways, goal=1.0)
    inputs = drawn((64, 4, 16, 32), bench.device, torch.bfloat16)
    ways = {"attend": both_ways(core, inputs), "the kernel alone": both_ways(raw, inputs)}
    yield bench.row("attention in bfloat16, 64 x 4 x 16 x 32", ways, goal=1.0)
    inputs, score = drawn((16, 1, 48, 128), bench.device), Additive(128, 128, 128).to(bench.device)
    usual = both_ways(partial(usual_additive, score), inputs)
    ways = {"attend": both_ways(partial(additive, score), inputs), "the usual form": usual}
    yield bench.row("additive attention, 16 x 1 x 48 x 128", ways, goal=1.0)
    inputs = [torch.randn(2048, 256, device=bench.device, requires_grad=True)]
    ways = {"Dropout": both_ways(Dropout(0.3), inputs), "nn.Dropout": both_ways(nn.Dropout(0.3), inputs)}
    yield bench.row("dropout of 2,048 x 256, both directions", ways, goal=1.0)
    if bench.device != "cpu":
        return
    peaks = {
        name: [peak("attention", f"additive_pass({name == 'attend'}, 4, 512)")] for name in ("attend", "the usual form")
    }
    yield Row("peak memory of additive attention, 4 x 512 x 512", peaks, unit="MB", goal=10.0)
    peaks = {name: [peak("attention", f"weights_pass({name == 'attend'})")] for name in ("attend", "the usual form")}
    yield Row("peak memory of attention with its weights, 8 x 8 x 512 x 512", peaks, unit="MB", goal=0.95)
    long, short = (math.ceil(peak("attention", f"fused_pass({n})") * 1e6 / n) for n in (16384, 4096))
    per_token = {"16,384 tokens": [float(long)], "4,096 tokens": [float(short)]}
    yield Row("memory of fused attention for each token of a text", per_token, unit="B", goal=0.8)
