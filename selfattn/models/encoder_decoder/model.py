"""A model of an encoder and a decoder, each of which may be an RNN or a Transformer."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from selfattn.models.protocol import AttentionMaps, Decoded, DecoderState, EncoderMemory, Seq2Seq


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
