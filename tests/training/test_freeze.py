"""Frozen weights: bit-equal after the training, not in the optimizer, told, resumed, refused where nothing matches."""

import pytest
import torch

from selfattn.errors import SettingError
from selfattn.runs.load import load
from selfattn.training.config import TrainingConfig
from selfattn.training.step import make_optimizer
from selfattn.training.weights import freeze


@pytest.mark.parametrize(("part", "average"), [("encoder", "none"), ("embeddings", "ema"), ("*.out_proj.*", "last")])
def test_frozen_weights_stay(train, part, average, tmp_path):
    first = train("transformer", tmp_path / "first")
    run = train("transformer", tmp_path / "run", init_from=first.path, set=(), freeze=part, average=average)
    before = first.model.state_dict()
    after = load(run.path).model.state_dict()
    freeze(first.model, [part])
    if part == "embeddings":
        frozen = [name for name, parameter in first.model.named_parameters() if not parameter.requires_grad]
        assert frozen == ["encoder.embed.tokens.weight", "decoder.embed.tokens.weight"]
    moved = 0
    for name, parameter in first.model.named_parameters():
        if parameter.requires_grad:
            moved += not torch.equal(before[name], after[name])
        else:
            assert torch.equal(before[name], after[name]), name
    assert moved
    assert load(run.path).config.freeze == (part,)
    assert all(parameter.requires_grad for parameter in run.model.parameters())


def test_the_optimizer_has_none_of_them(runs):
    model = load(runs["transformer"].path).model
    freeze(model, ["decoder"])
    groups = make_optimizer(model, TrainingConfig()).param_groups
    trained = {id(parameter) for group in groups for parameter in group["params"]}
    encoder = {id(parameter) for name, parameter in model.named_parameters() if not name.startswith("decoder.")}
    assert trained == encoder


@pytest.mark.parametrize("part", ["encoders", "enc", "*.fc9.*", ""])
def test_what_matches_nothing_is_refused(runs, part):
    with pytest.raises(SettingError, match=r"`freeze` .*: no weights have this name; there are embeddings, encoder"):
        freeze(load(runs["transformer"].path).model, [part])


def test_told_and_refused_in_a_line(runs, cli, tmp_path):
    small = ("--items-per-epoch", 32, "--validation-items", 8, "--epochs", 1, "--init-from", runs["transformer"].path)
    done = cli("train", "dates", *small, "--freeze", "encoder,embeddings", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "frozen: encoder, " in done.err
    assert "frozen: embeddings, " in done.err
    refused = cli("train", "dates", *small, "--freeze", "encoder,decoder", "--out", tmp_path / "all")
    assert "--freeze encoder, decoder: nothing is left to train" in refused.refusal()
    assert not (tmp_path / "all").exists()
