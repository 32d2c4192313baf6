"""The settings of an encoder-decoder and of its RNN parts. Imports no torch until it builds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from selfattn.models.config import PARTS, Checked, Divides, Layers, Limits, ModelConfig, Size, Width, smallest
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import NORMALIZERS, SCORES, register
from selfattn.settings import Share

if TYPE_CHECKING:
    from torch import nn

    from selfattn.layers import RecurrentStack
    from selfattn.models.encoder_decoder.model import Decoder, Encoder, EncoderDecoder


@PARTS.register("rnn-encoder")
@dataclass(frozen=True, kw_only=True)
class RNNEncoderConfig(Checked):
    """An RNN encoder.

    Attributes:
        embed_dim: width of the source embedding.
        hidden_dim: width of the state in one direction.
        cell: LSTM or GRU.
        num_layers: how many layers.
        direction: forward, backward (the reversed source), or both.
        residual: add a layer's input to its output, from the second layer on.
        dropout: of embeddings and between layers.
    """

    embed_dim: Size = 32
    hidden_dim: Size = 128
    cell: Literal["lstm", "gru"] = "lstm"
    num_layers: Layers = 1
    direction: Literal["forward", "backward", "both"] = "forward"
    residual: bool = False
    dropout: Share = 0.0

    most_tokens: ClassVar[None] = None
    fixed: ClassVar[dict[str, Any]] = {"handover": "hidden"}

    @property
    def output_dim(self) -> int:
        """Width of the states."""
        return self.hidden_dim * (2 if self.direction == "both" else 1)

    def widths(self, prefix: str = "") -> tuple[Width, ...]:
        """Return its widths; the state stands once for each direction in what is handed over."""
        times = self.output_dim // self.hidden_dim
        widths = super().widths(prefix)
        return tuple(replace(width, times=times, unit=times) if width.role == "state" else width for width in widths)

    def enlarged(self, width: int, dropout: float, longest: int, times: int) -> Self:
        """Return the encoder at the size for sentences: states ``times`` as wide."""
        return replace(self, embed_dim=width, hidden_dim=times * self.hidden_dim, dropout=dropout)

    def make_encoder(self, tokens: nn.Embedding) -> Encoder:
        """Build an encoder over an embedding table."""
        from selfattn import layers
        from selfattn.models.encoder_decoder import rnn

        embed = layers.TokenEmbedding(tokens, dropout=self.dropout)
        stack = make_stack(self, self.embed_dim)
        return rnn.RNNEncoder(embed, stack)


@PARTS.register("rnn-decoder")
@dataclass(frozen=True, kw_only=True)
class RNNDecoderConfig(Checked):
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
        initial_state: copied from the encoder, or projected.
        score: how the state is compared with the source.
        normalize: how the scores of the source become weights.
        max_source_length: longest source of the location score.
        num_heads: attention heads; more than one need ``project``.
        project: whether the attention has projections.
        input_feeding: feed the attentional vector to the next step (luong only).
        dropout: of embeddings, between layers, and before the output.
    """

    attention: Literal["none", "peeky", "textbook", "luong", "bahdanau"] = "textbook"
    embed_dim: Size = 32
    hidden_dim: Size = 128
    cell: Literal["lstm", "gru"] = "lstm"
    num_layers: Layers = 1
    residual: bool = False
    initial_state: Literal["copy", "project"] = "copy"
    score: Annotated[str, SCORES] = "dot"
    normalize: Annotated[str, NORMALIZERS] = "softmax"
    max_source_length: Size = 512
    num_heads: Annotated[int, Divides("hidden_dim")] = 1
    project: bool = False
    input_feeding: bool = False
    dropout: Share = 0.0

    direction: ClassVar[Literal["forward"]] = "forward"
    most_tokens: ClassVar[None] = None
    fixed: ClassVar[dict[str, Any]] = {"score_dim": None}
    later: ClassVar[tuple[str, ...]] = ("normalize",)

    def problems(self) -> Iterator[str]:
        """Say what its attention has no use for."""
        if self.input_feeding and self.attention != "luong":
            yield f"input_feeding: only with attention 'luong', not {self.attention!r}"
        if self.num_heads > 1 and not self.project:
            yield "num_heads: several heads need projections; set project"

    @property
    def architecture(self) -> str:
        """The kind of model that published figures are compared with."""
        return "rnn with attention" if self.attends else "rnn without attention"

    @property
    def attends(self) -> bool:
        """Whether it looks at all states of the source."""
        return self.attention not in ("none", "peeky")

    @property
    def can_tie(self) -> bool:
        """Whether a layer before the output makes vectors of the embedding's width, whatever the state's."""
        return self.attention in ("luong", "bahdanau")

    @property
    def most_attended(self) -> int | None:
        """Number of source tokens that it can attend to; None for any number."""
        return self.max_source_length if self.attends and SCORES[self.score].counts_keys else None

    def enlarged(self, width: int, dropout: float, longest: int, times: int | None) -> Self:
        """Return the decoder at the size for sentences: states ``times`` as wide, or of the width of embeddings."""
        hidden_dim = width if times is None else times * self.hidden_dim
        limit = longest if SCORES[self.score].counts_keys else self.max_source_length
        return replace(self, embed_dim=width, hidden_dim=hidden_dim, dropout=dropout, max_source_length=limit)

    def problems_with(self, encoder: RNNEncoderConfig | TransformerConfig, *, tie_output: bool) -> Iterator[str]:
        """Say why it cannot begin from an encoder's last state, attend to its states, or write by its embedding."""
        width = encoder.output_dim
        is_like = (width, encoder.num_layers) == (self.hidden_dim, self.num_layers)
        if self.initial_state == "copy" and not (is_like and isinstance(encoder, RNNEncoderConfig)):
            yield (
                f"decoder.initial_state: 'copy' needs an RNN encoder with num_layers {self.num_layers} and states of "
                f"width {self.hidden_dim}, got {encoder.num_layers} and {width}; use 'project'"
            )
        takes_states = self.attends and not self.project  # as they come
        if takes_states and SCORES[self.score].equal_widths and width != self.hidden_dim:
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

        from selfattn import attention, layers
        from selfattn.models.encoder_decoder import rnn

        def parts(fed: int, read: int) -> rnn.RNNParts:
            """Make a stack that reads ``fed`` numbers beside the embedding, and an output that reads ``read``."""
            stack = make_stack(self, self.embed_dim + fed)
            embed = layers.TokenEmbedding(tokens, dropout=self.dropout)
            bridge = rnn.Bridge(self.initial_state, source_dim, stack)
            output = layers.output_layer(read, tokens, tie_output)
            return rnn.RNNParts(embed, stack, bridge, output, self.dropout)

        if not self.attends:
            peeky = self.attention == "peeky"
            seen = source_dim if peeky else 0
            return rnn.PlainDecoder(parts(seen, self.hidden_dim + seen), peeky=peeky)
        heads = self.num_heads
        width = self.hidden_dim
        key_width = (width if self.project else source_dim) // heads
        score = attention.make_score(self.score, width // heads, key_width, max_length=self.max_source_length)
        attend = attention.MultiHeadAttention(
            width, source_dim, num_heads=heads, score=score, normalize=self.normalize, project=self.project
        )
        # A tied output reads vectors of the embedding's width, so the layer before it makes such vectors.
        inner = self.embed_dim if tie_output else width
        joined = width + attend.output_dim
        if self.attention == "bahdanau":
            maxout = nn.Linear(joined + self.embed_dim, 2 * inner)
            return rnn.BahdanauDecoder(parts(attend.output_dim, inner), attend, maxout)
        combine = nn.Linear(joined, inner, bias=False) if self.attention == "luong" else None
        decoder_parts = parts(inner if self.input_feeding else 0, joined if combine is None else inner)
        return rnn.AttentionDecoder(decoder_parts, attend, combine=combine, input_feeding=self.input_feeding)


def make_stack(config: RNNEncoderConfig | RNNDecoderConfig, input_dim: int) -> RecurrentStack:
    """Build the layers of an RNN that reads vectors of a width."""
    from selfattn.layers import RecurrentStack

    names = ("hidden_dim", "cell", "num_layers", "direction", "residual", "dropout")
    return RecurrentStack(input_dim, **{name: getattr(config, name) for name in names})


@register.family("encoder-decoder")
@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(ModelConfig):
    """An RNN or a Transformer that reads, with an RNN or a Transformer that writes.

    Of both parts it needs ``embed_dim``, ``output_dim``, ``most_tokens``, ``widths`` and ``enlarged``; of an encoder
    ``make_encoder``; of a decoder ``make_decoder``, ``problems_with``, ``most_attended``, ``can_tie`` and
    ``architecture``.

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
        if isinstance(self.decoder, RNNDecoderConfig):  # a Transformer's decoder fits any encoder
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
        decoder = self.decoder.make_decoder(target, encoder.output_dim, tie_output=self.tie_output)
        return EncoderDecoder(encoder, decoder)

    def shares_vocabulary(self) -> bool:
        """Whether one table embeds both sides."""
        return self.share_embeddings

    def limits(self) -> Limits:
        """What the encoder has positions for and the decoder can attend to; what the decoder has positions for."""
        return Limits(smallest([self.encoder.most_tokens, self.decoder.most_attended]), self.decoder.most_tokens)

    def widths(self, prefix: str = "") -> tuple[Width, ...]:
        """Return those of both parts."""
        widths = super().widths(prefix)
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
        encoder = self.encoder.enlarged(width, dropout, longest, times)
        # Scores without a projection need equal widths.
        beside = times if isinstance(self.encoder, RNNEncoderConfig) else None
        decoder = self.decoder.enlarged(width, dropout, longest, beside)
        return replace(self, encoder=encoder, decoder=decoder, share_embeddings=tied, tie_output=tied)
