"""Six strangers' files in one comparison, driven by the command line: trained, compared, reported, gone on with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PLUGINS = [HERE / f"{name}.py" for name in (
    "cosine_score", "kerple_position", "convolutional_family", "reversal_task", "edit_similarity", "seed_spread",
)]  # fmt: skip
COMPARISON = (
    "compare", "reversal", "--longest", 5, "--metric", "edit_similarity", "--quick", "--seeds", 3, "--apart",
    "--models", "convolutional,cosine=rnn-attention,kerple=transformer",
    "--set", "convolutional:dim=16", "--set", "cosine:decoder.score=cosine", "--set", "cosine:encoder.hidden_dim=16",
    "--set", "cosine:decoder.hidden_dim=16", "--set", "kerple:encoder.position=kerple",
    "--set", "kerple:encoder.dim=16",
    "--set", "kerple:decoder.dim=16",
    "--epochs", 1, "--items-per-epoch", 300, "--validation-items", 20, "--test-items", 40,
)  # fmt: skip


def run(*arguments: object, plugins: list[Path] = PLUGINS) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    given = [word for plugin in plugins for word in ("--plugin", str(plugin))]
    command = [sys.executable, "-m", "selfattn.cli", *given, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small comparison with all of them."""
    out = tmp_path_factory.mktemp("doors") / "out"
    done = run(*COMPARISON, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def test_every_part_takes_part(compared: Path) -> None:
    results = json.loads((compared / "results.json").read_text())
    assert results["task"] == "reversal"
    assert results["headline"]["metric"] == "edit_similarity"
    assert [model["name"] for model in results["models"]] == ["convolutional", "cosine", "kerple"]
    configs = {model["name"]: model["config"] for model in results["models"]}
    assert configs["convolutional"]["kind"] == "convolutional"
    assert configs["cosine"]["decoder"]["score"] == "cosine"
    assert configs["kerple"]["encoder"]["position"] == "kerple"
    for model in results["models"]:
        assert {"mean", "low", "high", "runs"} <= set(model["metrics"]["edit_similarity"])
    assert {pair["metric"] for pair in results["pairs"]} == {"edit_similarity"}
    for page in ("report.html", "report.md"):
        assert "Seed by seed" in (compared / page).read_text()


def test_it_is_gone_on_with_and_reported_byte_for_byte(compared: Path, tmp_path: Path) -> None:
    weights = compared / "runs" / "kerple-seed2" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    (compared / "runs" / "cosine-seed1" / "test.json").unlink()
    done = run(*COMPARISON, "--out", compared, "--resume")
    assert done.returncode == 0, done.stderr
    assert weights.stat().st_mtime_ns == before
    done = run("report", compared, "--out", tmp_path / "again")
    assert done.returncode == 0, done.stderr
    for name in ("report.html", "report.md", "results.json"):
        assert (tmp_path / "again" / name).read_bytes() == (compared / name).read_bytes()


@pytest.mark.parametrize("missing", PLUGINS, ids=lambda path: path.stem)
def test_without_one_of_them_a_run_is_not_loaded(compared: Path, missing: Path) -> None:
    done = run(
        "evaluate", compared / "runs" / "cosine-seed0", plugins=[plugin for plugin in PLUGINS if plugin != missing]
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"give --plugin {missing}" in done.stderr
