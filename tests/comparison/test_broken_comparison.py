"""A comparison or a tested run with something missing: one line that names the file, and nothing is changed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_runs import Cli, accept_changes

RUN = "runs/rnn-plain-seed5"


def refused(cli: Cli, comparison: Path) -> str:
    """Ask for a report that cannot be, and return the one line that says why."""
    out = comparison.parent / "report"
    refusal = cli("report", comparison, "--out", out).refusal()
    assert not out.exists()
    return refusal


@pytest.mark.parametrize(
    ("name", "key", "value", "reason"),
    [
        (f"{RUN}/test.json", "created", None, "created: is missing"),
        (f"{RUN}/test.json", "gates", 3, "gates: expected a valid array, found 3"),
        (f"{RUN}/test.jsonl", "output", None, "output: is missing"),
        (f"{RUN}/run.json", "parameters", None, "parameters: is missing"),
        ("plan.json", "models", {}, "models: Dictionary should have at least 1 item after validation, not 0, found {}"),
        ("plan.json", "seal", None, "not a plan that this version can read"),
        ("plan.json", "seeds", "3", 'seeds: expected a valid integer, found "3"'),
    ],
)
def test_a_value_that_is_gone_or_wrong(cli: Cli, copy: Path, name: str, key: str, value: Any, reason: str) -> None:
    path = copy / name
    data = json.loads(path.read_text().splitlines()[0] if path.suffix == ".jsonl" else path.read_text())
    data.pop(key)
    data.pop("checksum", None)  # a file of before there were any
    path.write_text(json.dumps(data if value is None else data | {key: value}) + "\n")
    if path.name.startswith("test.json"):
        accept_changes(path.parent)
    where = f"{path}:1: " if path.suffix == ".jsonl" else f"{path}: "
    assert refused(cli, copy).startswith(f"error: {where}{reason}; ")


@pytest.mark.parametrize("gone", [RUN, f"{RUN}/test.json", f"{RUN}/test.jsonl"])
def test_a_run_that_is_not_there_yet(cli: Cli, copy: Path, gone: str) -> None:
    path = copy / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = refused(cli, copy)
    assert found.startswith(f"error: {copy / RUN}: not tested yet, or gone; finish the comparison: selfattn compare ")
    assert found.endswith(" --resume\n")


def test_a_run_or_a_comparison_without_its_plan_has_no_report(cli: Cli, copy: Path) -> None:
    (copy / "plan.json").unlink()
    for place in (copy / RUN, copy):
        assert refused(cli, place).startswith(f"error: {place / 'plan.json'}: no such file; name the directory of a ")
