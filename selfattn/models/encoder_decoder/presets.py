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


_PRESETS = {
    "rnn-plain": Preset(
        "LSTM encoder and decoder joined by one fixed-length vector",
        "Sutskever et al. 2014",
        _same(131, attention="none"),
        attention=False,
    ),
    "rnn-peeky": Preset(
        "the same, the vector fed to every step and to the output",
        "Cho et al. 2014",
        _same(108, attention="peeky"),
        attention=False,
    ),
    "rnn-attention": Preset(
        "dot-product attention over all encoder states, after the LSTM",
        "textbook; Luong et al. 2015",
        _same(128),
    ),
    "rnn-bidirectional": Preset(
        "the same with an encoder that reads both ways",
        "Schuster and Paliwal 1997; Bahdanau et al. 2015",
        _rnn({"hidden_dim": 72, "direction": "both"}, {"hidden_dim": 144}),
    ),
    "rnn-deep-residual": Preset(
        "three layers on each side, each adding to the one below",
        "Wu et al. 2016",
        _rnn(
            {"hidden_dim": 62, "num_layers": 3, "residual": True},
            {"hidden_dim": 62, "num_layers": 3, "residual": True},
        ),
    ),
    "rnn-multi-head": Preset(
        "the Transformer's multi-head attention in the textbook's decoder",
        "Chen et al. 2018",
        _same(108, score="scaled_dot", num_heads=4, project=True),
    ),
    "luong-dot": Preset(
        "tanh(W [context; state]) before the output, dot score",
        "Luong et al. 2015",
        _same(119, attention="luong", score="dot"),
    ),
    "luong-general": Preset(
        "the same, general score q W k",
        "Luong et al. 2015",
        _same(114, attention="luong", score="general"),
    ),
    "luong-bidirectional": Preset(
        "general score, an encoder that reads both ways",
        "Luong et al. 2015; Schuster and Paliwal 1997",
        _rnn({"hidden_dim": 62, "direction": "both"}, {"hidden_dim": 124, "attention": "luong", "score": "general"}),
    ),
    "luong-concat": Preset(
        "the same, concat score v tanh(W [q; k])",
        "Luong et al. 2015",
        _same(110, attention="luong", score="concat"),
    ),
    "luong-location": Preset(
        "the same, location score W q: the state alone says where to look",
        "Luong et al. 2015",
        _same(116, attention="luong", score="location", max_source_length=64),
    ),
    "luong-input-feeding": Preset(
        "general score, the attentional vector fed to the next step",
        "Luong et al. 2015",
        _same(100, attention="luong", score="general", input_feeding=True),
    ),
    "bahdanau-gru": Preset(
        "attention before the RNN: additive score, bidirectional GRU, maxout",
        "Bahdanau et al. 2015",
        _rnn(
            {"hidden_dim": 49, "cell": "gru", "direction": "both"},
            {
                "hidden_dim": 103,
                "cell": "gru",
                "attention": "bahdanau",
                "score": "additive",
                "initial_state": "project",
            },
        ),
    ),
    "transformer": Preset(
        "encoder-decoder, pre-norm, sinusoidal positions",
        "Vaswani et al. 2017",
        _transformer(),
    ),
    "transformer-post-norm": Preset(
        "normalisation after each part, as first published",
        "Vaswani et al. 2017",
        _transformer(norm_first=False, ffn_dim=164),
    ),
    "transformer-learned": Preset(
        "one trained vector for each position",
        "Gehring et al. 2017",
        _transformer(position="learned", max_length=64),
    ),
    "transformer-rope": Preset(
        "queries and keys turned by their positions",
        "Su et al. 2021",
        _transformer(position="rotary"),
    ),
    "transformer-alibi": Preset(
        "scores lowered in proportion to the distance",
        "Press et al. 2022",
        _transformer(position="alibi"),
    ),
    "transformer-t5-bias": Preset(
        "a trained bias for each head and bucket of distances",
        "Raffel et al. 2020",
        _transformer(position="t5"),
    ),
    "transformer-gqa": Preset(
        "four query heads share two key-value heads",
        "Ainslie et al. 2023",
        _transformer(num_kv_heads=2, ffn_dim=236),
    ),
    "transformer-modern": Preset(
        "rotary positions, RMSNorm, SwiGLU, query-key norm",
        "Touvron et al. 2023; Henry et al. 2020",
        _transformer(position="rotary", norm="rms", activation="swiglu", qk_norm=True, ffn_dim=108),
    ),
    "transformer-encoder-rnn-decoder": Preset(
        "the Transformer's encoder, the textbook's decoder",
        "Chen et al. 2018; Domhan 2018",
        lambda: EncoderDecoderConfig(
            encoder=TransformerConfig(**_BLOCK | {"dim": 104, "ffn_dim": 216}),
            decoder=RNNDecoderConfig(hidden_dim=104, initial_state="project"),
        ),
    ),
    "rnn-encoder-transformer-decoder": Preset(
        "a bidirectional LSTM encoder, the Transformer's decoder",
        "Chen et al. 2018; Domhan 2018",
        lambda: EncoderDecoderConfig(
            encoder=RNNEncoderConfig(hidden_dim=72, direction="both"), decoder=TransformerConfig(**_BLOCK)
        ),
    ),
}
for _name, _preset in _PRESETS.items():
    register.preset(_name)(_preset)
