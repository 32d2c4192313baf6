"""``torch.nn.TransformerEncoderLayer`` and ``TransformerDecoderLayer`` to our block and back."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from selfattn.convert.fill import copy_parts, expect_type
from selfattn.convert.torch_attention import attention_from_torch, attention_to_torch
from selfattn.layers import Activation, FeedForward, TransformerBlock
from selfattn.layers.transformer import FUNCTIONS

TorchLayer = TypeVar("TorchLayer", nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)

# The parts of a block that are the same modules there: our name to theirs, and the norms in the order of their numbers.
_FEED_FORWARD = {"feed_forward.fc1": "linear1", "feed_forward.fc2": "linear2"}
_ENCODER = _FEED_FORWARD | {"self_attn_norm": "norm1", "feed_forward_norm": "norm2"}
_DECODER = _FEED_FORWARD | {"self_attn_norm": "norm1", "cross_attn_norm": "norm2", "feed_forward_norm": "norm3"}
# Functions, and modules without settings of their own, that are one of our activations.
_ACTIVATIONS: dict[Any, Activation] = {
    **{torch.relu: "relu", F.relu: "relu", F.gelu: "gelu", F.silu: "silu"},
    **{nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "silu"},
}


def encoder_layer_from_torch(layer: nn.TransformerEncoderLayer) -> TransformerBlock:
    """Make the block that computes what ``layer`` computes, with a copy of its weights.

    Args:
        layer: pre- or post-norm, with relu, gelu or silu, with or without biases, any epsilon.

    Returns:
        A block without cross-attention, in the same dtype, on the same device, in the same mode. Masks have the
        opposite sense (``mask=key_mask(~src_key_padding_mask)``); inputs are always batch first.

    Raises:
        TypeError: ``layer``, or the attention in it, is of a derived class; a norm is no layer norm.
        ValueError: another activation; two dropouts where a block has one; and what
            :func:`~selfattn.convert.torch_attention.attention_from_torch` raises.

    Example:
        >>> theirs = nn.TransformerEncoderLayer(6, 3, dim_feedforward=11, batch_first=True).eval()
        >>> x = torch.randn(2, 5, 6)
        >>> torch.allclose(encoder_layer_from_torch(theirs)(x).x, theirs(x), atol=1e-5)
        True
    """
    return _block(layer, nn.TransformerEncoderLayer, _ENCODER, "encoder_layer_from_torch")


def decoder_layer_from_torch(layer: nn.TransformerDecoderLayer) -> TransformerBlock:
    """Make the block that computes what ``layer`` computes, with a copy of its weights.

    Args:
        layer: as for :func:`encoder_layer_from_torch`.

    Returns:
        A block with cross-attention, in the same dtype, on the same device, in the same mode. PyTorch's layer is
        causal only where it is given a mask that is; here ``causal=True`` says so.

    Raises:
        TypeError: as for :func:`encoder_layer_from_torch`.
        ValueError: likewise.

    Example:
        >>> theirs = nn.TransformerDecoderLayer(6, 3, dim_feedforward=11, batch_first=True).eval()
        >>> x, memory = torch.randn(2, 5, 6), torch.randn(2, 7, 6)
        >>> ours = decoder_layer_from_torch(theirs)
        >>> torch.allclose(ours(x, memory=ours.project_memory(memory)).x, theirs(x, memory), atol=1e-5)
        True
    """
    return _block(layer, nn.TransformerDecoderLayer, _DECODER, "decoder_layer_from_torch")


def encoder_layer_to_torch(block: TransformerBlock) -> nn.TransformerEncoderLayer:
    """Make the ``nn.TransformerEncoderLayer`` that computes what ``block`` computes, with a copy of its weights.

    Args:
        block: without cross-attention; layer norms; relu, gelu or silu; plain attention.

    Returns:
        A layer with ``batch_first=True``, in the same dtype, on the same device, in the same mode.

    Raises:
        ValueError: the block has something that PyTorch's has not; the message says what.

    Example:
        >>> from selfattn.attention import MultiHeadAttention
        >>> block = TransformerBlock(6, self_attn=MultiHeadAttention(6, num_heads=3), feed_forward=FeedForward(6, 11))
        >>> encoder_layer_to_torch(block).linear1
        Linear(in_features=6, out_features=11, bias=True)
    """
    where = "encoder_layer_to_torch"
    if block.cross_attn is not None:
        raise ValueError(f"{where}: this block has cross-attention; use decoder_layer_to_torch")
    return _layer(nn.TransformerEncoderLayer, block, _ENCODER, where)


def decoder_layer_to_torch(block: TransformerBlock) -> nn.TransformerDecoderLayer:
    """Make the ``nn.TransformerDecoderLayer`` that computes what ``block`` computes, with a copy of its weights.

    Args:
        block: with cross-attention to a memory of its own width; otherwise as for :func:`encoder_layer_to_torch`.

    Returns:
        A layer with ``batch_first=True``, in the same dtype, on the same device, in the same mode.

    Raises:
        ValueError: the block has something that PyTorch's has not; the message says what.

    Example:
        >>> from selfattn.attention import MultiHeadAttention
        >>> block = TransformerBlock(
        ...     6,
        ...     self_attn=MultiHeadAttention(6, num_heads=3),
        ...     cross_attn=MultiHeadAttention(6, num_heads=3),
        ...     feed_forward=FeedForward(6, 11),
        ... )
        >>> decoder_layer_to_torch(block).multihead_attn.num_heads
        3
    """
    where = "decoder_layer_to_torch"
    if block.cross_attn is None:
        raise ValueError(f"{where}: this block has no cross-attention; use encoder_layer_to_torch")
    theirs = _layer(nn.TransformerDecoderLayer, block, _DECODER, where)
    if theirs.multihead_attn.kdim != theirs.multihead_attn.embed_dim:
        raise ValueError(
            f"{where}: nn.TransformerDecoderLayer has one width, but the block is "
            f"{theirs.multihead_attn.embed_dim} wide and its memory {theirs.multihead_attn.kdim}"
        )
    return theirs


def _block(layer: TorchLayer, kind: type[TorchLayer], parts: dict[str, str], where: str) -> TransformerBlock:
    """Make the block; beside each numbered norm there is a dropout of that number."""
    expect_type(layer, kind, where)
    dropouts = {getattr(layer, name.replace("norm", "dropout")).p for name in parts.values() if "norm" in name}
    if len(dropouts) > 1:
        raise ValueError(
            f"{where}: a block drops the outputs of its parts with one probability, got {sorted(dropouts)}"
        )
    dim, ffn_dim = layer.linear1.in_features, layer.linear1.out_features
    activation, cross_attn = _activation(layer.activation, where), getattr(layer, "multihead_attn", None)
    with torch.device("meta"):
        feed_forward = FeedForward(dim, ffn_dim, activation=activation, dropout=layer.dropout.p)
    block = TransformerBlock(
        dim,
        self_attn=attention_from_torch(layer.self_attn),
        cross_attn=None if cross_attn is None else attention_from_torch(cross_attn),
        feed_forward=feed_forward,
        norm_first=layer.norm_first,
        dropout=dropouts.pop(),
    )
    copy_parts(layer, block, {theirs: ours for ours, theirs in parts.items()}, where)
    return block.train(layer.training)


def _layer(kind: type[TorchLayer], block: TransformerBlock, parts: dict[str, str], where: str) -> TorchLayer:
    """Make PyTorch's layer."""
    feed_forward = block.feed_forward
    if feed_forward.activation == "swiglu":
        raise ValueError(f"{where}: nn.{kind.__name__} has no gate, and this block's activation is swiglu")
    self_attn = attention_to_torch(block.self_attn)
    biases = {"self_attn": self_attn.in_proj_bias is not None, "feed_forward": feed_forward.fc1.bias is not None}
    cross_attn = None if block.cross_attn is None else attention_to_torch(block.cross_attn)
    if cross_attn is not None:
        biases["cross_attn"] = cross_attn.in_proj_bias is not None
    if len(set(biases.values())) > 1:
        raise ValueError(f"{where}: nn.{kind.__name__} has biases everywhere or nowhere, this block has: {biases}")
    with torch.device("meta"):
        theirs = kind(
            self_attn.embed_dim,
            self_attn.num_heads,
            feed_forward.fc1.out_features,
            dropout=block.dropout.p,
            activation=FUNCTIONS[feed_forward.activation],
            batch_first=True,
            norm_first=block.norm_first,
        )
    theirs.self_attn = self_attn
    if cross_attn is not None:
        theirs.multihead_attn = cross_attn
    theirs.dropout.p = feed_forward.dropout.p
    copy_parts(block, theirs, parts, where)
    return theirs.train(block.training)


def _activation(function: object, where: str) -> Activation:
    """Name an activation function or module."""
    is_exact = getattr(function, "approximate", "none") == "none"
    for known, name in _ACTIVATIONS.items():
        if function is known or (is_exact and isinstance(known, type) and isinstance(function, known)):
            return name
    raise ValueError(f"{where}: the activation {function} has no counterpart; known: relu, gelu, silu")
