"""Directories of the Marian architecture that are not read: every refusal says which file, and what in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from selfattn.convert.marian import Marian, load_marian, save_marian
from selfattn.convert.marian_config import MarianIds
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
        "weights: missing or not of this model: model.encoder.layers.0.fc1.weight",
    ),
    "unused": (
        {"model__encoder__layers__1__fc1__weight": ONES},
        "weights: missing or not of this model: model.encoder.layers.1.fc1.weight",
    ),
    "shape": (
        {"model__shared__weight": torch.ones(11, 6)},
        r"weights: model\.\w+\.embed_tokens.weight has shape \(11, 6\), the configuration says \(13, 6\)",
    ),
    "tied and different": (
        {"lm_head__weight": ONES},
        "weights: model.shared.weight and lm_head.weight differ, but the configuration says that they are one",
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
    "pre-norm": ({"normalize_before": True}, "normalize_before: expected False, got True"),
    "dropped layers": ({"decoder_layerdrop": 0.1}, "decoder_layerdrop: expected 0.0, got 0.1"),
    "an unknown function": (
        {"activation_function": "gelu_new"},
        "TransformerConfig.activation: 'gelu_new' is not one of relu, gelu, silu, swiglu",
    ),
    "a size that is text": ({"d_model": "6"}, "TransformerConfig.dim: expected a whole number of at least 1, got '6'"),
    "a probability": ({"dropout": 1.5}, r"TransformerConfig.dropout: expected a probability in \[0, 1\), got 1.5"),
    "an end outside": ({"eos_token_id": 13}, "eos_token_id: expected an id from 0 to 12, got 13"),
    "words of two tokens": ({"bad_words_ids": [[1, 2]]}, "bad_words_ids.*: expected"),
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


@pytest.mark.parametrize("name", ["d_model", "pad_token_id"])
def test_a_value_that_is_missing(directory: Path, name: str) -> None:
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    del config[name]
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (directory / "generation_config.json").unlink()
    with pytest.raises(UserError, match=f"{name}: is missing; is this the configuration of a Marian model"):
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

    fails("nowhere/config.json: no such file; is this a directory of a Marian model", tmp_path / "nowhere")
    fails("config.json: cannot be read .Not a directory", weights)
    weights.write_bytes(b"nothing")
    fails(f"{weights}: damaged or no safetensors file")
    weights.unlink()
    fails(f"{directory}: holds neither model.safetensors nor pytorch_model.bin; the weights must be in one file")
    config.write_text('{\n"model_type" "marian"}', encoding="utf-8")
    fails(f"{config}:2: is not JSON")
    config.write_text("[]", encoding="utf-8")
    fails(f"{config}: content: expected an object, found")
    config.write_bytes(b"\xff\xfe\x00")
    fails(f"{config}: is not UTF-8 text")


class Unknown:
    pass


def test_pickled_weights_are_tensors_and_nothing_that_could_be_run(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    path = directory / "pytorch_model.bin"
    for content, message in (
        ({"model.shared.weight": Unknown()}, "damaged, or holds more than tensors, which is not read"),
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
