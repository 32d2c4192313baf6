"""The settings of a stack of Transformer blocks, which families are made of. Imports no torch until it builds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from selfattn.models.config import PARTS, Checked, Divides, Layers, Size, Width
from selfattn.registry import ATTENTIONS, NORMALIZERS, POSITIONS, SCORES, arguments_of, build_part
from selfattn.settings import Share

if TYPE_CHECKING:
    from torch import nn

    from selfattn.attention import AttentionPosition, MultiHeadAttention
    from selfattn.layers import TokenEmbedding, TransformerBlock
    from selfattn.models.encoder_decoder.model import Decoder, Encoder


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
        from selfattn.models.encoder_decoder.model import TransformerEncoder

        embed, blocks, norm = self.make_stack(tokens, causal=False)
        return TransformerEncoder(embed, blocks, norm=norm)

    def make_decoder(self, tokens: nn.Embedding, source_dim: int, *, tie_output: bool) -> Decoder:
        """Build a decoder for an encoder's width; its output layer may be the embedding table's."""
        from selfattn.layers import output_layer
        from selfattn.models.encoder_decoder.model import TransformerDecoder

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
