"""A Hugging Face model whose weights are wanted: one watched layer beside all of them by the eager implementation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from benchmarks.measure import Bench, Row, peak
from selfattn.integrations.transformers import register
from selfattn.integrations.watch import watch

TOKENS = 1024


@cache
def model(device: str) -> Any:
    """BERT's base size with 1,024 positions: 12 layers, 12 heads, width 768; random weights."""
    from transformers import BertConfig, BertModel

    register()
    torch.manual_seed(0)
    return BertModel(BertConfig(max_position_embeddings=TOKENS)).eval().to(device)


def tokens(device: str) -> torch.Tensor:
    return torch.arange(TOKENS, device=device)[None] + 1000


@torch.inference_mode()
def eager(device: str = "cpu") -> None:
    bert = model(device)
    bert.set_attn_implementation("eager")
    assert len(bert(tokens(device), output_attentions=True).attentions) == 12


@torch.inference_mode()
def watched(device: str = "cpu") -> None:
    bert = model(device)
    with watch(bert, layers=[5]) as seen:
        bert(tokens(device))
    assert len(seen.layers) == 1


@torch.inference_mode()
def unwatched(device: str = "cpu") -> None:
    bert = model(device)
    bert.set_attn_implementation("selfattn")
    bert(tokens(device))


def rows(bench: Bench) -> Iterator[Row]:
    ways = {
        "selfattn, one layer watched": lambda: watched(bench.device),
        "eager, all weights": lambda: eager(bench.device),
        "selfattn, none watched": lambda: unwatched(bench.device),
    }
    yield bench.row("BERT with 12 layers on 1,024 tokens", ways, goal=1.0)
    if bench.device != "cpu":
        return
    peaks = {
        name: [peak("integrations", call)]
        for name, call in (("selfattn, one layer watched", "watched()"), ("eager, all weights", "eager()"))
    }
    yield Row("peak memory of BERT with 12 layers on 1,024 tokens", peaks, unit="MB", goal=1.0)
