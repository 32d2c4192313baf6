"""A task of one's own: trained, compared, reported, saved, loaded, gone on with; in Python and on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import selfattn
from selfattn.data.splits import Splits
from selfattn.errors import SettingError, UserError
from selfattn.registry import TASKS, load_plugin

FILE = Path(__file__).with_name("reversal_task.py")
SMALL = ("--set", "encoder.dim=16", "--set", "decoder.dim=16", "--epochs", "1", "--items-per-epoch", "200",
         "--validation-items", "10")  # fmt: skip
MODELS = ("--models", "one=transformer,two=transformer", "--quick", "--test-items", "30")


def run(*arguments: object, plugin: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, so that the plugin is there only where it is given."""
    given = ["--plugin", FILE] if plugin else []
    command = [sys.executable, "-m", "selfattn.cli", *map(str, (*given, *arguments))]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def test_the_file_is_short() -> None:
    assert len(FILE.read_text(encoding="utf-8").splitlines()) <= 60


@pytest.fixture
def reversal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The task is there for one test only."""
    TASKS.names()
    for name in ("_parts", "_plugin_of"):
        monkeypatch.setattr(TASKS, name, dict(getattr(TASKS, name)))
    monkeypatch.setattr("selfattn.registry._loaded", {})
    before = set(sys.modules)
    load_plugin(str(FILE))
    yield TASKS["reversal"]
    for name in set(sys.modules) - before:
        if name.startswith("selfattn_plugin_"):
            del sys.modules[name]


def test_its_parts_share_no_word_and_are_the_same_for_ever(reversal: Any) -> None:
    splits: Splits = reversal(longest=4).splits(seed=3)
    train, valid, test = splits.train(0, 500), splits.validation(40), splits.test(40)
    sources = [{pair.source for pair in part} for part in (train, valid, test)]
    assert not sources[0] & sources[1]
    assert not sources[0] & sources[2]
    assert not sources[1] & sources[2]
    assert len(sources[1]) == len(sources[2]) == 40
    assert all(pair.target == pair.source[::-1] for pair in (*train, *valid, *test))
    again = reversal(longest=4).splits(seed=4)
    assert (again.test(40), again.validation(40)) == (test, valid)
    assert again.train(0, 500) != train
    assert splits.train(1, 500) != train
    few = reversal(letters="ab").splits(0).test(1_000)  # there are no more
    assert 1 <= len(few) == len({pair.source for pair in few}) < 100
    with pytest.raises(UserError, match="of 20,000 pairs none falls into this part"):
        reversal(letters="a", longest=3).splits(0).test(1)


def test_its_options_are_checked_where_it_is_made(reversal: Any) -> None:
    with pytest.raises(SettingError, match="`longest`: expected at least 3 letters, got 1"):
        reversal(longest=1)
    with pytest.raises(SettingError, match="`shorted`: there is no such setting here; did you mean `shortest`"):
        reversal(shorted=1)


def test_a_run_finds_its_task_and_options_again(reversal: Any, tmp_path: Path) -> None:
    settings = ("encoder.dim=16", "decoder.dim=16")
    trained = selfattn.train(
        reversal(letters="xyz"), out=tmp_path / "run", set=settings, epochs=1, items_per_epoch=100, validation_items=5
    )
    loaded = selfattn.load(tmp_path / "run")
    assert loaded.task.options == reversal(letters="xyz").options
    assert loaded.predict(["xyzzy"]) == trained.predict(["xyzzy"])


def test_its_commands_are_made_from_it(tmp_path: Path) -> None:
    for command in ("train", "compare"):
        shown = run(command, "reversal", "--help").stdout
        assert "Write words backwards." in shown
        assert "--letters STR" in shown
        assert "[default: abcdefgh]" in shown
        assert "that words are made of." in shown
    refused = run("train", "reversal", "--out", tmp_path / "run", "--longest", "1")
    assert (refused.returncode, refused.stderr) == (2, "error: --longest: expected at least 3 letters, got 1\n")
    unknown = run("train", "reversal", "--out", tmp_path / "run", plugin=False)
    assert unknown.returncode == 2


def test_a_run_of_it_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run("train", "reversal", "--out", out, "--letters", "abc", *SMALL)
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "run.json").read_text())["command"].startswith(f"selfattn --plugin {FILE} train reversal ")
    found = json.loads(run("evaluate", out, "--json").stdout)
    assert (found["task"], found["data"]) == ("reversal", "generated pairs")
    assert set(found["by_format"]) <= {f"{count} letters" for count in range(3, 9)}
    (tmp_path / "pairs.tsv").write_text("abc\tcba\nabca\tacba\n")
    for command in ("evaluate", "score", "align"):
        assert run(command, out, "--data", tmp_path / "pairs.tsv").returncode == 0
    assert run("predict", out, stdin="abc\n").stdout.count("\n") == 1
    for arguments in (("evaluate", out), ("predict", out), ("attention", out, "abc")):
        refused = run(*arguments, plugin=False)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert f"give --plugin {FILE}" in refused.stderr


def test_a_comparison_on_it_is_gone_on_with_and_reported(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("compare", "reversal", *MODELS, *SMALL, "--out", out, "--longest", "5")
    done = run(*command)
    assert done.returncode == 0, done.stderr
    results = json.loads((out / "results.json").read_text())
    assert (results["task"], results["test_items"], results["headline"]["metric"]) == ("reversal", 30, "exact_match")
    assert {group["name"] for group in results["buckets"]} >= {"kind", "length", "field"}
    assert all(model["alignment"] for model in results["models"])
    assert "Reversal" in (out / "report.html").read_text() or "reversal" in (out / "report.html").read_text()
    (out / "runs" / "two-seed0" / "test.json").unlink()
    before = (out / "runs" / "two-seed0" / "model.safetensors").stat().st_mtime_ns
    again = run(*command, "--resume")
    assert again.returncode == 0, again.stderr
    assert (out / "runs" / "two-seed0" / "model.safetensors").stat().st_mtime_ns == before
    assert run("report", out, "--out", tmp_path / "again").returncode == 0
    for name in ("report.md", "results.json"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()
    refused = run("report", out, "--out", tmp_path / "other", plugin=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"give --plugin {FILE}" in refused.stderr


def test_a_plugin_may_stand_behind_the_command_and_must_be_there(tmp_path: Path) -> None:
    shown = run("train", "reversal", "--help", "--plugin", FILE, plugin=False)
    assert "Write words backwards." in shown.stdout
    for words, message in (
        (("--plugin", tmp_path / "none.py"), "none.py: no such file; name a Python file"),
        (("--plugin", "no.such.module"), "--plugin no.such.module: does not import"),
        (("--plugin",), "--plugin: expected a Python file, or a module by its dotted name"),
    ):
        refused = run("models", *words, plugin=False)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert message in refused.stderr
