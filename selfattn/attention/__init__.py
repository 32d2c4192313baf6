"""The attention core and its layer: everything that is attention, and nothing that is not."""

from selfattn.attention.core import Attended, attend
from selfattn.attention.layer import KeyValue, MultiHeadAttention
from selfattn.attention.masks import causal_mask, key_mask, padding_mask, sliding_window_mask
from selfattn.attention.positions import (
    Alibi,
    AttentionPosition,
    EmbeddingPosition,
    Learned,
    Position,
    RelativeBias,
    Rotary,
    Sinusoidal,
    make_position,
)
from selfattn.attention.scores import (
    Additive,
    Concat,
    Dot,
    General,
    Location,
    ScaledDot,
    Score,
    dot,
    make_score,
    scaled_dot,
)

__all__ = [
    "Additive",
    "Alibi",
    "Attended",
    "AttentionPosition",
    "Concat",
    "Dot",
    "EmbeddingPosition",
    "General",
    "KeyValue",
    "Learned",
    "Location",
    "MultiHeadAttention",
    "Position",
    "RelativeBias",
    "Rotary",
    "ScaledDot",
    "Score",
    "Sinusoidal",
    "attend",
    "causal_mask",
    "dot",
    "key_mask",
    "make_position",
    "make_score",
    "padding_mask",
    "scaled_dot",
    "sliding_window_mask",
]
