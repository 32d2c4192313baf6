"""The named encoder-decoders at the size used for dates: RNNs, Transformers, and hybrids. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.encoder_decoder.rnn_config import RNNDecoderConfig, RNNEncoderConfig
from selfattn.models.presets import Preset
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register

_BLOCK: dict[str, Any] = {"dim": 96, "num_heads": 4, "num_layers": 1, "ffn_dim": 160}
USUAL = ("rnn-attention", "transformer")
"""The models that are compared where none are named; the last is trained where none is."""

_Maker = Callable[[], EncoderDecoderConfig]


def _rnn(encoder: dict[str, Any], decoder: dict[str, Any]) -> _Maker:
    """One LSTM layer on each side, the encoder's final h the decoder's first, but for what is said."""
    return lambda: EncoderDecoderConfig(encoder=RNNEncoderConfig(**encoder), decoder=RNNDecoderConfig(**decoder))


def _same(hidden_dim: int, **decoder: Any) -> _Maker:
    """Encoder and decoder of one width."""
    return _rnn({"hidden_dim": hidden_dim}, {"hidden_dim": hidden_dim} | decoder)


def _transformer(**both: Any) -> _Maker:
    """Encoder and decoder of one block each, with the same settings."""
    return lambda: EncoderDecoderConfig(
        encoder=TransformerConfig(**_BLOCK | both), decoder=TransformerConfig(**_BLOCK | both)
    )


def _register(name: str, summary: str, source: str, make: _Maker, *, attention: bool = True) -> None:
    register.preset(name)(Preset(summary, source, make, attention))


_register(
    "rnn-plain",
    "LSTM encoder and decoder joined by one fixed-length vector",
    "Sutskever et al. 2014",
    _same(131, attention="none"),
    attention=False,
)
_register(
    "rnn-peeky",
    "the same, the vector fed to every step and to the output",
    "Cho et al. 2014",
    _same(108, attention="peeky"),
    attention=False,
)
_register(
    "rnn-attention",
    "dot-product attention over all encoder states, after the LSTM",
    "textbook; Luong et al. 2015",
    _same(128),
)
_register(
    "rnn-bidirectional",
    "the same with an encoder that reads both ways",
    "Schuster and Paliwal 1997; Bahdanau et al. 2015",
    _rnn({"hidden_dim": 72, "direction": "both"}, {"hidden_dim": 144}),
)
_register(
    "rnn-deep-residual",
    "three layers on each side, each adding to the one below",
    "Wu et al. 2016",
    _rnn({"hidden_dim": 62, "num_layers": 3, "residual": True}, {"hidden_dim": 62, "num_layers": 3, "residual": True}),
)
_register(
    "rnn-multi-head",
    "the Transformer's multi-head attention in the textbook's decoder",
    "Chen et al. 2018",
    _same(108, score="scaled_dot", num_heads=4, project=True),
)
_register(
    "luong-dot",
    "tanh(W [context; state]) before the output, dot score",
    "Luong et al. 2015",
    _same(119, attention="luong", score="dot"),
)
_register(
    "luong-general",
    "the same, general score q W k",
    "Luong et al. 2015",
    _same(114, attention="luong", score="general"),
)
_register(
    "luong-bidirectional",
    "general score, an encoder that reads both ways",
    "Luong et al. 2015; Schuster and Paliwal 1997",
    _rnn({"hidden_dim": 62, "direction": "both"}, {"hidden_dim": 124, "attention": "luong", "score": "general"}),
)
_register(
    "luong-concat",
    "the same, concat score v tanh(W [q; k])",
    "Luong et al. 2015",
    _same(110, attention="luong", score="concat"),
)
_register(
    "luong-location",
    "the same, location score W q: the state alone says where to look",
    "Luong et al. 2015",
    _same(116, attention="luong", score="location", max_source_length=64),
)
_register(
    "luong-input-feeding",
    "general score, the attentional vector fed to the next step",
    "Luong et al. 2015",
    _same(100, attention="luong", score="general", input_feeding=True),
)
_register(
    "bahdanau-gru",
    "attention before the RNN: additive score, bidirectional GRU, maxout",
    "Bahdanau et al. 2015",
    _rnn(
        {"hidden_dim": 49, "cell": "gru", "direction": "both"},
        {"hidden_dim": 103, "cell": "gru", "attention": "bahdanau", "score": "additive", "initial_state": "project"},
    ),
)
_register("transformer", "encoder-decoder, pre-norm, sinusoidal positions", "Vaswani et al. 2017", _transformer())
_register(
    "transformer-post-norm",
    "normalisation after each part, as first published",
    "Vaswani et al. 2017",
    _transformer(norm_first=False, ffn_dim=164),
)
_register(
    "transformer-learned",
    "one trained vector for each position",
    "Gehring et al. 2017",
    _transformer(position="learned", max_length=64),
)
_register(
    "transformer-rope", "queries and keys turned by their positions", "Su et al. 2021", _transformer(position="rotary")
)
_register(
    "transformer-alibi",
    "scores lowered in proportion to the distance",
    "Press et al. 2022",
    _transformer(position="alibi"),
)
_register(
    "transformer-t5-bias",
    "a trained bias for each head and bucket of distances",
    "Raffel et al. 2020",
    _transformer(position="t5"),
)
_register(
    "transformer-gqa",
    "four query heads share two key-value heads",
    "Ainslie et al. 2023",
    _transformer(num_kv_heads=2, ffn_dim=236),
)
_register(
    "transformer-modern",
    "rotary positions, RMSNorm, SwiGLU, query-key norm",
    "Touvron et al. 2023; Henry et al. 2020",
    _transformer(position="rotary", norm="rms", activation="swiglu", qk_norm=True, ffn_dim=108),
)
_register(
    "transformer-encoder-rnn-decoder",
    "the Transformer's encoder, the textbook's decoder",
    "Chen et al. 2018; Domhan 2018",
    lambda: EncoderDecoderConfig(
        encoder=TransformerConfig(**_BLOCK | {"dim": 104, "ffn_dim": 216}),
        decoder=RNNDecoderConfig(hidden_dim=104, initial_state="project"),
    ),
)
_register(
    "rnn-encoder-transformer-decoder",
    "a bidirectional LSTM encoder, the Transformer's decoder",
    "Chen et al. 2018; Domhan 2018",
    lambda: EncoderDecoderConfig(
        encoder=RNNEncoderConfig(hidden_dim=72, direction="both"), decoder=TransformerConfig(**_BLOCK)
    ),
)
