"""Training settings: checked, read and written, offered by the command line; frozen weights; curves for TensorBoard."""

import json
import sys
from dataclasses import fields, replace
from unittest.mock import Mock, call

import pytest
import torch

from selfattn.cli.options import changed_settings, parameters_of
from selfattn.codec import decode, encode
from selfattn.errors import SettingError, UserError
from selfattn.runs.load import load
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import EpochReport, StepReport, TensorBoardObserver
from selfattn.training.step import make_optimizer
from selfattn.training.weights import freeze


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0), ("epochs", 1.5), ("epochs", True), ("epochs", None), ("items_per_epoch", 0), ("batch_size", -1),
        ("max_tokens", 0), ("validation_items", 0), ("seed", 0.5), ("lr", 0.0), ("lr", -1e-3), ("lr", float("nan")),
        ("lr", float("inf")), ("lr", "fast"), ("schedule", "steps"), ("warmup", 1.0), ("warmup", -0.1),
        ("weight_decay", -1.0), ("clip_norm", -1.0), ("clip_norm", float("nan")), ("label_smoothing", 1.0),
        ("precision", "float16"), ("target_exact_match", 0.0), ("target_exact_match", 1.5), ("betas", (0.9,)),
        ("betas", (0.9, 1.0)), ("betas", "ab"),
        ("max_steps", 0), ("accumulate", 0), ("accumulate", None), ("warmup_steps", -1), ("warmup_steps", 0.5),
        ("r_drop", -1.0), ("average", "mean"), ("average", None), ("ema_decay", 1.0), ("ema_decay", -0.1),
        ("average_last", 0), ("validate_every", 0), ("patience", 0), ("schedule", "one"),
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_named(name, value):
    with pytest.raises(UserError, match=f"^`{name}`: expected .*, got ") as caught:
        TrainingConfig(**{name: value})
    assert "\n" not in str(caught.value)


def test_it_travels_as_json():
    config = TrainingConfig(seed=-3, lr=1, schedule="cosine", betas=(0.8, 0.9), items_per_epoch=7, target_exact_match=1)
    assert decode(TrainingConfig, json.loads(json.dumps(encode(config))), file="x", advice="y") == config


def test_only_what_is_given_replaces_the_recipe():
    recipe = TrainingConfig(lr=0.5, epochs=7)
    settings = {field.name for field in fields(TrainingConfig)}
    not_given = dict.fromkeys(TrainingConfig.__dataclass_fields__)
    options = parameters_of(TrainingConfig, defaults=not_given, leave_out=("seed", "betas"))
    assert {option.name for option in options if option.default is None} == settings - {"seed", "betas"}
    assert replace(recipe, **changed_settings({}, options)) == recipe
    clipped = changed_settings({"clip_norm": 0.0, "patience": None}, options)
    assert replace(recipe, **clipped) == TrainingConfig(lr=0.5, epochs=7, clip_norm=0.0)


BRIEF = {"epochs": 2, "items_per_epoch": 16, "batch_size": 8, "validation_items": 4}


# Frozen weights: bit-equal after the training, not in the optimizer, told, refused where nothing matches


@pytest.mark.parametrize(("part", "average"), [("encoder", "none"), ("embeddings", "ema"), ("*.out_proj.*", "last")])
def test_frozen_weights_stay_and_the_optimizer_has_none_of_them(train, runs, part, average, tmp_path):
    first = load(runs["transformer"].path)
    changes = {"init_from": first.path, "set": (), "freeze": part, "average": average}
    run = train("transformer", tmp_path / "run", training=BRIEF, **changes)
    after = load(run.path).model.state_dict()
    freeze(first.model, [part])
    groups = make_optimizer(first.model, TrainingConfig()).param_groups
    trained = {id(parameter) for group in groups for parameter in group["params"]}
    frozen = set()
    for name, parameter in first.model.named_parameters():
        assert (id(parameter) in trained) == parameter.requires_grad
        if not parameter.requires_grad:
            assert torch.equal(parameter, after[name]), name
            frozen.add(name)
    if part == "embeddings":
        assert frozen == {"encoder.embed.tokens.weight", "decoder.embed.tokens.weight"}
    moved = {name for name, weight in first.model.state_dict().items() if not torch.equal(weight, after[name])}
    assert frozen
    assert moved
    assert load(run.path).config.freeze == (part,)
    assert all(parameter.requires_grad for parameter in run.model.parameters())


@pytest.mark.parametrize("part", ["encoders", "enc", "*.fc9.*", ""])
def test_what_matches_nothing_is_refused(runs, part):
    with pytest.raises(SettingError, match=r"`freeze` .*: no weights have this name; there are embeddings, encoder"):
        freeze(load(runs["transformer"].path).model, [part])


def test_told_and_refused_in_a_line(runs, cli, tmp_path):
    small = ("--items-per-epoch", 8, "--validation-items", 4, "--epochs", 1, "--init-from", runs["transformer"].path)
    done = cli("train", "dates", *small, "--freeze", "encoder,embeddings", "--out", tmp_path / "run").success()
    assert "frozen: encoder, " in done.err
    assert "frozen: embeddings, " in done.err
    refused = cli("train", "dates", *small, "--freeze", "encoder,decoder", "--out", tmp_path / "all")
    assert "--freeze encoder, decoder: nothing is left to train" in refused.refusal()
    assert not (tmp_path / "all").exists()


# Curves for TensorBoard, and the line that says what to install where it is not there


REPORT = EpochReport(1, 20, 3, 4.0, 5.0, 6.0, 7.0, 8.0, {"bleu": 0.5})


@pytest.mark.parametrize("purge", [{}, {"purge_step": 8}], ids=["begun", "resumed"])  # what comes again is taken back
def test_points_of_steps_and_validations(tmp_path, monkeypatch, purge):
    tensorboard = Mock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", tensorboard)
    observer = TensorBoardObserver(tmp_path / "curves")
    if purge:
        observer.resumed(7, (REPORT,), None)
    for step in range(1, 21):
        observer.stepped(StepReport(1, step, 20, step / 2, 0.1, 9.0))
    observer.validated(REPORT, None, True)
    tensorboard.SummaryWriter.assert_called_once_with(str(tmp_path / "curves"), **purge)
    values = [(step, {"loss": step / 2, "lr": 0.1, "tokens_per_second": 9.0}) for step in (10, 20)]
    steps = [call(f"train/{name}", value, step) for step, curves in values for name, value in curves.items()]
    validations = [call("valid/bleu", 0.5, 20), call("valid/loss", 6.0, 20)]
    assert tensorboard.SummaryWriter.return_value.add_scalar.call_args_list == steps + validations


def test_where_it_is_not_installed_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match=r"^TensorBoard is not installed: pip install 'selfattn\[tensorboard\]'$"):
        TensorBoardObserver(tmp_path)
