"""The settings of an encoder-decoder. Imports no torch until it builds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from selfattn.errors import UserError
from selfattn.models.config import Limits, ModelConfig, Width
from selfattn.models.encoder_decoder.rnn_config import RNNDecoderConfig, RNNEncoderConfig
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register

if TYPE_CHECKING:
    from selfattn.models.encoder_decoder.model import EncoderDecoder


@register.family("encoder-decoder")
@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(ModelConfig):
    """An RNN or a Transformer that reads, with an RNN or a Transformer that writes.

    Attributes:
        encoder: how the source is read.
        decoder: how the target is written.
        share_embeddings: one embedding table for source and target; their widths must agree.
        tie_output: the output layer's matrix is the target embedding (Press and Wolf 2017).
    """

    encoder: RNNEncoderConfig | TransformerConfig
    decoder: RNNDecoderConfig | TransformerConfig
    share_embeddings: bool = False
    tie_output: bool = False

    def problems(self) -> Iterator[str]:
        """Say where one table cannot embed both sides, or the decoder does not fit the encoder."""
        widths = self.encoder.embed_dim, self.decoder.embed_dim
        if self.share_embeddings and widths[0] != widths[1]:
            yield f"share_embeddings: the encoder's embedding has width {widths[0]}, the decoder's {widths[1]}"
        yield from self.decoder.problems_with(self.encoder, tie_output=self.tie_output)

    @property
    def architecture(self) -> str:
        """That of the decoder."""
        return self.decoder.architecture

    def build(self, *, vocab_size: int, pad_id: int, source_vocab_size: int | None = None) -> EncoderDecoder:
        """Build encoder and decoder over their embedding tables, or over one."""
        from torch import nn

        from selfattn.models.encoder_decoder.model import EncoderDecoder

        rows = vocab_size if source_vocab_size is None else source_vocab_size
        source = nn.Embedding(rows, self.encoder.embed_dim, padding_idx=pad_id)
        target = source
        if not self.share_embeddings:
            target = nn.Embedding(vocab_size, self.decoder.embed_dim, padding_idx=pad_id)
        encoder = self.encoder.make_encoder(source)
        return EncoderDecoder(
            encoder, self.decoder.make_decoder(target, encoder.output_dim, tie_output=self.tie_output)
        )

    def shares_vocabulary(self) -> bool:
        """Whether one table embeds both sides."""
        return self.share_embeddings

    def limits(self) -> Limits:
        """What the encoder has positions for and the decoder can attend to; what the decoder has positions for."""
        readable = (self.encoder.most_tokens(), self.decoder.most_attended())
        return Limits(min((most for most in readable if most is not None), default=None), self.decoder.most_tokens())

    def widths(self) -> tuple[Width, ...]:
        """Return those of both parts."""
        widths = (*self.encoder.widths("encoder", self.decoder.slices), *self.decoder.widths("decoder"))
        if not self.tie_output:
            return widths
        # A tied embedding has to fit the output layer, and one that is shared with it has to follow.
        bound = {"encoder.embed_dim", "decoder.embed_dim"} if self.share_embeddings else {"decoder.embed_dim"}
        return tuple(replace(width, role="state") if width.path in bound else width for width in widths)

    def enlarged(self, *, width: int, dropout: float, longest: int) -> Self:
        """Return both parts at the size for sentences; one table embeds both sides where the output can be tied to it.

        RNN states are then three times as wide; where it cannot, the output layer has the numbers instead.
        """
        tied = self.decoder.can_tie
        times = 3 if tied else 1
        encoder = self.encoder.enlarged(width=width, dropout=dropout, longest=longest, times=times)
        # Scores without a projection need equal widths.
        beside = times if self.encoder.recurrent else None
        decoder = self.decoder.enlarged(width=width, dropout=dropout, longest=longest, times=beside)
        return replace(self, encoder=encoder, decoder=decoder, share_embeddings=tied, tie_output=tied)

    def check_language_model(self) -> None:
        """Refuse.

        Raises:
            UserError: always.
        """
        raise UserError("has an encoder, a language model has none")
