"""From a configuration to a model: the only place that reads configurations; blocks take plain arguments."""

from __future__ import annotations

import torch
from torch import nn

from selfattn.attention import (
    Alibi,
    AttentionPosition,
    Learned,
    MultiHeadAttention,
    RelativeBias,
    Rotary,
    Sinusoidal,
    make_score,
)
from selfattn.layers import FeedForward, RecurrentStack, TokenEmbedding, TransformerBlock, initialise, make_norm
from selfattn.models.config import (
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    ModelConfig,
    RNNDecoderConfig,
    RNNEncoderConfig,
    TransformerConfig,
)
from selfattn.models.decoder_only import DecoderOnly
from selfattn.models.encoder_decoder import Decoder, Encoder, EncoderDecoder
from selfattn.models.protocol import Seq2Seq
from selfattn.models.rnn import AttentionDecoder, BahdanauDecoder, Bridge, PlainDecoder, RNNEncoder
from selfattn.models.transformer import TransformerDecoder, TransformerEncoder
from selfattn.streams import generator


def build(
    config: ModelConfig, *, vocab_size: int, pad_id: int, seed: int, source_vocab_size: int | None = None
) -> Seq2Seq:
    """Build a model and give its weights their first values.

    Args:
        config: what it is made of.
        vocab_size: number of tokens ``v``, of the target and, where nothing else is said, of the source.
        pad_id: the padding token's id.
        seed: of the run; the weights are drawn from its stream ``"init"``, PyTorch's global generator is not touched.
        source_vocab_size: number of source tokens, where the source has a vocabulary of its own.

    Raises:
        ValueError: a source vocabulary of another size, where source and target share a table or are one sequence.

    Example:
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=64, pad_id=0, seed=0)
        >>> type(model).__name__
        'EncoderDecoder'
    """

    if source_vocab_size not in (None, vocab_size) and (
        isinstance(config, DecoderOnlyConfig) or config.share_embeddings
    ):
        raise ValueError(
            f"build: source and target share one embedding, so that source_vocab_size={source_vocab_size} "
            f"must be vocab_size={vocab_size}"
        )

    def table(dim: int, rows: int = vocab_size) -> nn.Embedding:
        return nn.Embedding(rows, dim, padding_idx=pad_id)

    model: Seq2Seq
    with torch.random.fork_rng(devices=[]):  # PyTorch's constructors draw first values too, from the global generator
        if isinstance(config, DecoderOnlyConfig):
            tokens = table(config.stack.dim)
            model = DecoderOnly(
                _transformer_embedding(config.stack, tokens),
                _blocks(config.stack, causal=True, context_dim=None),
                _output(config.stack.dim, tokens, tie=config.tie_output),
                norm=_final_norm(config.stack),
                bidirectional_prefix=config.bidirectional_prefix,
                window=config.stack.window,
            )
        else:
            rows = vocab_size if source_vocab_size is None else source_vocab_size
            source = table(config.encoder.embed_dim, rows)
            target = source if config.share_embeddings else table(config.decoder.embed_dim)
            model = _encoder_decoder(config, source, target)
    initialise(model, generator(seed, "init"))
    return model


def count_parameters(model: nn.Module) -> tuple[int, int]:
    """Count the trained numbers of a model: all of them, and those outside embedding tables.

    Example:
        >>> count_parameters(nn.Sequential(nn.Embedding(5, 2), nn.Linear(2, 3)))
        (19, 9)
    """
    total = sum(parameter.numel() for parameter in model.parameters())
    tables = {id(m.weight): m.weight.numel() for m in model.modules() if isinstance(m, nn.Embedding)}
    return total, total - sum(tables.values())


def _encoder_decoder(config: EncoderDecoderConfig, source: nn.Embedding, target: nn.Embedding) -> EncoderDecoder:
    encoder: Encoder
    if isinstance(config.encoder, RNNEncoderConfig):
        encoder = _rnn_encoder(config.encoder, source)
    else:
        encoder = TransformerEncoder(
            _transformer_embedding(config.encoder, source),
            _blocks(config.encoder, causal=False, context_dim=None),
            norm=_final_norm(config.encoder),
        )
    decoder: Decoder
    if isinstance(config.decoder, RNNDecoderConfig):
        decoder = _rnn_decoder(config.decoder, encoder.output_dim, target, tie=config.tie_output)
    else:
        decoder = TransformerDecoder(
            _transformer_embedding(config.decoder, target),
            _blocks(config.decoder, causal=True, context_dim=encoder.output_dim),
            _output(config.decoder.dim, target, tie=config.tie_output),
            norm=_final_norm(config.decoder),
            window=config.decoder.window,
        )
    return EncoderDecoder(encoder, decoder)


def _transformer_embedding(config: TransformerConfig, tokens: nn.Embedding) -> TokenEmbedding:
    position: Sinusoidal | Learned | None = None
    if config.position == "sinusoidal":
        position = Sinusoidal(config.dim, layout=config.sinusoid_layout)
    elif config.position == "learned":
        position = Learned(config.max_length, config.dim)
    return TokenEmbedding(tokens, position, scale=config.scale_embedding, dropout=config.dropout)


def _blocks(config: TransformerConfig, *, causal: bool, context_dim: int | None) -> list[TransformerBlock]:
    """Make the blocks; with a ``context_dim`` each has cross-attention."""
    position = _attention_position(config, causal=causal)

    def attention(context: int | None, position: AttentionPosition | None) -> MultiHeadAttention:
        head_dim = config.dim // config.num_heads
        return MultiHeadAttention(
            config.dim,
            context,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            score=make_score(config.score, head_dim, head_dim, max_length=config.max_length),
            position=position,
            dropout=config.attention_dropout,
            qk_norm=config.qk_norm,
        )

    return [
        TransformerBlock(
            config.dim,
            self_attn=attention(None, position),
            cross_attn=None if context_dim is None else attention(context_dim, None),
            feed_forward=FeedForward(
                config.dim, config.ffn_dim, activation=config.activation, dropout=config.activation_dropout
            ),
            norm=config.norm,
            norm_first=config.norm_first,
            dropout=config.dropout,
        )
        for _ in range(config.num_layers)
    ]


def _attention_position(config: TransformerConfig, *, causal: bool) -> AttentionPosition | None:
    """Make the one position module that all layers of a stack share."""
    if config.position == "rotary":
        return Rotary(config.dim // config.num_heads)
    if config.position == "alibi":
        return Alibi(config.num_heads)
    if config.position == "t5":
        return RelativeBias(config.num_heads, bidirectional=not causal)
    return None


def _final_norm(config: TransformerConfig) -> nn.Module | None:
    return make_norm(config.norm, config.dim) if config.norm_first else None


def _output(dim: int, tokens: nn.Embedding, *, tie: bool) -> nn.Linear:
    output = nn.Linear(dim, tokens.num_embeddings)
    if tie:
        output.weight = tokens.weight
    return output


def _rnn_encoder(config: RNNEncoderConfig, tokens: nn.Embedding) -> RNNEncoder:
    stack = RecurrentStack(
        config.embed_dim,
        config.hidden_dim,
        cell=config.cell,
        num_layers=config.num_layers,
        direction=config.direction,
        residual=config.residual,
        dropout=config.dropout,
    )
    return RNNEncoder(TokenEmbedding(tokens, dropout=config.dropout), stack, handover=config.handover)


def _rnn_decoder(config: RNNDecoderConfig, source_dim: int, tokens: nn.Embedding, *, tie: bool) -> Decoder:
    embed = TokenEmbedding(tokens, dropout=config.dropout)

    def stack(extra: int) -> RecurrentStack:
        return RecurrentStack(
            config.embed_dim + extra,
            config.hidden_dim,
            cell=config.cell,
            num_layers=config.num_layers,
            residual=config.residual,
            dropout=config.dropout,
        )

    # A tied output reads vectors of the embedding's width, so the layer before it makes such vectors.
    inner = config.embed_dim if tie else config.hidden_dim
    if config.attention in ("none", "peeky"):
        seen = source_dim if config.attention == "peeky" else 0
        rnn = stack(seen)
        return PlainDecoder(
            embed,
            rnn,
            Bridge(config.initial_state, source_dim, rnn),
            _output(config.hidden_dim + seen, tokens, tie=tie),
            peeky=config.attention == "peeky",
            dropout=config.dropout,
        )
    query_width, key_width = config.hidden_dim // config.num_heads, source_dim // config.num_heads
    if config.project:
        key_width = query_width
    attention = MultiHeadAttention(
        config.hidden_dim,
        source_dim,
        num_heads=config.num_heads,
        score=make_score(
            config.score,
            query_width,
            key_width,
            hidden_dim=config.score_dim,
            max_length=config.max_source_length,
        ),
        project=config.project,
    )
    context_dim = attention.output_dim
    if config.attention == "bahdanau":
        rnn = stack(context_dim)
        return BahdanauDecoder(
            embed,
            rnn,
            Bridge(config.initial_state, source_dim, rnn),
            attention,
            nn.Linear(config.hidden_dim + context_dim + config.embed_dim, 2 * inner),
            _output(inner, tokens, tie=tie),
            dropout=config.dropout,
        )
    joined = context_dim + config.hidden_dim
    combine = nn.Linear(joined, inner, bias=False) if config.attention == "luong" else None
    rnn = stack(inner if config.input_feeding else 0)
    return AttentionDecoder(
        embed,
        rnn,
        Bridge(config.initial_state, source_dim, rnn),
        attention,
        _output(inner if combine is not None else joined, tokens, tie=tie),
        combine=combine,
        input_feeding=config.input_feeding,
        dropout=config.dropout,
    )
