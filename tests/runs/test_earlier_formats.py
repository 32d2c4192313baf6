"""Run directories that version 0.1.0 wrote before its files went through one codec: they load, answer, and go on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from selfattn import load
from selfattn.errors import UserError
from selfattn.runs.directory import RunDirectory

FORMATS = Path(__file__).parents[1] / "fixtures/formats"
SETTINGS = [
    "--device",
    "cpu",
    "--items-per-epoch",
    "200",
    "--epochs",
    "3",
    "--validation-items",
    "20",
    "--batch-size",
    "32",
    "--set",
    "encoder.dim=8",
    "--set",
    "decoder.dim=8",
    "--set",
    "encoder.ffn_dim=16",
    "--set",
    "decoder.ffn_dim=16",
    "--set",
    "encoder.dropout=0.2",
    "--average",
    "ema",
    "--validate-every",
    "5",
]


def test_a_run_on_dates_loads_and_answers() -> None:
    run = load(FORMATS / "run-dates")
    assert (run.config.preset, run.config.training.average, run.config.plugins) == ("transformer", "ema", ())
    assert len(run.predict(["November 13, 2008", "11/13/08"])) == 2
    directory = RunDirectory(FORMATS / "run-dates")
    assert [report.measures for report in directory.metrics()] == [{"exact_match": 0.0}] * 2
    record = directory.record()
    assert (record.status, record.parameters, record.machine["cores"], record.resumed) == ("running", 3086, 2, ())


def test_a_run_is_loaded_onto_a_device() -> None:
    run = load(FORMATS / "run-dates", device="cpu")
    assert {parameter.device.type for parameter in run.model.parameters()} == {"cpu"}
    with pytest.raises(UserError, match="device: expected one of auto, cpu, cuda, got 'gpu'"):
        load(FORMATS / "run-dates", device="gpu")  # type: ignore[arg-type]  # what a hurried reader writes


def test_a_language_model_loads_and_continues() -> None:
    run = load(FORMATS / "run-lm")
    assert run.predict(["line 1"])[0].startswith("line 1")
    assert RunDirectory(run.path).record().commit is None


def test_an_interrupted_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(FORMATS / "run-dates", out)
    command = [sys.executable, "-m", "selfattn.cli", "train", "dates", *SETTINGS, "--out", str(out), "--resume"]
    subprocess.run(command, check=True, capture_output=True)
    directory = RunDirectory(out)
    assert directory.record().status == "finished"
    reports = directory.metrics()
    assert [report.step for report in reports] == [5, 10, 15, 20, 21]
    # As the earlier version went on itself.
    assert [report.valid_loss for report in reports[2:]] == pytest.approx([3.6385, 3.5926, 3.5892], abs=2e-3)


def test_a_run_that_needs_a_plugin_says_which(tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(FORMATS / "run-dates", out)
    settings = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(settings | {"plugins": ["parts/my_score.py"]}))
    with pytest.raises(UserError, match=r"run: was made with parts .*; give --plugin parts/my_score\.py$"):
        load(out)
