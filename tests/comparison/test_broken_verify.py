"""Forged or damaged runs and archives that do not fit together: one line that says what, from `verify` and `report`."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import Cli, accept_changes

from selfattn.comparison.archive import ARCHIVE, archive_sha256
from selfattn.comparison.tested import ANSWERS
from selfattn.comparison.verify import RESULTS

Lines = list[dict[str, Any]]


def report_of(comparison: Path, out: Path) -> Path:
    """Return a report with its archive, without the runs."""
    out.mkdir()
    for name in (RESULTS, ARCHIVE):
        shutil.copy(comparison / name, out)
    return out


def change_archive(report: Path, change: Callable[[Lines], None]) -> None:
    """Change an archive, and let the record have its digest, as whoever forges one would."""
    lines = [json.loads(line) for line in gzip.decompress((report / ARCHIVE).read_bytes()).splitlines()]
    change(lines)
    (report / ARCHIVE).write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    record = json.loads((report / RESULTS).read_text("utf-8"))
    record["outputs_sha256"] = archive_sha256(report / ARCHIVE)
    (report / RESULTS).write_text(json.dumps(record))


def without_run(lines: Lines) -> None:
    lines[0]["runs"].pop()
    for line in lines[1:]:
        line["outputs"].pop()


def with_other_seed(lines: Lines) -> None:
    lines[0]["runs"][0]["seed"] += 1


def with_other_model(lines: Lines) -> None:
    lines[0]["runs"][0]["model"] = "other"


def with_other_budget(lines: Lines) -> None:
    for run in lines[0]["runs"]:
        run["budget"] /= 2


def that_all_failed(lines: Lines) -> None:
    for run in lines[0]["runs"]:
        run["failed"] = True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_run, "runs with seeds"),
        (with_other_seed, "runs with seeds"),
        (with_other_model, "runs with seeds"),
        (that_all_failed, "no training of rnn-plain came to an end"),
    ],
)
def test_an_archive_has_the_runs_of_its_record(
    change: Callable[[Lines], None], said: str, tuned: Path, finished: Path, tmp_path: Path, cli: Cli
) -> None:
    for number, comparison in enumerate((tuned, finished)):
        report = report_of(comparison, tmp_path / str(number))
        change_archive(report, change)
        assert cli("verify", report).refusal().startswith(f"error: {report / ARCHIVE}: {said}")


def test_an_archive_has_the_budgets_of_its_record(finished: Path, tmp_path: Path, cli: Cli) -> None:
    report = report_of(finished, tmp_path / "report")
    change_archive(report, with_other_budget)
    assert "outputs at budgets [0.125, 0.5], the record has [0.25, 1.0]" in cli("verify", report).refusal()


def test_tunings_of_a_record_have_as_many_runs_each(tuned: Path, tmp_path: Path, cli: Cli) -> None:
    report = report_of(tuned, tmp_path / "report")
    record = json.loads((report / RESULTS).read_text("utf-8"))
    record["models"][0]["tunings"] = [0, 0]
    (report / RESULTS).write_text(json.dumps(record))
    assert "seeds [5, 6] have the settings of tunings [0, 0]" in cli("verify", report).refusal()


@pytest.mark.parametrize("command", ["verify", "report"])
def test_a_run_stands_in_its_own_place(command: str, tuned_copy: Path, cli: Cli) -> None:
    runs = tuned_copy / "runs"
    shutil.rmtree(runs / "rnn-plain-seed6")
    shutil.copytree(runs / "rnn-plain-seed5", runs / "rnn-plain-seed6")
    more = ("--out", tuned_copy.parent / "report") if command == "report" else ()
    refusal = cli(command, tuned_copy, *more).refusal()
    assert "rnn-plain: seeds [5, 5] have the settings of tunings [0, 0]" in refusal


@pytest.mark.parametrize("command", ["verify", "report"])
def test_attention_is_shown_on_pairs_of_the_test(command: str, copy: Path, cli: Cli) -> None:
    """The last items are cut from all runs, as if there had never been more."""
    for run in (copy / "runs").iterdir():
        lines = (run / ANSWERS).read_text("utf-8").splitlines(keepends=True)
        (run / ANSWERS).write_text("".join(lines[:2]), "utf-8")
        accept_changes(run)
    more = ("--out", copy.parent / "report") if command == "report" else ()
    assert f"{ANSWERS} has 2 pairs" in cli(command, copy, *more).refusal()


def test_budgets_differ_in_what_was_trained(copy: Path, cli: Cli) -> None:
    """The runs of a smaller budget are replaced by copies of the full ones."""
    for run in sorted((copy / "runs").glob("*-budget0.25")):
        shutil.rmtree(run)
        shutil.copytree(run.with_name(run.name.removesuffix("-budget0.25")), run)
    refusal = cli("report", copy, "--out", copy.parent / "report").refusal()
    assert "trained as much as a run of another budget" in refusal
