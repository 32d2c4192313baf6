"""Claim: an RNN takes a step for each symbol, self-attention one for all; but its work grows with the square."""

from __future__ import annotations

import math
from functools import partial
from statistics import median

import torch

from selfattn.claims.attention.timed_layers import WAYS, layers, longest_chain, seconds
from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.drawing import at, chart, table
from selfattn.claims.rules import contrast, exact
from selfattn.evaluation.cost.decoding import peak_memory
from selfattn.registry import register
from selfattn.report.blocks import Block
from selfattn.report.drawing.scale import number_scale
from selfattn.results.claims import Contrast

WIDTH, TOKENS, TURNS = 64, 2048, 3
COUNTED, LENGTHS = (16, 32, 64), (16, 32, 64, 128, 256, 512, 1024)
SHORT, LONG = 16, 1024  # between these the two have to cross


@register.claim("parallelism")
class Parallelism(Claim):
    """Steps that wait for one another, times of a training step at a constant number of symbols, and memory."""

    name = "parallelism"
    source = "Vaswani et al. 2017, section 4, table 1"
    seconds = (10.0, 40.0)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """One arm, in which all ways are timed by turns."""
        return (Arm("layers", {"width": WIDTH, "tokens": TOKENS}, alone=True),)

    def measure(
        self, arm: Arm, *, seed: int, rate: float | None, quick: bool, tokens: int = TOKENS
    ) -> dict[str, float]:
        """Count ``steps@N``, take ``ms@N`` by turns in processor time and ``bytes@N`` of one sequence, for each way."""
        ways, draws = layers(WIDTH, seed), torch.Generator().manual_seed(seed)
        found: dict[str, float] = {}
        lengths, turns = [n for n in LENGTHS if n <= tokens], 1 if quick else TURNS
        for n in COUNTED:
            x = torch.randn(1, n, WIDTH, generator=draws)
            found |= {f"{way}-steps@{n}": float(longest_chain(layer(x))) for way, layer in ways.items()}
        for n in lengths:  # the first turn warms up
            x = torch.randn(tokens // n, n, WIDTH, generator=draws)
            rounds = [[seconds(layer, x) for layer in ways.values()] for _ in range(1 + turns)][1:]
            times = [1000 * median(column) for column in zip(*rounds, strict=True)]
            found |= {f"{way}-ms@{n}": taken for way, taken in zip(WAYS, times, strict=True)}
        for n in lengths[-2:]:
            one = torch.randn(1, n, WIDTH, generator=draws)
            for way in ("rnn", "attention", "attention-unfused"):
                found[f"{way}-bytes@{n}"] = float(peak_memory(partial(seconds, ways[way], one)))
        return found

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """Steps are counted; attention is the faster of the two on short sequences, the RNN on long ones."""

        def lead(kind: str, n: int) -> list[float]:
            return doublings(found, f"rnn{kind}-ms@{n}", f"attention{kind}-ms@{n}")

        def grown(figure: str) -> list[float]:
            return doublings(found, f"{figure}@{LENGTHS[-1]}", f"{figure}@{LENGTHS[-2]}")

        ways = ("rnn-unfused", "attention-unfused")
        rnn, attention = ([found.values("layers", f"{way}-steps@{n}")[0] for n in COUNTED] for way in ways)
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

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """Times by length, and what was counted."""
        lines = {way: found.spots("layers", at(f"{way}-ms", LENGTHS)) for way in WAYS}
        heads = ("steps@16", "steps@64", "ms@16", "ms@128", "ms@1024")
        rows = {way: [f"{found.mean('layers', f'{way}-{head}').mean:.3g}" for head in heads] for way in WAYS}
        across = number_scale(LENGTHS, powers=True)
        plot = chart(self, "step-time", lines, of="way", scale="powers", across=across)
        return plot, table(self, "steps-counted", heads, rows, of="way")


def doublings(found: Found, figure: str, other: str) -> list[float]:
    """Return how many doublings a figure is above another, by seed."""
    pairs = zip(found.values("layers", figure), found.values("layers", other), strict=True)
    return [math.log2(one / less) for one, less in pairs]
