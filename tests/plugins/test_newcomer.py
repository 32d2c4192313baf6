"""Plugins of all eight kinds, written from the documentation alone, work together."""

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("isolated")]
FILE = Path(__file__).with_name("newcomer.py")


def test_eight_plugins_from_the_documentation_work(cli, tmp_path):
    def call(*words):
        done = cli("--plugin", FILE, *words)
        assert done.code == 0, done.err
        return done.out + done.err

    out = tmp_path / "out"
    small = ("--epochs", 1, "--validation-items", 5, "--test-items", 10, "--seeds", 1, "--jobs", 1)
    said = call(
        "compare", "doubling", "--models", "bag,far=rnn-attention,near=transformer", "--metric", "length_error",
        "--set", "far:decoder.score=minus_distance", "--set", "far:encoder.hidden_dim=8",
        "--set", "far:decoder.hidden_dim=8", "--set", "near:encoder.position=nearby", "--set", "near:encoder.dim=8",
        "--set", "near:encoder.normalize=halves",
        "--set", "near:decoder.dim=8", "--quick", "--apart", *small, "--out", out,
    )  # fmt: skip
    assert "all parts are tried on two batches first" in said
    results = json.loads((out / "results.json").read_text())
    assert (results["headline"]["metric"], results["headline"]["better"]) == ("length_error", "lower")
    assert "Length of outputs" in (out / "report.md").read_text()
    evaluated = json.loads(call("evaluate", out / "runs/bag-seed0", "--metric", "chrf", "--json"))
    assert {"exact_match", "chrf"} <= set(evaluated["metrics"])
    assert "claims.html" in call("claims", "run", "larger-sums", "--jobs", 1, "--out", tmp_path / "claims")


def test_a_family_from_the_documentation_is_exported(cli, tmp_path):
    run, plugin = tmp_path / "run", ("--plugin", FILE)
    assert cli(*plugin, "train", "doubling", "--model", "bag", "--max-steps", 1, "--out", run).code == 0
    assert f"try: selfattn --plugin {FILE} predict" in cli(*plugin, "export", run, "--to", "onnx").err
