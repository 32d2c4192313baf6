"""Decoders with as many key-value heads as heads and with one: the time of a token, and the size of the cache."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import median
from typing import Any

import torch
from torch import Tensor

from selfattn.claims.sequences import BOS, random_symbols, vocabulary
from selfattn.decoding.stepping import stepping
from selfattn.models.build import build
from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.models.transformer_config import TransformerConfig

SYMBOLS, BATCH, WRITTEN = 16, 16, 12


def one_against_all(num_heads: int, prefixes: Sequence[int], seed: int, *, turns: int) -> dict[str, float]:
    """Let both write by turns after prefixes of some lengths; the first turn warms up.

    Returns:
        ``speed-up@LENGTH``, how many times as fast a token is written with one key-value head, in median over turns;
        ``cache@LENGTH``, how many times as many numbers are kept of what was read with all of them.
    """
    found = {}
    stacks = (
        TransformerConfig(dim=128, num_heads=num_heads, num_kv_heads=kv, num_layers=2, ffn_dim=256)
        for kv in (num_heads, 1)
    )
    models = [build(DecoderOnlyConfig(stack=one), vocab_size=vocabulary(SYMBOLS), seed=seed).eval() for one in stacks]
    for length in prefixes:
        draws = torch.Generator().manual_seed(seed)
        source = random_symbols(BATCH, length, symbols=SYMBOLS, generator=draws)
        rounds = zip(*(seconds_a_token(model, source) for model in models), strict=True)
        found[f"speed-up@{length}"] = median(full / one for full, one in islice(rounds, 1, turns + 1))
        full, one = (cached_numbers(model, source) for model in models)
        found[f"cache@{length}"] = full / one
    return found


@torch.inference_mode()
def seconds_a_token(model: Seq2Seq, source: Tensor) -> Iterator[float]:
    """Read a prefix, write some tokens and give their processor time; then go on from there."""
    state = model.start(model.encode(source, torch.ones_like(source, dtype=torch.bool)))
    token = torch.full((len(source),), BOS)
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
