"""The Transformer block and what it has besides attention: norms, the feed-forward block, embeddings and dropout.

Dropout draws its mask in bulk: on a CPU, drawing one number for each element is a fifth of a training step. Embeddings
have positions added where a model adds them, and a layer maps back to tokens.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.attention.cache import Cache, KeyValue
from selfattn.attention.core import is_transformed
from selfattn.attention.layer import MultiHeadAttention
from selfattn.attention.linear import AttentionState
from selfattn.attention.masks import Mask
from selfattn.attention.positions import EmbeddingPosition

_LEVELS = 2**16  # of a 16-bit number


class Dropout(nn.Dropout):
    """Set each element to 0 with probability ``p`` while training, and scale the others by 1 / (1 - p).

    Srivastava et al. 2014, "Dropout". On a CPU four elements share one drawn 64-bit number: ``p`` is taken as the next
    multiple of 2^-16, and the scale is that of the probability used. Elsewhere, for ``p`` 0 or 1, under ``torch.func``
    and in forward-mode differentiation it is ``torch.nn.Dropout``. The mask comes from PyTorch's global generator.

    Args:
        p: probability, from 0 to 1; default 0.5.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> dropped = Dropout(0.25)(torch.ones(1000))
        >>> sorted({round(value, 3) for value in dropped.tolist()}), 0.7 < (dropped > 0).float().mean().item() < 0.8
        ([0.0, 1.333], True)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to a tensor of any shape."""
        if not self.training:
            return x
        cut = round(self.p * _LEVELS)
        if x.device.type != "cpu" or not 0 < cut < _LEVELS or not x.is_floating_point() or is_transformed():
            return super().forward(x)
        dropped: Tensor = _Drop.apply(x, cut)  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        return dropped


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cut: int) -> Tensor:
        bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), 2**63 - 1).view(torch.int16)
        keep = (bits[: x.numel()] >= cut - _LEVELS // 2).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = _LEVELS / (_LEVELS - cut)
        scaled: Tensor = x * keep * ctx.scale
        return scaled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return gradients[0] * keep * ctx.scale, None


class TokenEmbedding(nn.Module):
    """Look tokens up, scale, add positions, drop out (Vaswani et al. 2017, sections 3.4, 3.5 and 5.4).

    Args:
        tokens: the table ``[v d]``; handed over, so that several places can share it.
        position: vectors added by position; default none.
        scale: multiply the looked-up vectors by ``sqrt(d)``; default False.
        dropout: probability of dropping a unit while training; default 0.

    Raises:
        ValueError: the position gives vectors of another shape than its positions and the table's width.

    Example:
        >>> from selfattn.attention import Sinusoidal
        >>> embed = TokenEmbedding(nn.Embedding(11, 4), Sinusoidal(4), scale=True)
        >>> embed(torch.tensor([[3, 7]])).shape
        torch.Size([1, 2, 4])
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        position: EmbeddingPosition | None = None,
        *,
        scale: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.position = position
        self.scale = math.sqrt(tokens.embedding_dim) if scale else 1.0
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Map ids ``[b t]`` (positions ``[t]`` or ``[b t]``, default 0, 1, 2, ...) to vectors ``[b t d]``."""
        x: Tensor = self.tokens(ids)
        if self.scale != 1.0:
            x = x * self.scale
        if self.position is not None:
            if positions is None:
                positions = torch.arange(ids.shape[-1], device=ids.device)
            added = self.position(positions)
            if added.shape != (*positions.shape, x.shape[-1]):
                raise ValueError(
                    f"{type(self.position).__name__}: expected a vector of width {x.shape[-1]} for each of the "
                    f"positions {tuple(positions.shape)}, got {tuple(added.shape)}"
                )
            x = x + added.to(x.dtype)
        dropped: Tensor = self.dropout(x)
        return dropped


def output_layer(dim: int, tokens: nn.Embedding, tie: bool) -> nn.Linear:
    """Build the layer that maps ``[.. d]`` to logits, with the embedding table's weights or with its own."""
    output = nn.Linear(dim, tokens.num_embeddings)
    if tie:
        output.weight = tokens.weight
    return output


Past = Cache | AttentionState | None
"""What self-attention keeps of earlier positions."""
Norm = Literal["layer", "rms"]
Activation = Literal["relu", "gelu", "silu", "swiglu"]

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def make_norm(kind: Norm, dim: int) -> nn.Module:
    """Build a normalisation over the last axis.

    Args:
        kind: ``"layer"`` (Ba et al. 2016) or ``"rms"`` (Zhang and Sennrich 2019).
        dim: width of that axis.

    Example:
        >>> make_norm("rms", 8)
        RMSNorm((8,), eps=1e-06, elementwise_affine=True)
    """
    norms: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "rms": partial(nn.RMSNorm, eps=1e-6)}
    return norms[kind](dim)


class FeedForward(nn.Module):
    """``fc2(activation(fc1(x)))`` at every position (Vaswani et al. 2017, section 3.3, equation 2).

    ``swiglu`` multiplies by a second, linear projection: ``fc2(silu(fc1(x)) * gate(x))`` (Shazeer 2020, equation 6).

    Args:
        dim: model width ``d``.
        ffn_dim: width inside.
        activation: ``"relu"`` (default), ``"gelu"``, ``"silu"`` (also called swish: ``x * sigmoid(x)``) or
            ``"swiglu"``.
        dropout: probability of dropping an inner unit while training; default 0.

    Example:
        >>> import torch
        >>> FeedForward(8, 32)(torch.randn(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(self, dim: int, ffn_dim: int, *, activation: Activation = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.activation = activation
        self.fc1 = nn.Linear(dim, ffn_dim)
        self.gate = nn.Linear(dim, ffn_dim) if activation == "swiglu" else None
        self.fc2 = nn.Linear(ffn_dim, dim)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[b i d]`` to ``[b i d]``."""
        inner = self.fc1(x)
        inner = F.silu(inner) * self.gate(x) if self.gate is not None else FUNCTIONS[self.activation](inner)
        mapped: Tensor = self.fc2(self.dropout(inner))
        return mapped


class BlockOutput(NamedTuple):
    """What a block returns.

    Attributes:
        x: ``[b i d]``.
        cache: keys and values of the self-attention, the earlier ones and the new ones; or its state, where it has one.
        self_weights: ``[b h i j]``, or None where not asked for.
        cross_weights: ``[b h i s]``, or None.
    """

    x: Tensor
    cache: Past
    self_weights: Tensor | None
    cross_weights: Tensor | None


class TransformerBlock(nn.Module):
    """One layer of an encoder or decoder (Vaswani et al. 2017, section 3.1).

    Each part is a residual step. Pre-norm computes ``x + dropout(part(norm(x)))`` (Xiong et al. 2020), post-norm
    ``norm(x + dropout(part(x)))`` as in the original.

    Args:
        dim: model width ``d``.
        self_attn: attention of the sequence to itself.
        feed_forward: the block after it.
        cross_attn: attention to an encoder's memory; default none.
        norm: ``"layer"`` (default) or ``"rms"``.
        norm_first: pre-norm (default) or post-norm.
        dropout: probability of dropping a unit of each part's output while training; default 0.

    Example:
        >>> import torch
        >>> block = TransformerBlock(8, self_attn=MultiHeadAttention(8, num_heads=2), feed_forward=FeedForward(8, 16))
        >>> block(torch.randn(3, 5, 8), causal=True).x.shape
        torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        dim: int,
        *,
        self_attn: MultiHeadAttention,
        feed_forward: FeedForward,
        cross_attn: MultiHeadAttention | None = None,
        norm: Norm = "layer",
        norm_first: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.self_attn = self_attn
        self.self_attn_norm = make_norm(norm, dim)
        self.cross_attn = cross_attn
        self.cross_attn_norm = None if cross_attn is None else make_norm(norm, dim)
        self.feed_forward = feed_forward
        self.feed_forward_norm = make_norm(norm, dim)
        self.norm_first = norm_first
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        cache: Past = None,
        mask: Tensor | Mask | None = None,
        causal: bool = False,
        positions: Tensor | None = None,
        memory: KeyValue | None = None,
        memory_mask: Tensor | Mask | None = None,
        need_weights: bool = False,
    ) -> BlockOutput:
        """Run the block.

        Args:
            x: ``[b i d]``.
            cache: keys and values, or the state, of earlier positions, which ``x`` goes on from; default none.
            mask: which keys (the cache's first) each position of ``x`` may attend to, broadcastable to ``[b h i j]``.
            causal: hide the future as well, right-aligned.
            positions: of ``x``, ``[i]`` or ``[b i]``; needed with a cache where the attention uses positions.
            memory: what the cross-attention attends to, projected by :meth:`project_memory`.
            memory_mask: broadcastable to ``[b h i s]``.
            need_weights: return the weights of both attentions.
        """
        h = self.self_attn_norm(x) if self.norm_first else x
        (attended, self_weights), cache = self.self_attn.advance(
            h, cache, mask=mask, causal=causal, positions=positions, need_weights=need_weights
        )
        x = self._join(x, attended, self.self_attn_norm)
        cross_weights = None
        if self.cross_attn is not None and self.cross_attn_norm is not None:
            h = self.cross_attn_norm(x) if self.norm_first else x
            attended, cross_weights = self.cross_attn(h, memory, mask=memory_mask, need_weights=need_weights)
            x = self._join(x, attended, self.cross_attn_norm)
        h = self.feed_forward_norm(x) if self.norm_first else x
        x = self._join(x, self.feed_forward(h), self.feed_forward_norm)
        return BlockOutput(x, cache, self_weights, cross_weights)

    def project_memory(self, states: Tensor, tokens: Tensor | None = None) -> KeyValue:
        """Project an encoder's states ``[b s d]``, of which ``tokens [b s]`` are real; once for all target tokens."""
        assert self.cross_attn is not None
        return self.cross_attn.project_context(states, tokens=tokens)

    def _join(self, x: Tensor, part: Tensor, norm: nn.Module) -> Tensor:
        x = x + self.dropout(part)
        return x if self.norm_first else norm(x)


class StackOutput(NamedTuple):
    """What a stack of blocks returns; see :class:`BlockOutput`.

    Attributes:
        x: ``[b i d]``, after the last norm.
        caches: by layer.
        self_weights: by layer; empty where not asked for.
        cross_weights: by layer; empty where not asked for, or without cross-attention.
    """

    x: Tensor
    caches: tuple[Past, ...]
    self_weights: tuple[Tensor, ...]
    cross_weights: tuple[Tensor, ...]


def run_stack(
    layers: nn.ModuleList,
    norm: nn.Module | None,
    x: Tensor,
    *,
    caches: Sequence[Past] | None = None,
    memory: Sequence[KeyValue] | None = None,
    **shared: Any,
) -> StackOutput:
    """Run blocks one after the other, and the norm behind them.

    Args:
        layers: the blocks.
        norm: after the last block; None for none.
        x: ``[b i d]``.
        caches: of earlier positions, by layer; default none.
        memory: of the cross-attention, by layer; default none.
        shared: what every block gets, see :meth:`TransformerBlock.forward`.
    """
    nothing = (None,) * len(layers)
    outputs: list[BlockOutput] = []
    for layer, cache, projected in zip(layers, caches or nothing, memory or nothing, strict=True):
        outputs.append(layer(x, cache=cache, memory=projected, **shared))
        x = outputs[-1].x
    self_weights = tuple(output.self_weights for output in outputs if output.self_weights is not None)
    cross_weights = tuple(output.cross_weights for output in outputs if output.cross_weights is not None)
    caches = tuple(output.cache for output in outputs)
    return StackOutput(x if norm is None else norm(x), caches, self_weights, cross_weights)
