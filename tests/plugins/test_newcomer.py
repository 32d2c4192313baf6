"""Plugins of all seven kinds, written from the documentation alone, work; classes that lack something are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_runs import Cli
from third_party import isolated_registries

from selfattn.errors import UserError
from selfattn.plugin import Claim, Metric, Task
from selfattn.registry import METRICS, REGISTRIES, Registry, load_plugin, register

FILE = Path(__file__).with_name("newcomer.py")


@pytest.fixture(autouse=True)
def _isolated() -> Iterator[None]:
    with isolated_registries():
        yield


def test_seven_plugins_from_the_documentation_work(cli: Cli, tmp_path: Path) -> None:
    def call(*words: object) -> str:
        done = cli("--plugin", FILE, *words)
        assert done.code == 0, done.err
        return done.out + done.err

    out = tmp_path / "out"
    small = ("--epochs", 1, "--validation-items", 5, "--test-items", 10, "--seeds", 1, "--jobs", 1)
    said = call(
        "compare", "doubling", "--models", "bag,far=rnn-attention,near=transformer", "--metric", "length_error",
        "--set", "far:decoder.score=negative_distance", "--set", "far:encoder.hidden_dim=8",
        "--set", "far:decoder.hidden_dim=8", "--set", "near:encoder.position=nearby", "--set", "near:encoder.dim=8",
        "--set", "near:decoder.dim=8", "--quick", "--apart", *small, "--out", out,
    )  # fmt: skip
    assert "all parts are tried on two batches first" in said
    results = json.loads((out / "results.json").read_text())
    assert (results["headline"]["metric"], results["headline"]["better"]) == ("length_error", "lower")
    assert "Length of outputs" in (out / "report.md").read_text()
    found = json.loads(call("evaluate", out / "runs/bag-seed0", "--metric", "chrf", "--json"))
    assert {"exact_match", "chrf"} <= set(found["metrics"])
    assert "claims.html" in call("claims", "run", "larger-sums", "--jobs", 1, "--out", tmp_path / "claims")
    call("export", out / "runs/bag-seed0", "--to", "onnx")


def test_the_documented_comparison_of_a_task_is_planned(cli: Cli, tmp_path: Path) -> None:
    task = FILE.with_name("reversal_task.py")
    models = ("--models", "rnn-attention,transformer", "--match", "parameters")
    done = cli("--plugin", task, "compare", "reversal", *models, "--plan-only", "--out", tmp_path / "out")
    assert done.code == 0, done.err


@pytest.mark.slow
def test_the_documented_comparison_of_a_task_ends_with_a_report(cli: Cli, tmp_path: Path) -> None:
    models = ("--models", "rnn-attention,transformer", "--match", "parameters")
    small = ("--quick", "--epochs", 1, "--items-per-epoch", 64, "--validation-items", 5, "--test-items", 10)
    out = ("--seeds", 1, "--jobs", 1, "--out", tmp_path / "out")
    done = cli("--plugin", FILE.with_name("reversal_task.py"), "compare", "reversal", *models, *small, *out)
    assert done.code == 0, done.err
    assert (tmp_path / "out/report.html").is_file()


def test_a_family_that_onnx_cannot_say_is_one_line(cli: Cli, tmp_path: Path) -> None:
    text = FILE.read_text().replace(
        "x, hidden = self", "assert float(state.hidden.detach().sum()) < 1e9\n        x, hidden = self"
    )
    (tmp_path / "branching.py").write_text(text)
    plugin = ("--plugin", tmp_path / "branching.py")
    out = ("--out", tmp_path / "run", "--epochs", 1, "--validation-items", 5)
    trained = cli(*plugin, "train", "doubling", "--model", "bag", *out)
    assert f"try: selfattn --plugin {plugin[1]} predict {tmp_path / 'run'}" in trained.err
    done = cli(*plugin, "export", tmp_path / "run", "--to", "onnx")
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert "error: onnx: Bag has no graph (" in done.err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x, hidden = self", "assert not torch.is_grad_enabled() or 1 / 0\n        x, hidden = self"),
        ("x, hidden = self", "assert torch.is_grad_enabled()\n        x, hidden = self"),
    ],
    ids=["in training", "in validation"],
)
def test_a_part_that_fails_in_use_leaves_no_run(cli: Cli, tmp_path: Path, old: str, new: str) -> None:
    text = FILE.read_text()
    assert old in text
    (tmp_path / "failing.py").write_text(text.replace(old, new))
    out = tmp_path / "run"
    done = cli("--plugin", tmp_path / "failing.py", "train", "doubling", "--model", "bag", "--out", out)
    assert done.code == 2
    assert "tried on two batches first" in done.err
    assert f"error: {tmp_path / 'failing.py'}:" in done.err
    assert done.err.count("\n") == 2
    assert not out.exists()


class NoCounts(Metric):
    pass


class Percent(Metric):
    unit = "percent"  # type: ignore[assignment]  # what the test is about

    def counts(self, outputs, references):  # type: ignore[no-untyped-def]
        return outputs


class NoPairs(Task):
    pass


class LooseOptions(Task):
    Options = dict

    def pair(self, chance):  # type: ignore[no-untyped-def]
        return chance


class Silent(Claim):
    arms = measure = contrasts = blocks = lambda self: None  # type: ignore[assignment]
    source, seconds = "nobody", (1.0, 1.0)
    words = {"en": {}}  # noqa: RUF012


@pytest.mark.parametrize(
    ("kind", "part", "message"),
    [
        ("metric", len, r"metric 'mine': expected a subclass of Metric, got <built-in function len>"),
        ("metric", NoCounts, "NoCounts has no counts"),
        ("metric", Percent, "unit 'percent': expected share or points"),
        ("task", NoPairs, r"NoPairs has none of pair\(\), pairs\(\) and splits\(\)"),
        ("task", LooseOptions, "options are a frozen dataclass"),
        ("section", NoPairs, "has no title and no blocks"),
        ("section", len, "expected a class"),
        ("claim", NoPairs, "expected a subclass of Claim"),
        ("claim", Silent, "its words have no sentence"),
    ],
)
def test_a_part_is_checked_when_it_is_registered(kind: str, part: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        getattr(register, kind)("mine")(part)
    registries: dict[str, Registry[object]] = {registry.what: registry for registry in REGISTRIES}
    assert "mine" not in registries[kind]


def test_a_metric_that_fails_is_told_before_anything_is_trained(cli: Cli, tmp_path: Path) -> None:
    load_plugin(str(FILE))
    METRICS["length_error"].counts = lambda self, outputs, references: 1 / 0
    done = cli("compare", "doubling", "--models", "bag", "--metric", "length_error", "--out", tmp_path / "out")
    assert (done.code, (tmp_path / "out").exists()) == (2, False)
    assert "error: metric 'length_error': cannot score [" in done.err
