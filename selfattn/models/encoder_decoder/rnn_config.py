"""The settings of RNN encoders and decoders. Imports no torch until it builds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from selfattn.models.config import PARTS, Divides, PartConfig, Width
from selfattn.models.transformer_config import output_layer
from selfattn.registry import SCORES

if TYPE_CHECKING:
    from torch import nn

    from selfattn.attention import MultiHeadAttention
    from selfattn.layers import RecurrentStack
    from selfattn.models.encoder_decoder.model import Decoder
    from selfattn.models.encoder_decoder.rnn import RNNEncoder, RNNParts


@PARTS.register("rnn-encoder")
@dataclass(frozen=True, kw_only=True)
class RNNEncoderConfig(PartConfig):
    """An RNN encoder.

    Attributes:
        embed_dim: width of the source embedding.
        hidden_dim: width of the state in one direction.
        cell: LSTM or GRU.
        num_layers: how many layers.
        direction: forward, backward (the reversed source), or both.
        residual: add a layer's input to its output, from the second layer on.
        handover: hand over each layer's final h, or an LSTM's c as well ("all").
        dropout: of embeddings and between layers.
    """

    embed_dim: int = 32
    hidden_dim: int = 128
    cell: Literal["lstm", "gru"] = "lstm"
    num_layers: int = 1
    direction: Literal["forward", "backward", "both"] = "forward"
    residual: bool = False
    handover: Literal["hidden", "all"] = "hidden"
    dropout: float = 0.0

    recurrent: ClassVar[bool] = True

    @property
    def output_dim(self) -> int:
        """Width of what it hands over."""
        return self.hidden_dim * (2 if self.direction == "both" else 1)

    def widths(self, prefix: str, slices: int = 1) -> tuple[Width, ...]:
        """Return its widths; ``slices`` is what else its output has to be a multiple of."""
        times = self.output_dim // self.hidden_dim
        return (
            Width(f"{prefix}.hidden_dim", self.hidden_dim, times, math.lcm(times, slices)),
            Width(f"{prefix}.embed_dim", self.embed_dim, role="embedding"),
        )

    def enlarged(self, *, width: int, dropout: float, longest: int, times: int | None = None) -> Self:
        """Return the encoder at the size for sentences."""
        hidden_dim = width if times is None else times * self.hidden_dim
        return replace(self, embed_dim=width, hidden_dim=hidden_dim, dropout=dropout)

    def make_encoder(self, tokens: nn.Embedding) -> RNNEncoder:
        """Build an encoder over an embedding table."""
        from selfattn.layers import TokenEmbedding
        from selfattn.models.encoder_decoder.rnn import RNNEncoder

        stack = _stack(self, self.embed_dim)
        return RNNEncoder(TokenEmbedding(tokens, dropout=self.dropout), stack, handover=self.handover)


@PARTS.register("rnn-decoder")
@dataclass(frozen=True, kw_only=True)
class RNNDecoderConfig(PartConfig):
    """An RNN decoder.

    Attributes:
        attention: none (fixed-length vector); peeky (that vector at every step); textbook (after the RNN,
            [context; state] to the output); luong (tanh(W [context; state]) before the output); bahdanau (before
            the RNN).
        embed_dim: width of the target embedding.
        hidden_dim: width of the state.
        cell: LSTM or GRU.
        num_layers: how many layers.
        residual: add a layer's input to its output, from the second layer on.
        initial_state: zero, copied from the encoder, or projected.
        score: how the state is compared with the source.
        score_dim: width inside the tanh of additive and concat; default the query's.
        max_source_length: longest source of the location score.
        num_heads: attention heads.
        project: whether the attention has projections; needed for heads that differ in more than their slice.
        input_feeding: feed the attentional vector to the next step (luong only).
        dropout: of embeddings, between layers, and before the output.
    """

    attention: Literal["none", "peeky", "textbook", "luong", "bahdanau"] = "textbook"
    embed_dim: int = 32
    hidden_dim: int = 128
    cell: Literal["lstm", "gru"] = "lstm"
    num_layers: int = 1
    residual: bool = False
    initial_state: Literal["zero", "copy", "project"] = "copy"
    score: Annotated[str, SCORES] = "dot"
    score_dim: int | None = None
    max_source_length: int = 512
    num_heads: Annotated[int, Divides("hidden_dim")] = 1
    project: bool = False
    input_feeding: bool = False
    dropout: float = 0.0

    def problems(self) -> Iterator[str]:
        """Say what its attention has no use for, or where nothing of the source reaches it."""
        if self.input_feeding and self.attention != "luong":
            yield f"input_feeding: only with attention 'luong', not {self.attention!r}"
        if self.attention == "none" and self.initial_state == "zero":
            yield (
                "initial_state: with 'zero' and attention 'none' nothing of the source reaches the decoder; use 'copy' "
                "or 'project'"
            )

    recurrent: ClassVar[bool] = True
    direction: ClassVar[Literal["forward"]] = "forward"

    @property
    def architecture(self) -> str:
        """Which figures of others it is compared with."""
        return "rnn with attention" if self._attends else "rnn without attention"

    @property
    def can_tie(self) -> bool:
        """Whether a layer before the output makes vectors of the embedding's width, whatever the state's."""
        return self.attention in ("luong", "bahdanau")

    @property
    def _attends(self) -> bool:
        return self.attention not in ("none", "peeky")

    def most_attended(self) -> int | None:
        """How many source tokens it can attend to; None for any number."""
        return self.max_source_length if self._attends and SCORES[self.score].counts_keys else None

    @property
    def slices(self) -> int:
        """Into how many heads its attention slices the encoder's states as they come."""
        return 1 if self.project else self.num_heads

    def widths(self, prefix: str, slices: int = 1) -> tuple[Width, ...]:
        """Return its widths."""
        score = () if self.score_dim is None else (Width(f"{prefix}.score_dim", self.score_dim),)
        return (
            Width(f"{prefix}.hidden_dim", self.hidden_dim, unit=self.num_heads),
            *score,
            Width(f"{prefix}.embed_dim", self.embed_dim, role="embedding"),
        )

    def enlarged(self, *, width: int, dropout: float, longest: int, times: int | None = None) -> Self:
        """Return the decoder at the size for sentences."""
        hidden_dim = width if times is None else times * self.hidden_dim
        most = longest if SCORES[self.score].counts_keys else self.max_source_length
        return replace(self, embed_dim=width, hidden_dim=hidden_dim, dropout=dropout, max_source_length=most)

    def problems_with(self, encoder: PartConfig, *, tie_output: bool) -> Iterator[str]:
        """Say why it cannot begin from an encoder's last state, attend to its states, or write by its embedding."""
        width = encoder.output_dim
        if self.initial_state == "copy":
            where = "decoder.initial_state: 'copy'"
            if not encoder.recurrent:
                yield f"{where} needs an RNN encoder; use 'project'"
            shapes = {"width": (width, self.hidden_dim), "num_layers": (encoder.num_layers, self.num_layers)}
            for what, (theirs, ours) in shapes.items():
                if theirs != ours:
                    yield (
                        f"{where} needs equal shapes, but {what} is {theirs} in the encoder and {ours} in the decoder; "
                        "use 'project'"
                    )
        if self._attends and not self.project:  # takes the states as they come
            if width % self.num_heads:
                yield f"decoder.num_heads: {self.num_heads} does not divide the encoder's width {width}"
            if SCORES[self.score].equal_widths and width != self.hidden_dim:
                yield (
                    f"decoder.score: {self.score!r} needs equal widths, but the encoder's is {width} and the decoder's "
                    f"{self.hidden_dim}; use 'general', or project"
                )
        if tie_output and not self.can_tie:  # the output reads the state, and what of the source is joined to it
            seen = {"none": 0, "peeky": width, "textbook": self.hidden_dim if self.project else width}[self.attention]
            if self.hidden_dim + seen != self.embed_dim:
                yield (
                    f"tie_output: with attention {self.attention!r} the output reads width {self.hidden_dim + seen}, "
                    f"the embedding has {self.embed_dim}"
                )

    def make_decoder(self, tokens: nn.Embedding, source_dim: int, *, tie_output: bool) -> Decoder:
        """Build a decoder for an encoder's width; its output layer may be the embedding table's."""
        from torch import nn

        from selfattn.layers import TokenEmbedding
        from selfattn.models.encoder_decoder.rnn import (
            AttentionDecoder,
            BahdanauDecoder,
            Bridge,
            PlainDecoder,
            RNNParts,
        )

        def parts(fed: int, read: int) -> RNNParts:
            """Make them for a stack that is fed so much beside the embedding, and an output of so wide vectors."""
            stack = _stack(self, self.embed_dim + fed)
            embed, bridge = TokenEmbedding(tokens, dropout=self.dropout), Bridge(self.initial_state, source_dim, stack)
            return RNNParts(embed, stack, bridge, output_layer(read, tokens, tie=tie_output), self.dropout)

        if not self._attends:
            peeky = self.attention == "peeky"
            seen = source_dim if peeky else 0
            return PlainDecoder(parts(seen, self.hidden_dim + seen), peeky=peeky)
        # A tied output reads vectors of the embedding's width, so the layer before it makes such vectors.
        inner = self.embed_dim if tie_output else self.hidden_dim
        attention = self._make_attention(source_dim)
        joined = self.hidden_dim + attention.output_dim
        if self.attention == "bahdanau":
            maxout = nn.Linear(joined + self.embed_dim, 2 * inner)
            return BahdanauDecoder(parts(attention.output_dim, inner), attention, maxout)
        combine = nn.Linear(joined, inner, bias=False) if self.attention == "luong" else None
        decoder_parts = parts(inner if self.input_feeding else 0, joined if combine is None else inner)
        return AttentionDecoder(decoder_parts, attention, combine=combine, input_feeding=self.input_feeding)

    def _make_attention(self, source_dim: int) -> MultiHeadAttention:
        from selfattn.attention import MultiHeadAttention, make_score

        query_width = self.hidden_dim // self.num_heads
        key_width = query_width if self.project else source_dim // self.num_heads
        score = make_score(
            self.score, query_width, key_width, hidden_dim=self.score_dim, max_length=self.max_source_length
        )
        return MultiHeadAttention(
            self.hidden_dim, source_dim, num_heads=self.num_heads, score=score, project=self.project
        )


def _stack(config: RNNEncoderConfig | RNNDecoderConfig, input_dim: int) -> RecurrentStack:
    from selfattn.layers import RecurrentStack

    return RecurrentStack(
        input_dim,
        config.hidden_dim,
        cell=config.cell,
        num_layers=config.num_layers,
        direction=config.direction,
        residual=config.residual,
        dropout=config.dropout,
    )
