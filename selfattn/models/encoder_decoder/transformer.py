"""Transformer encoder and decoder (Vaswani et al. 2017); each also works with an RNN on the other side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor, nn

from selfattn.attention import KeyValue
from selfattn.attention.masks import Mask
from selfattn.layers import TokenEmbedding, TransformerBlock
from selfattn.layers.transformer import Past, run_stack
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
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.output_dim = embed.tokens.embedding_dim

    def forward(self, source: Tensor, source_mask: Tensor, *, need_weights: bool = False) -> EncoderMemory:
        """Encode ids ``[b s]`` with mask ``[b s]``."""
        mask = Mask.of_keys(source_mask)
        x = self.embed(source)
        if mask.allowed is not None:
            x = x.masked_fill(~source_mask[..., None], 0.0)  # padding must not influence anything
        result = run_stack(self.layers, self.norm, x, mask=mask, need_weights=need_weights)
        return EncoderMemory(result.x, source_mask, weights=result.self_weights)


@dataclass(frozen=True)
class TransformerState(DecoderState):
    """What a Transformer decoder carries: keys and values of the source and of the target so far.

    Attributes:
        caches: for each layer the cache, or the state, of its self-attention; None before the first token.
        memory: for each layer keys and values of the source for its cross-attention, projected once.
        memory_mask: which source tokens the cross-attention may see.
    """

    caches: tuple[Past, ...]
    memory: tuple[KeyValue, ...] = field(metadata=OF_SOURCE)
    memory_mask: Mask = field(metadata=OF_SOURCE)


class TransformerDecoder(Decoder):
    """Masked self-attention, cross-attention and feed-forward over the target.

    Args:
        embed: target embedding, with positions where they are added.
        layers: the blocks, each with cross-attention.
        output: maps ``[.. d]`` to logits.
        norm: applied to the last block's output; default none.
    """

    def __init__(
        self,
        embed: TokenEmbedding,
        layers: Sequence[TransformerBlock],
        output: nn.Linear,
        *,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.output = output

    def start(self, memory: EncoderMemory) -> TransformerState:
        """Project the memory for every layer, once."""
        blocks = [cast(TransformerBlock, layer) for layer in self.layers]
        projected = tuple(block.project_memory(memory.states, memory.mask) for block in blocks)
        return TransformerState((None,) * len(projected), projected, Mask.of_keys(memory.mask))

    def forward(
        self, tokens: Tensor, state: TransformerState, *, need_weights: bool = False
    ) -> tuple[Decoded, TransformerState]:
        """Read tokens ``[b t]``, all at once; earlier tokens are in the caches."""
        past = state.caches[0]  # all layers have read the same tokens
        if past is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        else:
            positions = past.next_positions(tokens.shape[1])
        x = self.embed(tokens, positions)
        shared = {"mask": Mask(causal=True), "memory_mask": state.memory_mask, "positions": positions}
        shared["need_weights"] = need_weights
        result = run_stack(self.layers, self.norm, x, caches=state.caches, memory=state.memory, **shared)
        decoded = Decoded(result.x, self.output, result.self_weights, result.cross_weights)
        return decoded, replace(state, caches=result.caches)
