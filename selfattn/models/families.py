"""The settings of the project's model families, and the named models, read from ``presets.toml``.

A family is made of parts: stacks of Transformer blocks and recurrent networks. A plugin registers families and models
of its own by ``register.family`` and ``register.preset``. Imports no torch until a model is built.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from selfattn.models.config import PARTS, Checked, Divides, Layers, Limits, ModelConfig, Size, Width, config_from_dict
from selfattn.registry import ATTENTIONS, NORMALIZERS, POSITIONS, PRESETS, SCORES, arguments_of, build_part, register
from selfattn.settings import Share

if TYPE_CHECKING:
    from torch import nn

    from selfattn.attention.layer import MultiHeadAttention
    from selfattn.attention.positions import AttentionPosition
    from selfattn.layers.recurrent import RecurrentStack
    from selfattn.layers.transformer import TokenEmbedding, TransformerBlock
    from selfattn.models.decoder_only import DecoderOnly, RecurrentModel
    from selfattn.models.encoder_decoder import Decoder, Encoder, EncoderDecoder


@PARTS.register("transformer")
@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Checked):
    """A stack of Transformer blocks: an encoder, a decoder, or a decoder-only model.

    Attributes:
        dim: model width.
        num_heads: attention heads.
        num_kv_heads: key-value heads; default as many as heads; 1 is multi-query attention.
        num_layers: how many blocks.
        ffn_dim: width inside the feed-forward blocks.
        activation: relu, gelu, silu (swish) or swiglu.
        norm: layer or rms.
        norm_first: pre-norm, or post-norm as in the original.
        position: none, sinusoidal, learned, rotary, alibi, t5 (relative bias), or one of your own; all but the added
            ones act in self-attention only.
        sinusoid_layout: sines and cosines in turn, or in two halves as in Marian.
        scale_embedding: multiply the token embeddings by the square root of dim.
        score: how a query is compared with a key.
        normalize: how the scores of a query become weights.
        attention: softmax, which keeps all keys of a text; linear or delta, which keep a matrix of fixed size; or one
            of your own. With alibi or retention linear attention decays; other positions inside do not go with it.
        hybrid: every second block has softmax attention; goes with another one.
        qk_norm: RMS-normalise queries and keys in each head.
        max_length: number of learned positions, and longest text of the location score.
        dropout: of embeddings and of each part's output.
        attention_dropout: of attention weights.
        activation_dropout: inside the feed-forward blocks.
    """

    dim: Size = 64
    num_heads: Annotated[int, Divides("dim")] = 4
    num_kv_heads: Annotated[int | None, Divides("num_heads")] = None
    num_layers: Layers = 1
    ffn_dim: Size = 128
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    norm: Literal["layer", "rms"] = "layer"
    norm_first: bool = True
    position: Annotated[str, POSITIONS] = "sinusoidal"
    sinusoid_layout: Literal["interleaved", "halves"] = "interleaved"
    scale_embedding: bool = True
    score: Annotated[str, SCORES] = "scaled_dot"
    normalize: Annotated[str, NORMALIZERS] = "softmax"
    attention: Annotated[str, ATTENTIONS] = "softmax"
    hybrid: bool = False
    qk_norm: bool = False
    max_length: Size = 512
    dropout: Share = 0.0
    attention_dropout: Share = 0.0
    activation_dropout: Share = 0.0

    # What a decoder of RNNs decides by its attention: see RNNDecoderConfig.
    architecture: ClassVar[str] = "transformer"
    fixed: ClassVar[dict[str, Any]] = {"window": None}
    later: ClassVar[tuple[str, ...]] = ("normalize", "attention", "hybrid")
    stored_as: ClassVar[dict[str, str]] = {"attention": "state"}
    can_tie: ClassVar[bool] = True

    def problems(self) -> Iterator[str]:
        """Say where positions do not fit the width or the attention, and what its attention has no use for."""
        unit = POSITIONS[self.position].width_unit(self.num_heads)
        if self.dim % unit:
            yield f"dim: {self.position} with {self.num_heads} heads needs a multiple of {unit}, got {self.dim}"
        usual = type(self)
        if self.hybrid and self.attention == usual.attention:
            yield f"hybrid: every second block has {usual.attention} attention; set attention to another one"
        attention = ATTENTIONS[self.attention]
        for name in ("score", "normalize", "qk_norm"):
            default = getattr(usual, name)
            if not (self.hybrid or getattr(self, name) == default or name in arguments_of(attention)):
                yield f"{name}: has no effect with attention {self.attention!r}; leave it at {default}"
        if not attention.takes_position(POSITIONS[self.position]):
            fitting = [name for name, kind in POSITIONS.items() if attention.takes_position(kind)]
            yield f"position: with attention {self.attention!r} expected {', '.join(fitting)}, got {self.position!r}"

    @property
    def output_dim(self) -> int:
        """Width of the states."""
        return self.dim

    @property
    def embed_dim(self) -> int:
        """Width of its embedding."""
        return self.dim

    @property
    def most_tokens(self) -> int | None:
        """Number of positions; None for any number."""
        return self.max_length if POSITIONS[self.position].bounded or SCORES[self.score].counts_keys else None

    @property
    def most_attended(self) -> int | None:
        """Number of source tokens that its cross-attention can attend to; None for any number."""
        return self.max_length if SCORES[self.score].counts_keys else None

    def widths(self, prefix: str = "") -> tuple[Width, ...]:
        """Return its widths; ``dim`` is a multiple of what heads and positions need."""
        unit = math.lcm(self.num_heads, POSITIONS[self.position].width_unit(self.num_heads))
        return tuple(replace(width, unit=unit) if width.role == "state" else width for width in super().widths(prefix))

    def enlarged(self, width: int, dropout: float, longest: int, times: int | None, num_layers: int = 4) -> Self:
        """Return the stack at the size for sentences; ``longest`` and ``times``, of RNN states, change nothing."""
        return replace(self, dim=width, num_layers=num_layers, ffn_dim=2 * width, dropout=dropout)

    def make_encoder(self, tokens: nn.Embedding) -> Encoder:
        """Build an encoder over an embedding table."""
        from selfattn.models.encoder_decoder import TransformerEncoder

        embed, blocks, norm = self.make_stack(tokens, causal=False)
        return TransformerEncoder(embed, blocks, norm=norm)

    def make_decoder(self, tokens: nn.Embedding, source_dim: int, *, tie_output: bool) -> Decoder:
        """Build a decoder for an encoder's width; its output layer may be the embedding table's."""
        from selfattn.layers.transformer import output_layer
        from selfattn.models.encoder_decoder import TransformerDecoder

        embed, blocks, norm = self.make_stack(tokens, causal=True, context_dim=source_dim)
        output = output_layer(self.dim, tokens, tie_output)
        return TransformerDecoder(embed, blocks, output, norm=norm)

    def make_stack(
        self, tokens: nn.Embedding, *, causal: bool, context_dim: int | None = None
    ) -> tuple[TokenEmbedding, list[TransformerBlock], nn.Module | None]:
        """Build the embedding, the blocks, and the norm behind the last one, which pre-norm needs.

        All blocks share one position module; with a ``context_dim`` each has cross-attention.
        """
        from selfattn import attention, layers

        head_dim = self.dim // self.num_heads
        sizes = {"dim": self.dim, "num_heads": self.num_heads, "head_dim": head_dim, "max_length": self.max_length}
        position = build_part(POSITIONS, self.position, **sizes, bidirectional=not causal, layout=self.sinusoid_layout)
        added = position if isinstance(position, attention.EmbeddingPosition) else None
        inside = position if isinstance(position, attention.AttentionPosition) else None

        def attend_to(number: int, context_dim: int | None, position: AttentionPosition | None) -> MultiHeadAttention:
            """Make an attention of the block of this number."""
            is_softmax = self.hybrid and number % 2 == 1
            layer: MultiHeadAttention = build_part(
                ATTENTIONS,
                type(self).attention if is_softmax else self.attention,
                query_dim=self.dim,
                context_dim=context_dim,
                num_heads=self.num_heads,
                num_kv_heads=self.num_kv_heads,
                score=attention.make_score(self.score, head_dim, head_dim, max_length=self.max_length),
                normalize=self.normalize,
                position=position,
                dropout=self.attention_dropout,
                qk_norm=self.qk_norm,
            )
            return layer

        embed = layers.TokenEmbedding(tokens, added, scale=self.scale_embedding, dropout=self.dropout)
        blocks = [
            layers.TransformerBlock(
                self.dim,
                self_attn=attend_to(number, None, inside),
                cross_attn=None if context_dim is None else attend_to(number, context_dim, None),
                feed_forward=layers.FeedForward(
                    self.dim, self.ffn_dim, activation=self.activation, dropout=self.activation_dropout
                ),
                norm=self.norm,
                norm_first=self.norm_first,
                dropout=self.dropout,
            )
            for number in range(self.num_layers)
        ]
        return embed, blocks, layers.make_norm(self.norm, self.dim) if self.norm_first else None


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
        from selfattn.models import encoder_decoder

        embed = layers.TokenEmbedding(tokens, dropout=self.dropout)
        stack = make_stack(self, self.embed_dim)
        return encoder_decoder.RNNEncoder(embed, stack)


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
        from selfattn.models import encoder_decoder

        def parts(fed: int, read: int) -> encoder_decoder.RNNParts:
            """Make a stack that reads ``fed`` numbers beside the embedding, and an output that reads ``read``."""
            stack = make_stack(self, self.embed_dim + fed)
            embed = layers.TokenEmbedding(tokens, dropout=self.dropout)
            bridge = encoder_decoder.Bridge(self.initial_state, source_dim, stack)
            output = layers.output_layer(read, tokens, tie_output)
            return encoder_decoder.RNNParts(embed, stack, bridge, output, self.dropout)

        if not self.attends:
            peeky = self.attention == "peeky"
            seen = source_dim if peeky else 0
            return encoder_decoder.PlainDecoder(parts(seen, self.hidden_dim + seen), peeky=peeky)
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
            return encoder_decoder.BahdanauDecoder(parts(attend.output_dim, inner), attend, maxout)
        combine = nn.Linear(joined, inner, bias=False) if self.attention == "luong" else None
        decoder_parts = parts(inner if self.input_feeding else 0, joined if combine is None else inner)
        return encoder_decoder.AttentionDecoder(
            decoder_parts, attend, combine=combine, input_feeding=self.input_feeding
        )


def make_stack(config: RNNEncoderConfig | RNNDecoderConfig, input_dim: int) -> RecurrentStack:
    """Build the layers of an RNN that reads vectors of a width."""
    from selfattn.layers.recurrent import RecurrentStack

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

        from selfattn.models.encoder_decoder import EncoderDecoder

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
        read = Limits(source=self.encoder.most_tokens)
        return read.both(Limits(source=self.decoder.most_attended, target=self.decoder.most_tokens))

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

        from selfattn.layers.transformer import output_layer
        from selfattn.models.decoder_only import DecoderOnly

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

        from selfattn.layers.transformer import TokenEmbedding
        from selfattn.models.decoder_only import RecurrentModel

        tokens = nn.Embedding(vocab_size, self.stack.embed_dim, padding_idx=pad_id)
        embed = TokenEmbedding(tokens, dropout=self.stack.dropout)
        output = nn.Linear(self.stack.output_dim, vocab_size)
        return RecurrentModel(embed, make_stack(self.stack, self.stack.embed_dim), output)

    def enlarged(self, *, width: int, dropout: float, longest: int) -> Self:
        """Return states three times as wide, as of other RNNs."""
        return replace(self, stack=self.stack.enlarged(width, dropout, longest, 3))


__all__ = ["PRESETS", "USUAL", "Preset", "get_preset"]

USUAL = ("rnn-attention", "transformer")
"""The models that are compared where none are named; the last is trained where none is."""


@dataclass(frozen=True)
class Preset:
    """A named model.

    Attributes:
        summary: what it is, in one line.
        source: whose it is.
        make: makes its settings when they are first asked for; those of the project have about 182,000 parameters
            outside the embeddings each, so that comparisons begin at equal size.
        attention: whether the target looks at the source through attention.

    Example:
        >>> from selfattn.models.families import DecoderOnlyConfig, TransformerConfig
        >>> Preset("tiny", "me", lambda: DecoderOnlyConfig(stack=TransformerConfig(dim=8))).config.stack.dim
        8
    """

    summary: str
    source: str
    make: Callable[[], ModelConfig]
    attention: bool = True

    @cached_property
    def config(self) -> ModelConfig:
        """Its settings."""
        return self.make()


def get_preset(name: str) -> Preset:
    """Look a preset up.

    Args:
        name: one of :data:`selfattn.registry.PRESETS`.

    Raises:
        UserError: there is none of that name; the message offers the nearest.

    Example:
        >>> get_preset("transformer").attention
        True
    """
    preset: Preset = PRESETS[name]
    return preset


PRESETS.expect(
    None, lambda part: None if isinstance(part, Preset) else f"expected a Preset, got {type(part).__name__}; make one"
)

_TABLE = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
for _name, _config in _TABLE.items():
    _about = {key: _config.pop(key) for key in ("summary", "source", "attention") if key in _config}
    register.preset(_name)(Preset(**_about, make=partial(config_from_dict, _config, where=f"model {_name}")))
