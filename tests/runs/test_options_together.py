"""Options that say the same twice, averages of few validations, files of options without a directory, exports."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from selfattn.runs.load import load
from selfattn.runs.predictor import export_place
from selfattn.runs.run import Run

Cli = Callable[..., Any]
SMALL = ("--items-per-epoch", "32", "--validation-items", "8", "--batch-size", "16")


def test_a_run_is_started_from_with_its_options(cli: Cli, runs: dict[str, Run], tmp_path: Path) -> None:
    start = runs["rnn-plain"].path
    further = ("--config", start, "--init-from", start, "--seed", "5")
    done = cli("train", "dates", *further, "--out", tmp_path / "same")
    assert done.code == 0, done.err
    assert load(tmp_path / "same").config.model == runs["rnn-plain"].config.model
    other = cli("train", "dates", *further, "--model", "transformer", "--out", tmp_path / "other")
    assert other.code == 2
    assert "--model transformer: the model is that of --init-from (rnn-plain); leave it out" in other.err
    size = cli("train", "dates", *further, "--set", "decoder.dropout=0.25", "--out", tmp_path / "size")
    assert size.code == 2
    assert "=0.25: the model is that of --init-from" in size.err


def test_an_average_of_more_validations_than_there_are(cli: Cli, tmp_path: Path) -> None:
    command = ("train", "dates", *SMALL, "--model", "rnn-plain", "--average", "last")
    done = cli(*command, "--epochs", 8, "--average-last", 3, "--out", tmp_path / "refused")
    assert done.code == 2
    assert (
        "--average-last 3: the training has 8 validations, of which at most a quarter are averaged; give 2" in done.err
    )


def test_exports_of_runs_from_the_hub_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert export_place(Path("runs/a"), "onnx") == Path("runs/a-onnx")
    monkeypatch.setattr("huggingface_hub.constants.HF_ASSETS_CACHE", str(tmp_path / "assets"))
    repository = tmp_path / "hub" / "models--somebody--dates"
    (repository / "blobs").mkdir(parents=True)
    (repository / "snapshots" / "0a1b").mkdir(parents=True)
    place = export_place(repository / "snapshots" / "0a1b", "ctranslate2")
    assert place.name == "models--somebody--dates-0a1b-ctranslate2"
    assert repository.parent not in place.parents


def test_what_is_in_the_way_of_an_export(cli: Cli, runs: dict[str, Run]) -> None:
    pytest.importorskip("onnxruntime")
    path = runs["rnn-plain"].path
    place = path.with_name("rnn-plain-onnx")
    place.mkdir()
    (place / "note").write_text("mine")
    done = cli("predict", path, "--engine", "onnx", stdin="1/2/03\n")
    assert (done.code, done.err) == (
        2,
        f"error: {place}: is in the way of the export for onnx, and is none; move it away\n",
    )
    (place / "note").unlink()
    place.rmdir()
