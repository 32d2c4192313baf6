"""Loaded runs: used by threads at once, weights that overflow, another default dtype, limits of a model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_runs import Train, accept_changes

from selfattn.errors import UserError
from selfattn.models.config import Limits
from selfattn.runs.run import Run, load


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


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


@pytest.mark.usefixtures("float64")
def test_another_default_dtype_is_named(runs: dict[str, Run]) -> None:
    with pytest.raises(UserError, match=r"torch's default dtype is torch\.float64, and models of runs are float32"):
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
