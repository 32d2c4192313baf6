"""Checkpoint directories of the Marian architecture: read and written as ``transformers`` does it, older ones too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from selfattn.convert.marian import load_marian, never_write, save_marian
from selfattn.decoding.greedy import greedy

transformers = pytest.importorskip("transformers", reason="compares with transformers, which is not installed")

SOURCE = torch.tensor([[5, 7, 3, 0], [11, 2, 0, 10]])
MASK = SOURCE != 10
# What the config.json of an opus-mt model of 2020 says besides what today's say.
OLDER: dict[str, Any] = {
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "bad_words_ids": [[10]],
    "bos_token_id": 0,
    "classif_dropout": 0.0,
    "extra_pos_embeddings": 0,
    "forced_eos_token_id": 0,
    "gradient_checkpointing": False,
    "max_length": 512,
    "normalize_before": False,
    "normalize_embedding": False,
    "num_beams": 6,
    "num_hidden_layers": 1,
    "static_position_embeddings": True,
}


def reference(**settings: Any) -> Any:
    known: dict[str, Any] = {
        "vocab_size": 13,
        "d_model": 6,
        "encoder_layers": 1,
        "encoder_attention_heads": 3,
        "encoder_ffn_dim": 7,
        "decoder_layers": 1,
        "decoder_attention_heads": 2,
        "decoder_ffn_dim": 5,
        "max_position_embeddings": 16,
        "pad_token_id": 10,
        "decoder_start_token_id": 10,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
        "activation_function": "swish",
        "scale_embedding": True,
    }
    model = transformers.MarianMTModel(transformers.MarianConfig(**(known | settings))).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.copy_(torch.randn(parameter.shape, generator=draw))
        model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=draw))
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("marian")
    reference().save_pretrained(directory)
    return directory


@pytest.fixture
def directory(saved: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def logits(model: Any) -> torch.Tensor:
    result: torch.Tensor = model(SOURCE, SOURCE, source_mask=MASK)
    return result


SHARING = [(True, True), (False, True), (False, False)]


@pytest.mark.parametrize(("share", "tie"), SHARING)
@torch.no_grad()
def test_what_transformers_saves(tmp_path: Path, share: bool, tie: bool) -> None:
    model = reference(
        share_encoder_decoder_embeddings=share,
        tie_word_embeddings=tie,
        vocab_size=13 if share else 17,
        decoder_vocab_size=13,
    )
    model.save_pretrained(tmp_path)
    marian = load_marian(tmp_path)
    assert (marian.ids.start_id, marian.ids.eos_id, marian.ids.pad_id, marian.ids.never_written) == (10, 0, 10, ())
    assert (marian.ids.vocab_size, marian.ids.source_vocab_size) == (13, 13 if share else 17)
    expected = model(input_ids=SOURCE, attention_mask=MASK.long(), decoder_input_ids=SOURCE).logits
    torch.testing.assert_close(logits(marian.model), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("share", "tie"), SHARING)
def test_what_transformers_reads(tmp_path: Path, share: bool, tie: bool) -> None:
    """The same file bit for bit, and a model that from_pretrained takes without a complaint."""
    model = reference(share_encoder_decoder_embeddings=share, tie_word_embeddings=tie)
    model.save_pretrained(tmp_path / "theirs")
    marian = load_marian(str(tmp_path / "theirs"))
    save_marian(marian, tmp_path / "new" / "ours")
    ours, theirs = (load_file(tmp_path / where / "model.safetensors") for where in ("new/ours", "theirs"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    again, info = transformers.MarianMTModel.from_pretrained(tmp_path / "new" / "ours", output_loading_info=True)
    assert not any(info.values())
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert load_marian(tmp_path / "new" / "ours").config == marian.config


@torch.no_grad()
def test_an_older_checkpoint(directory: Path) -> None:
    """A pickled state dict under all names, positions included; a configuration that says more."""
    model = reference()
    (directory / "model.safetensors").unlink()
    (directory / "generation_config.json").unlink()
    torch.save(model.state_dict(), directory / "pytorch_model.bin")
    change(directory / "config.json", **OLDER)
    marian = load_marian(directory)
    expected = model(input_ids=SOURCE, attention_mask=MASK.long(), decoder_input_ids=SOURCE).logits
    torch.testing.assert_close(logits(marian.model), expected, rtol=1e-4, atol=1e-4)
    assert marian.ids.never_written == (10,)
    never_write(marian.model, marian.ids.never_written)
    found = greedy(marian.model, SOURCE, MASK, bos_id=10, eos_id=0, max_length=9)
    assert not any(10 in one.ids for one in found)
    save_marian(marian, directory / "again")
    again = transformers.GenerationConfig.from_pretrained(directory / "again")
    assert again.bad_words_ids == [[10]]
    assert load_marian(directory / "again").ids == marian.ids


def test_what_older_files_leave_out_has_the_value_it_has_there(directory: Path) -> None:
    """The defaults that are taken are those of MarianConfig."""
    before = load_marian(directory).config
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    for name in ("decoder_vocab_size", "share_encoder_decoder_embeddings", "tie_word_embeddings", "encoder_layerdrop"):
        del config[name]
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert load_marian(directory).config == before
    default = transformers.MarianConfig()
    assert default.share_encoder_decoder_embeddings is before.share_embeddings is True
    assert default.tie_word_embeddings is before.tie_output is True
    assert default.encoder_layerdrop == default.decoder_layerdrop == 0
    assert default.decoder_vocab_size == default.vocab_size
