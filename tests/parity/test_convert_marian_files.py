"""Checkpoint directories of the Marian architecture: read and written as ``transformers`` does it, or refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from selfattn.convert.marian import (
    Marian,
    MarianIds,
    config_to_marian,
    load_marian,
    never_write,
    save_marian,
    to_marian,
)
from selfattn.decoding.greedy import greedy
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig, RNNDecoderConfig
from selfattn.models.transformer_config import TransformerConfig
from tests.fixtures.marian import EOS, PAD, VOCAB, theirs

SOURCE = torch.tensor([[5, 7, 3, 0], [11, 2, 0, PAD]])
MASK = SOURCE != PAD
# What the config.json of an opus-mt model of 2020 says besides what today's say.
OLDER: dict[str, Any] = {
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "bad_words_ids": [[PAD]],
    "bos_token_id": 0,
    "forced_eos_token_id": 0,
    "max_length": 512,
    "normalize_before": False,
    "normalize_embedding": False,
    "num_beams": 6,
    "static_position_embeddings": True,
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("marian")
    theirs().save_pretrained(directory)
    return directory


@pytest.fixture
def directory(saved: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def change(path: Path, *without: str, **changes: Any) -> None:
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({k: v for k, v in values.items() if k not in without}), encoding="utf-8")


@pytest.mark.parametrize(("share", "tie"), [(True, True), (False, True), (False, False)])
def test_what_transformers_saves_and_reads(tmp_path: Path, share: bool, tie: bool) -> None:
    """The same logits; the same file bit for bit; a model that from_pretrained takes without a complaint."""
    sizes = {"vocab_size": VOCAB if share else 23, "decoder_vocab_size": VOCAB}
    model = theirs(share_encoder_decoder_embeddings=share, tie_word_embeddings=tie, **sizes if tie else {})
    model.save_pretrained(tmp_path / "theirs")
    marian = load_marian(str(tmp_path / "theirs"))
    assert (marian.ids.start_id, marian.ids.eos_id, marian.ids.pad_id, marian.ids.never_written) == (PAD, EOS, PAD, ())
    expected = model(input_ids=SOURCE, attention_mask=MASK.long(), decoder_input_ids=SOURCE).logits
    torch.testing.assert_close(marian.model(SOURCE, SOURCE, source_mask=MASK), expected, rtol=1e-4, atol=1e-4)
    save_marian(marian, tmp_path / "new" / "ours")
    files = [load_file(tmp_path / where / "model.safetensors") for where in ("new/ours", "theirs")]
    assert files[0].keys() == files[1].keys()
    assert all(torch.equal(files[0][name], files[1][name]) for name in files[1])
    again, info = transformers.MarianMTModel.from_pretrained(tmp_path / "new" / "ours", output_loading_info=True)
    assert not any(info.values())
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert load_marian(tmp_path / "new" / "ours").config == marian.config


@torch.no_grad()
def test_an_older_checkpoint(directory: Path) -> None:
    """A pickled state dict under all names, positions included; a configuration that says more."""
    model = theirs()
    (directory / "model.safetensors").unlink()
    (directory / "generation_config.json").unlink()
    torch.save(model.state_dict(), directory / "pytorch_model.bin")
    change(directory / "config.json", **OLDER)
    marian = load_marian(directory)
    expected = model(input_ids=SOURCE, attention_mask=MASK.long(), decoder_input_ids=SOURCE).logits
    torch.testing.assert_close(marian.model(SOURCE, SOURCE, source_mask=MASK), expected, rtol=1e-4, atol=1e-4)
    assert marian.ids.never_written == (PAD,)
    never_write(marian.model, marian.ids.never_written)
    written = greedy(marian.model, SOURCE, MASK, bos_id=PAD, eos_id=EOS, max_length=9)
    assert not any(PAD in hypothesis.ids for hypothesis in written)
    save_marian(marian, directory / "again")
    assert transformers.GenerationConfig.from_pretrained(directory / "again").bad_words_ids == [[PAD]]
    assert load_marian(directory / "again").ids == marian.ids


def test_what_older_files_leave_out_has_the_value_it_has_there(directory: Path) -> None:
    """The defaults that are taken are those of MarianConfig."""
    before, default = load_marian(directory).config, transformers.MarianConfig()
    names = ("decoder_vocab_size", "share_encoder_decoder_embeddings", "tie_word_embeddings", "encoder_layerdrop")
    change(directory / "config.json", *names)
    assert load_marian(directory).config == before
    assert default.share_encoder_decoder_embeddings is before.share_embeddings is True
    assert default.tie_word_embeddings is before.tie_output is True
    assert default.encoder_layerdrop == default.decoder_layerdrop == 0
    assert default.decoder_vocab_size == default.vocab_size


FC1 = "model.encoder.layers.{}.fc1.weight"
WEIGHTS: list[tuple[str, torch.Tensor | None, str]] = [
    (FC1.format(0), None, f"missing or not of this model: {FC1.format(0)}"),
    (FC1.format(7), torch.ones(3), f"missing or not of this model: {FC1.format(7)}"),
    ("model.shared.weight", torch.ones(11, 12), r"embed_tokens.weight has shape \(11, 12\), the configuration says"),
    ("lm_head.weight", torch.ones(VOCAB, 12), "model.shared.weight and lm_head.weight differ, but the configuration"),
    ("model.shared.weight", torch.ones(VOCAB, 12).half(), "one floating point dtype, got torch.float16, torch.float32"),
]


@pytest.mark.parametrize(("name", "tensor", "message"), WEIGHTS)
def test_weights_that_do_not_fit(directory: Path, name: str, tensor: torch.Tensor | None, message: str) -> None:
    path = directory / "model.safetensors"
    state = {key: value for key, value in load_file(path).items() if key != name}
    save_file(state if tensor is None else state | {name: tensor}, path)
    with pytest.raises(UserError, match=f"{directory}: weights: .*{message}"):
        load_marian(directory)


CONFIG: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "bart"}, "model_type: expected 'marian', got 'bart'"),
    ({"normalize_before": True}, "normalize_before: expected False, got True"),
    ({"decoder_layerdrop": 0.1}, "decoder_layerdrop: expected 0.0, got 0.1"),
    ({"activation_function": "gelu_new"}, "TransformerConfig.activation: 'gelu_new' is not one of relu, gelu, silu"),
    ({"d_model": "6"}, "TransformerConfig.dim: expected a whole number of at least 1, got '6'"),
    ({"dropout": 1.5}, r"TransformerConfig.dropout: expected a probability in \[0, 1\), got 1.5"),
    ({"eos_token_id": VOCAB}, f"eos_token_id: expected an id from 0 to {VOCAB - 1}, got {VOCAB}"),
    ({"vocab_size": "19", "decoder_vocab_size": "19"}, "vocab_size: expected a whole number of at least 1, got '19'"),
    ({"bad_words_ids": [[1, 2]]}, "bad_words_ids: expected words of one token each"),
    ({"decoder_vocab_size": 17}, "decoder_vocab_size: 17 differs from vocab_size 19, but share_encoder_decoder"),
    ({"d_model": None}, "d_model: is missing; is this the configuration of a Marian model"),
    ({"pad_token_id": None}, "pad_token_id: is missing"),
]


@pytest.mark.parametrize(("changes", "message"), CONFIG)
def test_configurations_that_have_no_counterpart(directory: Path, changes: dict[str, Any], message: str) -> None:
    (directory / "generation_config.json").unlink()
    change(directory / "config.json", **changes)
    with pytest.raises(UserError, match=f"{directory}: {message}"):
        load_marian(directory)


def test_files_that_cannot_be_read(directory: Path, tmp_path: Path) -> None:
    config, weights = directory / "config.json", directory / "model.safetensors"

    def fails(message: str, where: Path = directory) -> None:
        with pytest.raises(UserError, match=message):
            load_marian(where)

    change(directory / "generation_config.json", eos_token_id=1)
    fails(r"generation_config\.json: eos_token_id is 1, in config\.json 0")
    (directory / "generation_config.json").unlink()
    fails("nowhere/config.json: no such file; is this a directory of a Marian model", tmp_path / "nowhere")
    weights.write_bytes(b"nothing")
    fails(f"{weights}: damaged or no safetensors file")
    weights.unlink()
    fails(f"{directory}: holds neither model.safetensors nor pytorch_model.bin; the weights must be in one file")
    config.write_text("[]", encoding="utf-8")
    fails(f"{config}: content: expected an object, found")


class Unknown:
    pass


def test_pickled_weights_are_tensors_and_nothing_that_could_be_run(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    path = directory / "pytorch_model.bin"
    for content, message in (
        ({"model.shared.weight": Unknown()}, "damaged, or holds more than tensors, which is not read"),
        ([torch.ones(1)], "expected tensors by name, got list"),
    ):
        torch.save(content, path)
        with pytest.raises(UserError, match=f"{path}: {message}"):
            load_marian(directory)
    path.write_bytes(b"nothing")
    with pytest.raises(UserError, match=f"{path}: damaged"):
        load_marian(directory)


STACK = TransformerConfig(dim=6, num_heads=3, norm_first=False, sinusoid_layout="halves")
IDS = MarianIds(vocab_size=11, source_vocab_size=11, start_id=10, eos_id=0, pad_id=10)


def pair(decoder: Any = STACK, **settings: Any) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(encoder=STACK, decoder=decoder, **settings)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_kv_heads", 1, r"decoder.num_kv_heads: the Marian architecture has None, got 1"),
        ("norm", "rms", "decoder.norm: the Marian architecture has 'layer', got 'rms'"),
        ("norm_first", True, "decoder.norm_first: the Marian architecture has False, got True"),
        ("activation", "gelu", "activation: the Marian architecture has one for both stacks, got 'relu' and 'gelu'"),
        ("dropout", 0.5, "dropout: the Marian architecture has one for both stacks"),
        ("activation", "swiglu", r"encoder\.activation: the Marian architecture has no gate, got 'swiglu'"),
    ],
)
def test_what_the_marian_architecture_has_not(name: str, value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        config_to_marian(pair(dataclasses.replace(STACK, **{name: value})), IDS)


def test_other_models_that_are_not_marian() -> None:
    with pytest.raises(UserError, match="is a Transformer encoder with a Transformer decoder"):
        config_to_marian(pair(RNNDecoderConfig(initial_state="project", attention="none")), IDS)
    with pytest.raises(UserError, match="share_embeddings: one table cannot have 13 and 11 rows"):
        config_to_marian(pair(share_embeddings=True), dataclasses.replace(IDS, source_vocab_size=13))
    model: Any = build(pair(), vocab_size=11, pad_id=10, seed=0)
    with pytest.raises(UserError, match=r"decoder\.embed_tokens\.weight and lm_head\.weight differ"):
        to_marian(Marian(model, pair(tie_output=True), IDS))
