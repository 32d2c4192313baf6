"""What our model has to have for other libraries' weights: the settings that go out, and the arguments for them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from selfattn.convert.marian import Marian, to_marian
from selfattn.convert.marian_config import MarianIds, config_to_marian
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig, RNNDecoderConfig
from selfattn.models.transformer_config import TransformerConfig

MARIAN = TransformerConfig(dim=6, num_heads=3, norm_first=False, sinusoid_layout="halves")
IDS = MarianIds(vocab_size=11, source_vocab_size=11, start_id=10, eos_id=0, pad_id=10)


def pair(encoder: Any = MARIAN, decoder: Any = MARIAN, **settings: Any) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(encoder=encoder, decoder=decoder, **settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_kv_heads", 1),
        ("norm", "rms"),
        ("norm_first", True),
        ("position", "rotary"),
        ("sinusoid_layout", "interleaved"),
        ("score", "dot"),
        ("qk_norm", True),
        ("window", 3),
    ],
)
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_what_the_marian_architecture_has_not(side: str, name: str, value: Any) -> None:
    config = pair(**{side: dataclasses.replace(MARIAN, **{name: value})})
    with pytest.raises(UserError, match=f"{side}.{name}: the Marian architecture has .*, got {value!r}"):
        config_to_marian(config, IDS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("activation", "gelu"),
        ("scale_embedding", False),
        ("max_length", 7),
        ("dropout", 0.5),
        ("attention_dropout", 0.5),
        ("activation_dropout", 0.5),
    ],
)
def test_what_the_marian_architecture_has_once(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"{name}: the Marian architecture has one for both stacks"):
        config_to_marian(pair(decoder=dataclasses.replace(MARIAN, **{name: value})), IDS)


def test_other_configurations_that_are_not_marian() -> None:
    with pytest.raises(UserError, match=r"encoder\.activation: the Marian architecture has no gate, got 'swiglu'"):
        config_to_marian(pair(dataclasses.replace(MARIAN, activation="swiglu")), IDS)
    with pytest.raises(UserError, match="is a Transformer encoder with a Transformer decoder"):
        config_to_marian(pair(decoder=RNNDecoderConfig(initial_state="project", attention="none")), IDS)
    with pytest.raises(UserError, match="share_embeddings: one table cannot have 13 and 11 rows"):
        config_to_marian(pair(share_embeddings=True), dataclasses.replace(IDS, source_vocab_size=13))


def test_a_model_whose_matrices_are_no_longer_tied() -> None:
    model: Any = build(pair(), vocab_size=11, pad_id=10, seed=0)
    with pytest.raises(UserError, match=r"decoder\.embed_tokens\.weight and lm_head\.weight differ"):
        to_marian(Marian(model, pair(tie_output=True), IDS))
