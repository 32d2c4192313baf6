"""An encoder and a decoder put together: any of one family with any of the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from selfattn.models.protocol import AttentionMaps, Decoded, DecoderState, EncoderMemory, Memory, PreLogits, Seq2Seq


class Encoder(nn.Module, ABC):
    """Reads a source.

    Args:
        output_dim: width of the states it hands over.
    """

    def __init__(self, *, output_dim: int) -> None:
        super().__init__()
        self.output_dim = output_dim

    @abstractmethod
    def forward(self, source: Tensor, source_mask: Tensor, *, need_weights: bool = False) -> EncoderMemory:
        """Encode ids ``[b s]`` with mask ``[b s]``."""

    __call__: Callable[..., Any]


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
    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one token ``[b]``; return logits ``[b v]`` and the new state."""

    @abstractmethod
    def forward(self, memory: EncoderMemory, target_in: Tensor, *, need_weights: bool = False) -> Decoded:
        """Read all positions of ``target_in [b t]``; the logits are ``output`` of the states returned."""

    __call__: Callable[..., Any]


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

    def encode(self, source: Tensor, source_mask: Tensor) -> EncoderMemory:
        """Run the encoder."""
        memory: EncoderMemory = self.encoder(source, source_mask)
        return memory

    def start(self, memory: Memory) -> DecoderState:
        """Start the decoder."""
        assert isinstance(memory, EncoderMemory)
        return self.decoder.start(memory)

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Step the decoder."""
        return self.decoder.step(token, state)

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b t v]``."""
        return self.pre_logits(source, target_in, source_mask=source_mask).logits()

    def pre_logits(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> PreLogits:
        """Return what the decoder's output layer reads, and that layer."""
        decoded: Decoded = self.decoder(self.encode(source, source_mask), target_in)
        return PreLogits(decoded.states, self.decoder.output)

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Return all weights; a part without attention contributes nothing."""
        memory: EncoderMemory = self.encoder(source, source_mask, need_weights=True)
        decoded: Decoded = self.decoder(memory, target_in, need_weights=True)
        return AttentionMaps(memory.weights, decoded.self_weights, decoded.cross_weights)
