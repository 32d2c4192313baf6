"""The settings of decoder-only models. Imports no torch until they build."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from selfattn.models.config import Limits, ModelConfig
from selfattn.models.encoder_decoder.config import RNNEncoderConfig, make_stack
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import ATTENTIONS, SCORES, register

if TYPE_CHECKING:
    from selfattn.models.decoder_only.model import DecoderOnly, RecurrentModel


@register.family("decoder-only")
@dataclass(frozen=True, kw_only=True)
class DecoderOnlyConfig(ModelConfig):
    """A decoder-only model over source and target as one sequence.

    Attributes:
        stack: the blocks.
        bidirectional_prefix: source tokens see the whole source.
        tie_output: the output layer's matrix is the embedding.
    """

    stack: TransformerConfig
    bidirectional_prefix: bool = False
    tie_output: bool = False

    def problems(self) -> Iterator[str]:
        """Refuse a score that padding would shift, and a state that would have to be read in both directions."""
        if SCORES[self.stack.score].counts_keys:
            yield f"stack.score: {self.stack.score!r} needs a source of its own; use another score"
        if self.bidirectional_prefix and ATTENTIONS[self.stack.attention].has_state:
            name = self.stack.attention
            yield f"bidirectional_prefix: attention {name!r} reads from left to right; leave one of them out"

    @property
    def architecture(self) -> str:
        """That of its stack."""
        return self.stack.architecture

    @property
    def reads_one_sequence(self) -> bool:
        """Whether the source is read from left to right, too."""
        return not self.bidirectional_prefix

    def build(self, *, vocab_size: int, pad_id: int, source_vocab_size: int | None = None) -> DecoderOnly:
        """Build the stack over the one embedding table."""
        from torch import nn

        from selfattn.layers import output_layer
        from selfattn.models.decoder_only.model import DecoderOnly

        tokens = nn.Embedding(vocab_size, self.stack.dim, padding_idx=pad_id)
        embed, blocks, norm = self.stack.make_stack(tokens, causal=True)
        output = output_layer(self.stack.dim, tokens, self.tie_output)
        return DecoderOnly(embed, blocks, output, norm=norm, bidirectional_prefix=self.bidirectional_prefix)

    def limits(self) -> Limits:
        """Positions are for source and target together."""
        return Limits(together=self.stack.most_tokens)

    def enlarged(self, *, width: int, dropout: float, longest: int) -> Self:
        """Return eight blocks, as many as an encoder and a decoder have together, and a tied output."""
        stack = self.stack.enlarged(width, dropout, longest, None, num_layers=8)
        return replace(self, stack=stack, tie_output=True)


@register.family("recurrent")
@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ModelConfig):
    """An RNN over source and target as one sequence.

    Attributes:
        stack: the RNN: a GRU that reads forward.
    """

    stack: RNNEncoderConfig

    architecture: ClassVar[str] = "rnn without attention"
    reads_one_sequence: ClassVar[bool] = True

    def problems(self) -> Iterator[str]:
        """Refuse what cannot go on from its state."""
        if self.stack.cell != "gru":
            yield f"stack.cell: expected gru, got {self.stack.cell!r}"
        if self.stack.direction != "forward":
            yield f"stack.direction: expected forward, got {self.stack.direction!r}"

    def build(self, *, vocab_size: int, pad_id: int, source_vocab_size: int | None = None) -> RecurrentModel:
        """Build the RNN over the one embedding table."""
        from torch import nn

        from selfattn.layers import TokenEmbedding
        from selfattn.models.decoder_only.model import RecurrentModel

        tokens = nn.Embedding(vocab_size, self.stack.embed_dim, padding_idx=pad_id)
        embed = TokenEmbedding(tokens, dropout=self.stack.dropout)
        output = nn.Linear(self.stack.output_dim, vocab_size)
        return RecurrentModel(embed, make_stack(self.stack, self.stack.embed_dim), output)

    def enlarged(self, *, width: int, dropout: float, longest: int) -> Self:
        """Return states three times as wide, as of other RNNs."""
        return replace(self, stack=self.stack.enlarged(width, dropout, longest, 3))
