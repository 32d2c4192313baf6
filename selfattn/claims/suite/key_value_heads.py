"""Claim: fewer key-value heads cost little and make decoding cheaper."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

import torch
from torch import Tensor

from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Contrasts, Setup, Trials, number, share
from selfattn.claims.rules import MARGIN, contrast, exact
from selfattn.data.batches import Batch
from selfattn.decoding.stepping import stepping
from selfattn.models.build import build, count_parameters
from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register
from selfattn.report.drawing.scale import number_scale

HEADS, FEWER, TIMED_HEADS, PREFIXES = 4, (2, 1), 8, (64, 256, 1000)
LARGEST_SIZE_ERROR = 0.005


@register.claim("key-value-heads")
class KeyValueHeads(Claim):
    """Exact match at equal size with as many key-value heads as heads, and with fewer; cache and time of decoding."""

    source = "Shazeer 2019, sections 2.4 and 3; Ainslie et al. 2023, sections 2.2 and 3"
    seconds = (35.0, 270.0)
    points = tuple(f"kv-{kv}" for kv in FEWER)
    kinds = {f"kv-{kv}": {"num_kv_heads": kv} for kv in (HEADS, *FEWER)}
    rates = (5e-3, 1e-2, 2e-2)
    sizes = {"steps": 600, "lengths": (3, 7), "tested": 500, "turns": 5}
    quick_sizes = {"steps": 300, "lengths": (2, 3), "turns": 2}
    shows = {"all": ("kv-4", "exact"), "single": ("kv-1", "exact"), "speed": ("decoding", f"speed-up@{PREFIXES[-1]}")}
    columns = {"exact": share, "size": number}

    def arms(self) -> tuple[Arm, ...]:
        """Trained models with 4, 2 and 1 key-value heads of 4; one arm that takes times."""
        return *super().arms(), Arm("decoding", {**self.size, "num_kv_heads": TIMED_HEADS}, alone=True)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on reversals; or decode by turns with 8 and with 1 key-value heads, after prefixes of three lengths."""
        kv, (shortest, longest) = setup["num_kv_heads"], setup["lengths"]
        if setup.arm.alone:
            return one_against_all(kv, PREFIXES, setup.seed, turns=setup["turns"])
        model = small.trained(setup, of_equal_size(kv), partial(drawn, 64, shortest, longest), symbols=SYMBOLS)
        validation, test = small.validation_and_test(partial(drawn, setup["tested"], longest, longest), seed=setup.seed)
        parameters = float(count_parameters(model)[1])
        return {"valid": small.loss_of(model, validation), "exact": small.exact_share(model, test), "size": parameters}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Not worse than the margin at equal size; a cache as much smaller as there are fewer heads; faster."""
        cache, speed_up = (trials.values("decoding", f"{figure}@{PREFIXES[-1]}") for figure in ("cache", "speed-up"))
        sizes = [trials.values(f"kv-{kv}", "size")[0] for kv in (HEADS, *FEWER)]
        full, fewer = f"kv-{HEADS}", [f"kv-{kv}" for kv in FEWER]
        return (
            *(trials.lead(arm, arm, full, "exact", self.size["tested"], bound=-MARGIN) for arm in fewer),
            exact("size", max(sizes) / min(sizes) - 1, LARGEST_SIZE_ERROR),
            exact("cache", abs(cache[0] - TIMED_HEADS), 1e-12),
            contrast("speed-up", speed_up, "above", 1.0),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """How many times as fast, by the length of the prefix; exact match and size."""
        lines = {"speed-up": trials.spots("decoding", "speed-up")}
        across = number_scale([10, PREFIXES[-1]], powers=True)
        plot = self.chart("kv-speed-up", lines, of="line", scale="number", across=across)
        return plot, self.table("kv-quality", self.columns, self.rows(trials))


def drawn(rows: int, shortest: int, longest: int, draws: torch.Generator) -> Batch:
    """Make sources of one length, to be reversed."""
    length = int(torch.randint(shortest, longest + 1, (1,), generator=draws))
    return small.reversals(rows, length, draws, symbols=SYMBOLS)


def of_equal_size(num_kv_heads: int, dim: int = 64) -> EncoderDecoderConfig:
    """What the key and value projections of missing heads would weigh goes into the feed-forward blocks."""
    saved = 2 * (dim * dim + dim) * (1 - num_kv_heads / HEADS) / (2 * dim + 1)  # units inside, for one attention
    parts = (
        TransformerConfig(dim=dim, num_heads=HEADS, num_kv_heads=num_kv_heads, ffn_dim=2 * dim + round(count * saved))
        for count in (1, 2)  # an encoder's layer has one attention, a decoder's two
    )
    return EncoderDecoderConfig(encoder=next(parts), decoder=next(parts))


SYMBOLS, BATCH, WRITTEN = 16, 16, 12


def one_against_all(num_heads: int, prefixes: Sequence[int], seed: int, *, turns: int) -> dict[str, float]:
    """Let both write by turns after prefixes of some lengths; the first turn warms up.

    Returns:
        ``speed-up@LENGTH``, how many times as fast a token is written with one key-value head, in median over turns;
        ``cache@LENGTH``, how many times as many numbers are kept of what was read with all of them.
    """
    figures = {}
    stacks = (
        TransformerConfig(dim=128, num_heads=num_heads, num_kv_heads=kv, num_layers=2, ffn_dim=256)
        for kv in (num_heads, 1)
    )
    size = small.vocabulary(SYMBOLS)
    models = [build(DecoderOnlyConfig(stack=stack), vocab_size=size, seed=seed).eval() for stack in stacks]
    for length in prefixes:
        draws = torch.Generator().manual_seed(seed)
        source = small.random_symbols(BATCH, length, symbols=SYMBOLS, generator=draws)
        rounds = zip(*(seconds_a_token(model, source) for model in models), strict=True)
        figures[f"speed-up@{length}"] = median(full / single for full, single in islice(rounds, 1, turns + 1))
        full, single = (cached_numbers(model, source) for model in models)
        figures[f"cache@{length}"] = full / single
    return figures


@torch.inference_mode()
def seconds_a_token(model: Seq2Seq, source: Tensor) -> Iterator[float]:
    """Read a prefix, write some tokens and give their processor time; then go on from there."""
    state = model.start(model.encode(source, torch.ones_like(source, dtype=torch.bool)))
    token = torch.full((len(source),), small.BOS)
    with stepping(model) as stepper:
        while True:
            started = time.process_time()
            for _ in range(WRITTEN):
                logits, state = stepper.step(token, state)
                token = logits.argmax(dim=-1)
            yield (time.process_time() - started) / WRITTEN


@torch.inference_mode()
def cached_numbers(model: Any, source: Tensor) -> int:
    """Count the numbers that a decoder keeps of what it has read: keys and values of every layer."""
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    return sum(cache.entries.key.numel() + cache.entries.value.numel() for cache in memory.caches)
