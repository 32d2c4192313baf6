"""A model of an encoder and a decoder, each of which may be an RNN or a Transformer; those of the Transformer.

Vaswani et al. 2017; each also works with an RNN on the other side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from selfattn.attention import KeyValue
from selfattn.attention.masks import Mask
from selfattn.layers import TokenEmbedding, TransformerBlock
from selfattn.layers.transformer import Past, run_stack
from selfattn.models.protocol import OF_SOURCE, AttentionMaps, Decoded, DecoderState, EncoderMemory, Seq2Seq


class Encoder(nn.Module, ABC):
    """Reads a source.

    Attributes:
        output_dim: width of the states that it returns.
        takes_gaps: see :class:`~selfattn.models.protocol.Seq2Seq`; default True.
    """

    output_dim: int
    takes_gaps: bool = True

    @abstractmethod
    def forward(self, source: Tensor, source_mask: Tensor, *, need_weights: bool = False) -> EncoderMemory:
        """Encode ids ``[b s]`` with mask ``[b s]``."""

    __call__: Callable[..., EncoderMemory]


class Decoder(nn.Module, ABC):
    """Writes a target, given an encoder's memory.

    Attributes:
        output: maps ``[.. d]`` to logits ``[.. v]``.
    """

    output: nn.Linear

    @abstractmethod
    def start(self, memory: EncoderMemory) -> DecoderState:
        """Return the state before the first target token."""

    @abstractmethod
    def forward(self, tokens: Tensor, state: Any, *, need_weights: bool = False) -> tuple[Decoded, DecoderState]:
        """Read target tokens ``[b t]`` from a state on; return the output at each token, and the new state."""

    __call__: Callable[..., tuple[Decoded, DecoderState]]


class EncoderDecoder(Seq2Seq):
    """A sequence-to-sequence model from an encoder and a decoder (Sutskever et al. 2014; Vaswani et al. 2017).

    Args:
        encoder: an RNN or Transformer encoder.
        decoder: an RNN or Transformer decoder built for the encoder's ``output_dim``.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.takes_gaps = encoder.takes_gaps

    def encode(self, source: Tensor, source_mask: Tensor) -> EncoderMemory:
        """Run the encoder."""
        return self.encoder(source, source_mask)

    def start(self, memory: EncoderMemory) -> DecoderState:
        """Start the decoder."""
        return self.decoder.start(memory)

    def advance(
        self, tokens: Tensor, state: DecoderState, *, need_weights: bool = False
    ) -> tuple[Decoded, DecoderState]:
        """Run the decoder."""
        return self.decoder(tokens, state, need_weights=need_weights)

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Return all weights; a part without attention contributes nothing."""
        memory = self.encoder(source, source_mask, need_weights=True)
        decoded, _ = self.advance(target_in, self.start(memory), need_weights=True)
        return AttentionMaps(memory.weights, decoded.self_weights, decoded.cross_weights)


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
