"""Attention weights on examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from selfattn.data.pairs import Span


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one head: [t][s] for `cross`, [s][s] for `encoder`, [t][t] for `decoder`.

    Row k of a `cross` or `decoder` map belongs to the step that predicts target token k. The columns of a `decoder` map
    are what the decoder has read: the beginning-of-sequence token, then the target without its last token.
    """

    kind: Literal["cross", "encoder", "decoder"]
    layer: int
    head: int
    weights: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ModelAttention:
    """One model on one example: what it predicted and its maps; tokens stand in the order of the text."""

    prediction: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    maps: tuple[AttentionMap, ...]


@dataclass(frozen=True)
class AttentionExample:
    """One example whose attention is shown, with its gold alignment where that is known by construction."""

    source: str
    target: str
    format: str = ""
    gold: tuple[Span, ...] = ()
    models: Mapping[str, ModelAttention] = field(default_factory=dict)


@dataclass(frozen=True)
class Attention:
    """All examples whose attention is shown."""

    examples: tuple[AttentionExample, ...] = ()
