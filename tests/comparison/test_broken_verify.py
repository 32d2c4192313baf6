"""Forged or damaged runs and archives that do not fit together: one line that says what, from `verify` and `report`."""

import shutil
from pathlib import Path

import pytest
from small_runs import Cli, accept_changes

from selfattn.comparison.tested import ANSWERS


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
