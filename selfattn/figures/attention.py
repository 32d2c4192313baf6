"""Attention weights on examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le

from selfattn.codec import Plain
from selfattn.data.pairs import Span

_ROUNDING = 1e-3  # weights are kept with four decimals
Weight = Annotated[float, Ge(-_ROUNDING), Le(1 + _ROUNDING)]


@dataclass(frozen=True)
class AttentionMap(Plain):
    """The weights of one head: [t][s] for `cross`, [s][s] for `encoder`, [t][t] for `decoder`.

    Row k of a `cross` or `decoder` map belongs to the step that predicts target token k. The columns of a `decoder` map
    are what the decoder has read: the beginning-of-sequence token, then the target without its last token.
    """

    kind: Literal["cross", "encoder", "decoder"]
    layer: int
    head: int
    weights: tuple[tuple[Weight, ...], ...]


@dataclass(frozen=True)
class ModelAttention(Plain):
    """One model on one example: what it predicted and its maps; tokens stand in the order of the text."""

    prediction: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    maps: tuple[AttentionMap, ...]


@dataclass(frozen=True)
class AttentionExample(Plain):
    """One example whose attention is shown, with its gold alignment where that is known by construction."""

    source: str
    target: str
    format: str = ""
    gold: tuple[Span, ...] = ()
    models: Mapping[str, ModelAttention] = field(default_factory=dict)


@dataclass(frozen=True)
class Attention(Plain):
    """All examples whose attention is shown."""

    examples: tuple[AttentionExample, ...] = ()
