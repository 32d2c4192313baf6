"""Claim: an RNN takes a step for each symbol, self-attention one for all; but its work grows with the square."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import Tensor

from selfattn.attention import MultiHeadAttention
from selfattn.claims.claim import Arm, Blocks, Claim, Contrasts, Setup, Trials
from selfattn.claims.rules import contrast, exact
from selfattn.evaluation.cost import peak_memory
from selfattn.layers import RecurrentStack
from selfattn.registry import register
from selfattn.report.drawing.scale import number_scale

WIDTH = 64
COUNTED, LENGTHS = (16, 32, 64), (16, 32, 64, 128, 256, 512, 1024)
SHORT, LONG = 16, 1024  # between these the two have to cross


@register.claim("parallelism")
class Parallelism(Claim):
    """Steps that wait for one another, times of a training step at a constant number of symbols, and memory."""

    source = "Vaswani et al. 2017, section 4, table 1"
    seconds = (10.0, 40.0)
    sizes = {"tokens": 2048, "turns": 3}
    shows = {"short": ("layers", f"speed-up@{SHORT}"), "long": ("layers", f"speed-up@{LONG}")}
    unit = "number"

    def arms(self) -> tuple[Arm, ...]:
        """One arm, in which all ways are timed by turns."""
        return (Arm("layers", self.size, alone=True),)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Count ``steps@N``, take ``ms@N`` by turns in processor time and ``bytes@N`` of one sequence, for each way."""
        ways, draws = layers(WIDTH, setup.seed), torch.Generator().manual_seed(setup.seed)
        figures: dict[str, float] = {}
        tokens, turns = setup["tokens"], setup["turns"]
        lengths = [n for n in LENGTHS if n <= tokens]
        for n in COUNTED:
            x = torch.randn(1, n, WIDTH, generator=draws)
            figures |= {f"{way}-steps@{n}": float(longest_chain(layer(x))) for way, layer in ways.items()}
        for n in lengths:  # the first turn warms up
            x = torch.randn(tokens // n, n, WIDTH, generator=draws)
            rounds = [[seconds(layer, x) for layer in ways.values()] for _ in range(1 + turns)][1:]
            times = [1000 * median(column) for column in zip(*rounds, strict=True)]
            figures |= {f"{way}-ms@{n}": taken for way, taken in zip(WAYS, times, strict=True)}
            figures[f"speed-up@{n}"] = figures[f"rnn-ms@{n}"] / figures[f"attention-ms@{n}"]
        for n in lengths[-2:]:
            single = torch.randn(1, n, WIDTH, generator=draws)
            for way in ("rnn", "attention", "attention-unfused"):
                figures[f"{way}-bytes@{n}"] = float(peak_memory(partial(seconds, ways[way], single)))
        return figures

    def contrasts(self, trials: Trials) -> Contrasts:
        """Steps are counted; attention is the faster of the two on short sequences, the RNN on long ones."""

        def lead(kind: str, n: int) -> list[float]:
            return doublings(trials, f"rnn{kind}-ms@{n}", f"attention{kind}-ms@{n}")

        def grown(figure: str) -> list[float]:
            return doublings(trials, f"{figure}@{LENGTHS[-1]}", f"{figure}@{LENGTHS[-2]}")

        ways = ("rnn-unfused", "attention-unfused")
        rnn, attention = ([trials.values("layers", f"{way}-steps@{n}")[0] for n in COUNTED] for way in ways)
        first, second = rnn[1] - rnn[0], rnn[2] - rnn[1]
        return (
            exact("rnn-steps", abs(second / first - 2) if first > 0 else math.inf, 1e-9),
            exact("attention-steps", max(attention) - min(attention), 0.5),
            contrast("short", lead("", SHORT), "above", 0.0),
            contrast("short-unfused", lead("-unfused", SHORT), "above", 0.0),
            contrast("long", lead("", LONG), "below", 0.0),
            contrast("growth", grown("attention-ms"), "above", 0.5),
            exact("memory-attention", abs(grown("attention-unfused-bytes")[0] - 2), 0.2),
            exact("memory-rnn", abs(grown("rnn-bytes")[0] - 1), 0.2),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Times by length, and what was counted."""
        lines = {way: trials.spots("layers", f"{way}-ms") for way in WAYS}
        heads = ("steps@16", "steps@64", "ms@16", "ms@128", "ms@1024")
        rows = {way: [f"{trials.mean('layers', f'{way}-{head}').mean:.3g}" for head in heads] for way in WAYS}
        across = number_scale(LENGTHS, powers=True)
        plot = self.chart("step-time", lines, of="way", scale="powers", across=across)
        return plot, self.table("steps-counted", heads, rows, of="way")


def doublings(trials: Trials, figure: str, other: str) -> list[float]:
    """Return how many doublings a figure is above another, by seed."""
    pairs = zip(trials.values("layers", figure), trials.values("layers", other), strict=True)
    return [math.log2(a / b) for a, b in pairs]


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

    ways: tuple[Layer, ...] = (
        lambda x: rnn(x)[0],
        one_by_one,
        lambda x: attention(x).output,
        lambda x: attention(x, need_weights=True).output,  # scores, softmax and sum written out
    )
    return dict(zip(WAYS, ways, strict=True))


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
        before = [parent for parent, _ in getattr(node, "next_functions", ()) if parent is not None]
        if is_done:
            depth[node] = 1 + max((depth[parent] for parent in before), default=0)
        elif node not in depth:
            stack += [(node, True), *((parent, False) for parent in before)]
    return depth[output.grad_fn]
