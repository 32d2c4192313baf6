"""A comparison or a tested run with something missing: one line that names the file, and nothing is changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from selfattn.comparison.compare import compare

Cli = Callable[..., Any]
RUN = "runs/plain-seed0"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small comparison of a model with itself; do not change it."""
    out = tmp_path_factory.mktemp("comparison") / "whole"
    training = {"epochs": 1, "items_per_epoch": 64, "validation_items": 5}
    settings = ("encoder.hidden_dim=8", "decoder.hidden_dim=8")
    models = ("plain=rnn-plain", "same=rnn-plain")
    compare("dates", models=models, quick=True, out=out, test_items=12, set=settings, **training)
    return out


@pytest.fixture
def broken(whole: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    shutil.copytree(whole, tmp_path / "comparison")
    return tmp_path / "comparison"


def refused(cli: Cli, *runs: Path) -> str:
    """Ask for a report that cannot be, and return the one line that says why."""
    out = runs[0].parent / "report"
    done = cli("report", *runs, "--out", out)
    assert (done.code, done.out, done.err.count("\n"), out.exists()) == (2, "", 1, False)
    return str(done.err)


@pytest.mark.parametrize(
    ("name", "key", "value", "reason"),
    [
        (f"{RUN}/test.json", "created", None, "created: is missing"),
        (f"{RUN}/test.json", "headline", None, "headline: is missing"),
        (f"{RUN}/test.json", "gates", 3, "gates: expected a list, found 3"),
        (f"{RUN}/test.json", "schema", 1, "schema 1, this version reads 2"),
        (
            f"{RUN}/test.json",
            "scores",
            {"exact_match": "much"},
            'scores.exact_match: expected a finite number, found "much"',
        ),
        (f"{RUN}/test.jsonl", "output", None, "output: is missing"),
        (f"{RUN}/run.json", "parameters", None, "parameters: is missing"),
        (f"{RUN}/run.json", "machine", [], "machine: expected an object, found []"),
        (f"{RUN}/metrics.jsonl", "tokens", None, "tokens: is missing"),
        ("comparison.json", "models", {}, "models: expected a length of at least 1, found {}"),
        ("comparison.json", "seeds", "3", 'seeds: expected a whole number, found "3"'),
        ("comparison.json", "steps", "3", 'steps: expected a whole number, found "3"'),
        ("comparison.json", "seeds", None, "seeds: is missing"),
    ],
)
def test_a_value_that_is_gone_or_wrong(cli: Cli, broken: Path, name: str, key: str, value: Any, reason: str) -> None:
    path = broken / name
    data = json.loads(path.read_text().splitlines()[0] if path.suffix == ".jsonl" else path.read_text())
    data.pop(key)
    data.pop("checksum", None)  # a file of before there were any
    path.write_text(json.dumps(data if value is None else data | {key: value}) + "\n")
    where = f"{path}:1: " if path.suffix == ".jsonl" else f"{path}: "
    assert refused(cli, broken).startswith(f"error: {where}{reason}; ")


@pytest.mark.parametrize("gone", [RUN, f"{RUN}/test.json", f"{RUN}/test.jsonl"])
def test_a_run_that_is_not_there_yet(cli: Cli, broken: Path, gone: str) -> None:
    path = broken / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = refused(cli, broken)
    assert found.startswith(f"error: {broken / RUN}: not tested yet, or gone; finish the comparison: selfattn compare ")
    assert found.endswith(" --resume\n")


def test_runs_of_other_test_pairs_are_told_before_their_names(cli: Cli, whole: Path, broken: Path) -> None:
    for path in broken.glob("runs/*/test.jsonl"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
        result = path.with_suffix(".json")
        data = json.loads(result.read_text())
        result.write_text(json.dumps({name: data[name] for name in data if name not in ("checksum", "answers_sha256")}))
    found = refused(cli, broken, whole)
    assert found == f"error: {whole / RUN}: not tested on the same pairs as {broken / RUN}; name runs of one test\n"


def test_two_runs_of_one_name_and_seed_are_both_named(cli: Cli, whole: Path, broken: Path) -> None:
    found = refused(cli, broken, whole)
    assert found == (
        f"error: {broken / RUN} and {whole / RUN}: two runs of plain with the same seed; name one of them\n"
    )
