"""Loaded runs: used by threads at once, weights that overflow, another default dtype, limits of a model."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_runs import Train, accept_changes

from selfattn.data.pairs import Example
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import SettingError, UserError
from selfattn.files import sha256_of
from selfattn.models.config import Limits
from selfattn.runs.directory import RunDirectory, files_in
from selfattn.runs.fit import within_limits
from selfattn.runs.load import load
from selfattn.runs.run import Run
from selfattn.runs.train import train as train_on


def test_threads_may_share_a_run(runs: dict[str, Run]) -> None:
    run = runs["rnn-attention"]
    texts = ["1 May 1999", "Tuesday, 5 March 1985"] * 4
    with ThreadPoolExecutor(4) as pool:
        views, outputs = pool.map(run.attention, texts), pool.map(lambda text: run.predict([text])[0], texts)
        views, outputs = list(views), list(outputs)
    expected = [run.attention(text) for text in texts[:2]] * 4
    for view, alone in zip(views, expected, strict=True):
        assert view.gradient is not None
        assert alone.gradient is not None
        torch.testing.assert_close(view.gradient, alone.gradient)
    assert outputs == [view.prediction for view in expected]


def test_finite_weights_that_overflow_are_refused(runs: dict[str, Run], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(runs["transformer"].path, tmp_path / "copy"))
    weights = load_file(copy / "model.safetensors")
    save_file({name: tensor * 1e30 for name, tensor in weights.items()}, copy / "model.safetensors")
    accept_changes(copy)
    with pytest.raises(UserError, match=r"model\.safetensors: numbers of this model overflow"):
        load(copy)


def test_another_default_dtype_or_device_is_named(runs: dict[str, Run]) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(UserError, match=r"torch's default dtype is torch\.float64, and models of runs are float32"):
            load(runs["transformer"].path)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"), pytest.raises(UserError, match="torch's default device is meta; set it to cpu"):
        load(runs["transformer"].path)


def test_the_limits_of_a_model_hold_in_training_and_prediction(
    runs: dict[str, Run], train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs["rnn-plain"]
    monkeypatch.setattr(type(run.config.model), "limits", lambda self: Limits(source=5))
    with pytest.raises(UserError, match="a source of 11 tokens: this model has at most 5 positions"):
        run.predict(["1 May 1999"])
    with pytest.raises(UserError, match="rnn-plain: cannot read the longest pair of these data: a source of"):
        train("rnn-plain", tmp_path / "run")
    long = [Example([4, 2], [5, 2]), Example([4] * 6, [5, 2])]  # not among the pairs that were searched for the longest
    for examples in (long, iter(long)):
        with pytest.raises(UserError, match="training data: a source of 6 tokens: this model has at most 5 positions"):
            list(within_limits(examples, run.config.model))
    monkeypatch.setattr(type(run.config.model), "limits", lambda self: Limits(target=5))
    with pytest.raises(UserError, match="an output of 6 tokens: this model has at most 5 positions"):
        run.predict(["1 May 1999"], DecodingOptions(max_length=6))


def test_a_training_starts_from_the_weights_of_a_run(runs: dict[str, Run], tmp_path: Path) -> None:
    first = runs["rnn-plain"]
    settings: dict[str, Any] = {"epochs": 1, "items_per_epoch": 64, "validation_items": 5, "lr": 1e-9}
    second = train_on("dates", out=tmp_path / "run", init_from=first.path, locales=("en_US",), **settings)
    assert second.config.model == first.config.model
    assert files_in(tmp_path / "run" / "tokenizer") == files_in(first.path / "tokenizer")
    weights = zip(first.model.state_dict().values(), second.model.state_dict().values(), strict=True)
    assert all(torch.allclose(before, after, atol=1e-6) for before, after in weights)
    assert RunDirectory(second.path).config().init_from == sha256_of(first.path / "model.safetensors")
    with pytest.raises(UserError, match="begun with"):
        train_on("dates", out=tmp_path / "run", model="rnn-plain", resume=True, locales=("en_US",), **settings)
    with pytest.raises(SettingError, match="`model` transformer: the model is that of `init_from`"):
        train_on("dates", out=tmp_path / "other", init_from=first.path, model="transformer")
    changed = (f"encoder.hidden_dim={first.config.model.encoder.hidden_dim}", "decoder.hidden_dim=7")  # type: ignore[attr-defined]
    with pytest.raises(SettingError, match=r"`set` decoder\.hidden_dim=7: the model is that of `init_from`"):
        train_on("dates", out=tmp_path / "other", init_from=first.path, set=changed)
