"""Transformer encoder and decoder (Vaswani et al. 2017), each usable with a partner of the other family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from selfattn.attention import KeyValue, key_mask, sliding_window_mask
from selfattn.layers import TokenEmbedding, TransformerBlock
from selfattn.models.encoder_decoder.model import Decoder, Encoder
from selfattn.models.protocol import Decoded, DecoderState, EncoderMemory


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
        x = self.embed(source).masked_fill(~source_mask[..., None], 0.0)  # what stands at padding is felt nowhere
        mask = key_mask(source_mask)
        weights: list[Tensor] = []
        for layer in self.layers:
            x, _, self_weights, _ = layer(x, mask=mask, need_weights=need_weights)
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
        source_mask: bool ``[b s]``.
        position: int64 ``[b]``, of the token that comes next.
    """

    caches: tuple[KeyValue | None, ...]
    memory: tuple[KeyValue, ...]
    source_mask: Tensor
    position: Tensor


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
        return TransformerState((None,) * len(projected), projected, memory.mask, position)

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, TransformerState]:
        """Read one token ``[b]``; the prefix is in the caches."""
        assert isinstance(state, TransformerState)
        decoded, new = self._advance(token[:, None], state, need_weights=False)
        return self.output(decoded.states)[:, 0], new

    def forward(self, memory: EncoderMemory, target_in: Tensor, *, need_weights: bool = False) -> Decoded:
        """Decode all positions of ``target_in [b t]`` at once."""
        return self._advance(target_in, self.start(memory), need_weights=need_weights)[0]

    def blocks(self) -> list[TransformerBlock]:
        """Return the blocks, typed."""
        return [layer for layer in self.layers if isinstance(layer, TransformerBlock)]

    def _advance(
        self, tokens: Tensor, state: TransformerState, *, need_weights: bool
    ) -> tuple[Decoded, TransformerState]:
        t = tokens.shape[1]
        positions = state.position[:, None] + torch.arange(t, device=tokens.device)
        x = self.embed(tokens, positions)
        memory_mask = key_mask(state.source_mask)
        caches: list[KeyValue] = []
        self_weights: list[Tensor] = []
        cross_weights: list[Tensor] = []
        for layer, cache, memory in zip(self.blocks(), state.caches, state.memory, strict=True):
            seen = t + (0 if cache is None else cache.key.shape[2])
            mask = None if self.window is None else sliding_window_mask(t, seen, self.window, device=x.device)
            x, new, own, cross = layer(
                x,
                cache=cache,
                mask=mask,
                causal=self.window is None,
                positions=positions,
                memory=memory,
                memory_mask=memory_mask,
                need_weights=need_weights,
            )
            caches.append(new)
            if need_weights:
                self_weights.append(own)
                cross_weights.append(cross)
        if self.norm is not None:
            x = self.norm(x)
        new_state = TransformerState(tuple(caches), state.memory, state.source_mask, state.position + t)
        return Decoded(x, tuple(self_weights), tuple(cross_weights)), new_state
