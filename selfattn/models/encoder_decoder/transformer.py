"""Transformer encoder and decoder (Vaswani et al. 2017), each usable with a partner of the other family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor, nn

from selfattn.attention import KeyValue, key_mask, sliding_window_mask
from selfattn.attention.masks import hide, hide_keys
from selfattn.layers import TokenEmbedding, TransformerBlock
from selfattn.models.encoder_decoder.model import Decoder, Encoder
from selfattn.models.protocol import OF_SOURCE, Decoded, DecoderState, EncoderMemory


class TransformerEncoder(Encoder):
    """Self-attention blocks over the source.

    Args:
        embed: source embedding, with positions where they are added.
        layers: the blocks.
        norm: applied to the last block's output; pre-norm needs one, post-norm does not. Default none.
    """

    def __init__(
        self, embed: TokenEmbedding, layers: Sequence[TransformerBlock], *, norm: nn.Module | None = None
    ) -> None:
        super().__init__(output_dim=embed.tokens.embedding_dim)
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(self, source: Tensor, source_mask: Tensor, *, need_weights: bool = False) -> EncoderMemory:
        """Encode ids ``[b s]`` with mask ``[b s]``."""
        # Of a device the answer would have to be waited for, and a graph that is exported has none.
        is_known = source_mask.is_cpu and not torch.compiler.is_exporting()
        mask, bias = hide_keys(source_mask) if is_known else (key_mask(source_mask), None)
        x = self.embed(source)
        if mask is not None or bias is not None:
            x = x.masked_fill(~source_mask[..., None], 0.0)  # what stands at padding is felt nowhere
        weights: list[Tensor] = []
        for layer in self.layers:
            x, _, self_weights, _ = layer(x, mask=mask, bias=bias, need_weights=need_weights)
            if self_weights is not None:
                weights.append(self_weights)
        if self.norm is not None:
            x = self.norm(x)
        return EncoderMemory(x, source_mask, weights=tuple(weights))


@dataclass(frozen=True)
class TransformerState(DecoderState):
    """Keys and values of everything read so far.

    Attributes:
        caches: of the self-attention, by layer; None before the first token.
        memory: of the cross-attention, by layer, made once.
        memory_mask: bool ``[b 1 1 s]``: which of its keys may be seen; None: all of them.
        position: int64 ``[b]``, of the token that comes next; one number once it is prepared.
        memory_bias: what to add to the scores of the cross-attention, ``[b 1 1 s]``; default nothing.
    """

    caches: tuple[KeyValue | None, ...]
    memory: tuple[KeyValue, ...] = field(metadata=OF_SOURCE)
    memory_mask: Tensor | None = field(metadata=OF_SOURCE)
    position: Tensor | int
    memory_bias: Tensor | None = field(default=None, metadata=OF_SOURCE)

    def prepared(self) -> Self:
        """Say masks in the cheapest way, and the position, which is that of every row, as one number."""
        if isinstance(self.position, int):
            return self
        mask, bias = (None, None) if self.memory_mask is None else hide_keys(self.memory_mask[:, 0, 0])
        return replace(self, memory_mask=mask, memory_bias=bias, position=int(self.position[0]))


class TransformerDecoder(Decoder):
    """Masked self-attention, cross-attention and feed-forward over the target.

    Args:
        embed: target embedding, with positions where they are added.
        layers: the blocks, each with cross-attention.
        output: maps ``[.. d]`` to logits.
        norm: applied to the last block's output; default none.
        window: how many positions back a token sees, itself included; default all.
    """

    def __init__(
        self,
        embed: TokenEmbedding,
        layers: Sequence[TransformerBlock],
        output: nn.Linear,
        *,
        norm: nn.Module | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.output = output
        self.window = window

    def start(self, memory: EncoderMemory) -> TransformerState:
        """Project the memory for every layer, once."""
        projected = tuple(layer.project_memory(memory.states) for layer in self.blocks())
        position = torch.zeros(memory.mask.shape[0], dtype=torch.int64, device=memory.mask.device)
        return TransformerState((None,) * len(projected), projected, key_mask(memory.mask), position)

    def blocks(self) -> list[TransformerBlock]:
        """Return the blocks, typed."""
        return [layer for layer in self.layers if isinstance(layer, TransformerBlock)]

    def forward(
        self, tokens: Tensor, state: DecoderState, *, need_weights: bool = False
    ) -> tuple[Decoded, TransformerState]:
        """Read tokens ``[b t]``, all at once; what came before them is in the caches."""
        assert isinstance(state, TransformerState)
        t = tokens.shape[1]
        start = state.position if isinstance(state.position, int) else state.position[:, None]
        positions = start + torch.arange(t, device=tokens.device)
        x = self.embed(tokens, positions)
        seen = t + (0 if state.caches[0] is None else state.caches[0].key.shape[2])
        mask = bias = None
        if self.window is not None:
            near = sliding_window_mask(t, seen, self.window, device=x.device)
            mask, bias = (None, hide(near)) if isinstance(state.position, int) else (near, None)
        caches: list[KeyValue] = []
        self_weights: list[Tensor] = []
        cross_weights: list[Tensor] = []
        for layer, cache, memory in zip(self.blocks(), state.caches, state.memory, strict=True):
            x, new, own, cross = layer(
                x,
                cache=cache,
                mask=mask,
                bias=bias,
                causal=self.window is None,
                positions=positions,
                memory=memory,
                memory_mask=state.memory_mask,
                memory_bias=state.memory_bias,
                need_weights=need_weights,
            )
            caches.append(new)
            if need_weights:
                self_weights.append(own)
                cross_weights.append(cross)
        if self.norm is not None:
            x = self.norm(x)
        new_state = replace(state, caches=tuple(caches), position=state.position + t)
        return Decoded(x, self.output, tuple(self_weights), tuple(cross_weights)), new_state
