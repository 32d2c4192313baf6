"""What cannot be converted from or to PyTorch's own modules: every refusal says what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch.nn.functional as F
from torch import nn

from selfattn.attention import Alibi, MultiHeadAttention
from selfattn.convert.torch_modules import (
    attention_from_torch,
    attention_to_torch,
    block_from_torch,
    block_to_torch,
)
from selfattn.layers import FeedForward, TransformerBlock

DIM, HEADS, FFN = 6, 3, 11
# PyTorch says so whenever its encoder cannot take the nested-tensor path, which is not asked for here.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")


class OtherAttention(nn.MultiheadAttention):
    pass


def encoder_layer(**changes: Any) -> nn.TransformerEncoderLayer:
    layer = nn.TransformerEncoderLayer(DIM, HEADS, FFN)
    for name, value in changes.items():
        setattr(layer, name, value)
    return layer


FROM_TORCH_ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: attention_from_torch(nn.MultiheadAttention(DIM, HEADS, add_bias_kv=True)),
        ValueError,
        "attention_from_torch: add_bias_kv and add_zero_attn have no counterpart",
    ),
    (
        lambda: attention_from_torch(nn.MultiheadAttention(DIM, HEADS, kdim=5, vdim=7)),
        ValueError,
        "attention_from_torch: kdim=5 and vdim=7 differ",
    ),
    (
        lambda: attention_from_torch(OtherAttention(DIM, HEADS)),
        TypeError,
        "attention_from_torch: expected MultiheadAttention itself, got OtherAttention",
    ),
    (
        lambda: block_from_torch(nn.TransformerEncoderLayer(DIM, HEADS, activation=F.elu)),
        ValueError,
        "the activation <function elu.* known: relu, gelu, silu",
    ),
    (
        lambda: block_from_torch(encoder_layer(dropout2=nn.Dropout(0.5))),
        ValueError,
        r"block_from_torch: .* with one probability, got \[0.1, 0.5\]",
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "message"), FROM_TORCH_ERRORS, ids=[row[2][:60] for row in FROM_TORCH_ERRORS]
)
def test_what_cannot_come_from_torch(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def attention(**settings: Any) -> MultiHeadAttention:
    return MultiHeadAttention(DIM, **({"num_heads": 2} | settings))


def block(**settings: Any) -> TransformerBlock:
    return TransformerBlock(DIM, **({"self_attn": attention(), "feed_forward": FeedForward(DIM, FFN)} | settings))


TO_TORCH_ERRORS: list[tuple[Callable[[], Any], str]] = [
    (lambda: attention_to_torch(attention(num_kv_heads=1)), "cannot hold 1 key-value heads for 2 heads"),
    (lambda: attention_to_torch(attention(score="general")), "cannot hold the score General"),
    (lambda: attention_to_torch(attention(position=Alibi(2))), r"cannot hold positions \(Alibi\)"),
    (
        lambda: block_to_torch(block(cross_attn=attention(context_dim=5))),
        "has one width, but the block is 6 wide and its memory 5",
    ),
    (
        lambda: block_to_torch(block(feed_forward=FeedForward(DIM, FFN, activation="swiglu"))),
        "PyTorch's layer has no gate",
    ),
]


@pytest.mark.parametrize(("call", "message"), TO_TORCH_ERRORS, ids=[row[1][:60] for row in TO_TORCH_ERRORS])
def test_what_cannot_go_to_torch(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_norm_that_is_no_layer_norm_cannot_go_to_torch() -> None:
    with pytest.raises(TypeError, match="self_attn_norm: expected LayerNorm itself, got RMSNorm"):
        block_to_torch(block(norm="rms"))
