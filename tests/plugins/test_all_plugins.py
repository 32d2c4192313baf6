"""Plugins of eight kinds in one comparison from the command line: trained, reported, saved, loaded, resumed."""

import json
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path
from unittest.mock import patch

import pytest
from small_runs import words
from third_party import FILES, isolated_registries

import selfattn
from selfattn.cli.main import main
from selfattn.errors import UserError
from selfattn.registry import load_plugin

pytestmark = pytest.mark.usefixtures("isolated")
PLUGINS = [FILES / f"{name}.py" for name in (
    "cosine_score", "kerple_position", "convolutional_family", "reversal_task", "edit_similarity", "seed_spread",
    "relu_normalizer", "gated_attention",
)]  # fmt: skip
COMPARISON = (
    "compare", "reversal", "--longest", 5, "--metric", "edit_similarity", "--quick", "--seeds", 2,
    "--match", "none", "--apart", "--models", "convolutional,cosine=rnn-attention,kerple=transformer",
    "--set", "convolutional:dim=16", "--set", "cosine:decoder.score=cosine", "--set", "cosine:encoder.hidden_dim=16",
    "--set", "cosine:decoder.hidden_dim=16", "--set", "kerple:encoder.position=kerple",
    "--set", "kerple:encoder.dim=16", "--set", "kerple:decoder.dim=16", "--set", "kerple:encoder.normalize=relu",
    "--set", "kerple:decoder.attention=gated",
    "--epochs", 1, "--items-per-epoch", 200, "--validation-items", 10, "--test-items", 12, "--jobs", 1,
)  # fmt: skip


def with_plugins(*arguments, without=None):
    """Return a command line with the plugins, all or all but one."""
    plugins = [word for plugin in PLUGINS if plugin != without for word in ("--plugin", plugin)]
    return [str(word) for word in (*plugins, *arguments)]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A small comparison with all plugins; that it is tried on two batches first is left to another."""
    out = tmp_path_factory.mktemp("plugins") / "out"
    with isolated_registries(), patch("selfattn.comparison.compare._rehearse"):
        main(with_plugins(*COMPARISON, "--out", out))
    return out


def test_every_plugin_takes_part(compared):
    results = json.loads((compared / "results.json").read_text())
    headline = results["headline"]
    assert (results["task"], results["test_items"]) == ("reversal", 12)
    assert (headline["metric"], headline["kind"], headline["better"]) == ("edit_similarity", "share", "higher")
    assert [model["name"] for model in results["models"]] == ["convolutional", "cosine", "kerple"]
    configs = {model["name"]: model["config"] for model in results["models"]}
    assert configs["convolutional"]["kind"] == "convolutional"
    assert configs["cosine"]["decoder"]["score"] == "cosine"
    assert configs["kerple"]["encoder"]["position"] == "kerple"
    for model in results["models"]:
        assert {"mean", "low", "high"} <= set(model["metrics"]["edit_similarity"])
        assert len(model["metrics"]["edit_similarity"]["runs"]) == 2
        assert "exact_match" in model["metrics"]
        assert model["alignment"]
    assert {pair["metric"] for pair in results["pairs"]} == {"edit_similarity"}
    assert {group["name"] for group in results["buckets"]} >= {"kind", "length", "field"}
    for page in ("report.html", "report.md"):
        text = (compared / page).read_text().lower()
        assert "seed by seed" in text
        assert "edit similarity" in text.replace("_", " ")


def test_a_comparison_that_was_moved_is_resumed_and_reported(compared, cli, tmp_path):
    compared = Path(shutil.copytree(compared, tmp_path / "moved"))
    weights = compared / "runs" / "kerple-seed1" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    (compared / "runs" / "cosine-seed1" / "test.json").unlink()
    resumed = cli(*with_plugins(*COMPARISON, "--out", compared, "--resume"))
    assert resumed.code == 0, resumed.err
    assert weights.stat().st_mtime_ns == before
    assert cli(*with_plugins("report", compared, "--out", tmp_path / "again")).code == 0
    for name in ("report.html", "report.md", "results.json"):
        assert (tmp_path / "again" / name).read_bytes() == (compared / name).read_bytes()


def test_a_run_answers_from_the_command_line_and_in_python(compared, cli, tmp_path, monkeypatch):
    run = compared / "runs" / "cosine-seed0"
    command = json.loads((run / "run.json").read_text())["command"]
    assert command.startswith(f"selfattn --plugin {PLUGINS[0]} --plugin {PLUGINS[1]} ")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("abc\tcba\nabca\tacba\n")
    for command in ("evaluate", "score", "align"):
        assert cli(*with_plugins(command, run, "--data", pairs)).code == 0
    results = json.loads(cli(*with_plugins("evaluate", run, "--data", pairs, "--json")).out)
    assert (results["task"], results["items"]) == ("reversal", 2)
    loaded = selfattn.load(run)
    assert loaded.task.options.longest == 5
    assert cli(*with_plugins("predict", run), stdin="abc\n").out.splitlines() == loaded.predict(["abc"])
    monkeypatch.setattr("selfattn.exports.onnx.to_onnx", lambda model, folder: (folder / "step.onnx").touch())
    exported = cli(*with_plugins("export", run, "--to", "onnx", "--out", tmp_path / "onnx")).success()
    assert f"try: selfattn --plugin {PLUGINS[0]} --plugin {PLUGINS[1]} " in exported.err


@pytest.mark.parametrize("missing", PLUGINS[::5], ids=lambda path: path.stem)
def test_a_run_needs_the_plugins_that_it_uses_alone(compared, cli, tmp_path, missing):
    for arguments in (("predict", compared / "runs" / "cosine-seed0"), ("report", compared, "--out", tmp_path / "x")):
        done = cli(*with_plugins(*arguments, without=missing), stdin="abc\n")
        if missing.stem == "cosine_score":
            assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
            assert f"give --plugin {missing}" in done.err
        else:
            assert done.code == 0, done.err


def test_what_branches_on_data_is_not_exported(compared, tmp_path, monkeypatch):
    for plugin in PLUGINS:
        load_plugin(str(plugin))
    run = selfattn.load(compared / "runs" / "convolutional-seed0")
    model, encode = type(run.model), type(run.model).encode
    monkeypatch.setattr(model, "encode", lambda *inputs: encode(*inputs) if inputs[1].sum() > 0 else None)
    with pytest.raises(UserError, match=r"onnx: Convolutional has no graph \(.*data-dependent"):
        run.export("onnx", tmp_path / "out")


def test_a_task_has_commands_made_from_its_options(cli):
    for line in ("train reversal --help --plugin TASK", "--plugin TASK compare reversal --help"):
        shown = cli(*words(line, TASK=FILES / "reversal_task.py")).out
        for said in ("Write words backwards.", "--letters STR", "[default: abcdefgh]", "Letters of the words."):
            assert said in shown
    refused = cli(*words("train reversal --out x --plugin TASK --longest 1", TASK=FILES / "reversal_task.py")).refusal()
    assert "--longest: expected at least 3 letters, got 1" in refused


def test_a_broken_entry_point_leaves_help_readable(cli, monkeypatch):
    broken = EntryPoint("broken", "no.such.module", "selfattn.plugins")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [broken])
    monkeypatch.setattr("selfattn.registry._installed", False)
    done = cli("--help")
    assert done.code == 0
    assert "compare" in done.out
    assert done.err.startswith("note: plugin broken (no.such.module): does not import")
