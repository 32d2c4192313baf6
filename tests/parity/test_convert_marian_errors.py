"""Directories of the Marian architecture that are not read: every refusal says which file, and what in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from selfattn.convert import Marian, MarianIds, load_marian, save_marian
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.transformer_config import TransformerConfig


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A checkpoint that can be read; a test damages it."""
    stack = TransformerConfig(
        dim=6, num_heads=3, ffn_dim=7, norm_first=False, activation="silu", sinusoid_layout="halves", max_length=16
    )
    config = EncoderDecoderConfig(encoder=stack, decoder=stack, share_embeddings=True, tie_output=True)
    ids = MarianIds(vocab_size=13, source_vocab_size=13, start_id=10, eos_id=0, pad_id=10)
    model: Any = build(config, vocab_size=13, pad_id=10, seed=0)
    save_marian(Marian(model, config, ids), tmp_path / "model")
    load_marian(tmp_path / "model")
    return tmp_path / "model"


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def rewrite(directory: Path, **changes: Any) -> None:
    """Change tensors by name, dots written as two underscores; None takes one out."""
    path = directory / "model.safetensors"
    state = load_file(path)
    for name, tensor in changes.items():
        if tensor is None:
            del state[name.replace("__", ".")]
        else:
            state[name.replace("__", ".")] = tensor
    save_file(state, path)


ONES = torch.ones(13, 6)
WEIGHTS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": (
        {"model__encoder__layers__0__fc1__weight": None},
        "weights: missing: model.encoder.layers.0.fc1.weight; nothing unused",
    ),
    "unused": (
        {"model__encoder__layers__1__fc1__weight": ONES},
        "weights: nothing missing; unused: model.encoder.layers.1.fc1.weight",
    ),
    "no table at all": (
        {"model__shared__weight": None},
        "weights: missing: lm_head.weight, model.decoder.embed_tokens.weight, model.encoder.embed_tokens.weight; ",
    ),
    "no bias of the output": ({"final_logits_bias": None}, "weights: missing: final_logits_bias; nothing unused"),
    "shape": (
        {"model__shared__weight": torch.ones(11, 6)},
        r"weights: model\.\w+\.embed_tokens.weight has shape \(11, 6\), the configuration says \(13, 6\)",
    ),
    "shape of the bias": (
        {"final_logits_bias": torch.ones(13)},
        r"weights: final_logits_bias has shape \(13,\), the configuration says \(1, 13\)",
    ),
    "tied and different": (
        {"lm_head__weight": ONES},
        "weights: model.shared.weight and lm_head.weight differ, but the configuration says that they are one",
    ),
    "other positions": (
        {"model__encoder__embed_positions__weight": torch.zeros(16, 6)},
        r"weights: model.encoder.embed_positions.weight does not hold the sines of \(16, 6\) positions and width",
    ),
    "more positions": (
        {"model__decoder__embed_positions__weight": torch.zeros(17, 6)},
        "weights: model.decoder.embed_positions.weight does not hold the sines",
    ),
    "whole positions": (
        {"model__decoder__embed_positions__weight": torch.zeros(16, 6, dtype=torch.int64)},
        "weights: model.decoder.embed_positions.weight does not hold the sines",
    ),
    "two dtypes": (
        {"model__shared__weight": ONES.half()},
        "weights: expected one floating point dtype, got torch.float16, torch.float32",
    ),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_that_do_not_fit(directory: Path, case: str) -> None:
    changes, message = WEIGHTS[case]
    rewrite(directory, **changes)
    with pytest.raises(UserError, match=f"{directory}: {message}"):
        load_marian(directory)


CONFIG: dict[str, tuple[dict[str, Any], str]] = {
    "another architecture": ({"model_type": "bart"}, "model_type: expected 'marian', got 'bart'"),
    "pre-norm": ({"normalize_before": True}, "normalize_before: True has no counterpart here; expected False"),
    "norm of embeddings": ({"normalize_embedding": True}, "normalize_embedding: True has no counterpart"),
    "a last norm": ({"add_final_layer_norm": True}, "add_final_layer_norm: True has no counterpart"),
    "trained positions": (
        {"static_position_embeddings": False},
        "static_position_embeddings: False has no counterpart",
    ),
    "dropped layers": ({"decoder_layerdrop": 0.1}, "decoder_layerdrop: 0.1 has no counterpart here; expected 0"),
    "a decoder alone": ({"is_decoder": True}, "is_decoder: True has no counterpart"),
    "an unknown function": (
        {"activation_function": "gelu_new"},
        "activation_function: 'gelu_new' has no counterpart here; known: relu, gelu, silu, swish",
    ),
    "a list as function": ({"activation_function": ["relu"]}, r"activation_function: \['relu'\] has no counterpart"),
    "a size that is text": ({"d_model": "6"}, "d_model: expected a whole number, got '6'"),
    "a flag that is a number": ({"scale_embedding": 1}, "scale_embedding: expected true or false, got 1"),
    "a probability": ({"dropout": 1.5}, r"TransformerConfig.dropout: expected a probability in \[0, 1\), got 1.5"),
    "heads": ({"encoder_attention_heads": 4}, "TransformerConfig.num_heads: 4 does not divide dim 6"),
    "several ends": ({"eos_token_id": [0, 1]}, r"eos_token_id: expected a whole number, got \[0, 1\]"),
    "an end outside": ({"eos_token_id": 13}, "eos_token_id: expected an id from 0 to 12, got 13"),
    "padding outside": ({"pad_token_id": -1}, "pad_token_id: expected an id from 0 to 12, got -1"),
    "a start outside": (
        {"decoder_start_token_id": 58100},
        "decoder_start_token_id: expected an id from 0 to 12, got 58100",
    ),
    "a word outside": ({"bad_words_ids": [[13]]}, "bad_words_ids: expected an id from 0 to 12, got 13"),
    "words of two tokens": ({"bad_words_ids": [[1, 2]]}, "bad_words_ids: expected a list of single tokens"),
    "two sizes of one table": (
        {"decoder_vocab_size": 17},
        "decoder_vocab_size: 17 differs from vocab_size 13, but share_encoder_decoder_embeddings says",
    ),
}


@pytest.mark.parametrize("case", CONFIG)
def test_configurations_that_have_no_counterpart(directory: Path, case: str) -> None:
    changes, message = CONFIG[case]
    (directory / "generation_config.json").unlink()
    change(directory / "config.json", **changes)
    with pytest.raises(UserError, match=f"{directory}: {message}"):
        load_marian(directory)


@pytest.mark.parametrize("name", ["d_model", "vocab_size", "pad_token_id", "activation_function", "dropout"])
def test_a_value_that_is_missing(directory: Path, name: str) -> None:
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    del config[name]
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (directory / "generation_config.json").unlink()
    with pytest.raises(UserError, match=f"{name}: missing; is this the configuration of a Marian model"):
        load_marian(directory)


def test_two_configurations_that_differ(directory: Path) -> None:
    change(directory / "generation_config.json", eos_token_id=1)
    with pytest.raises(UserError, match=r"generation_config\.json: eos_token_id is 1, in config\.json 0"):
        load_marian(directory)


def test_files_that_cannot_be_read(directory: Path, tmp_path: Path) -> None:
    config, weights = directory / "config.json", directory / "model.safetensors"

    def fails(message: str, where: Path = directory) -> None:
        with pytest.raises(UserError, match=message):
            load_marian(where)

    fails("nowhere/config.json: not found; is this a directory of a Marian model", tmp_path / "nowhere")
    fails("config.json: not found", weights)
    weights.write_bytes(b"nothing")
    fails(f"{weights}: damaged or no safetensors file")
    weights.unlink()
    fails(f"{directory}: holds neither model.safetensors nor pytorch_model.bin; the weights must be in one file")
    config.write_text('{\n"model_type" "marian"}', encoding="utf-8")
    fails(f"{config}:2: not JSON")
    config.write_text("[]", encoding="utf-8")
    fails(f"{config}: expected an object, got list")
    config.write_bytes(b"\xff\xfe\x00")
    fails(f"{config}: not UTF-8 text")


class Stranger:
    pass


def test_pickled_weights_are_tensors_and_nothing_that_could_be_run(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    path = directory / "pytorch_model.bin"
    for content, message in (
        ({"model.shared.weight": Stranger()}, "damaged, or holds more than tensors, which is not read"),
        ([torch.ones(1)], "expected tensors by name, got list"),
        ({"model.shared.weight": 1}, "expected tensors by name, got dict"),
    ):
        torch.save(content, path)
        with pytest.raises(UserError, match=f"{path}: {message}"):
            load_marian(directory)
    for damaged in (b"", b"nothing"):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=f"{path}: damaged"):
            load_marian(directory)
