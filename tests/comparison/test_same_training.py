"""Runs that were not trained alike cannot be compared, unless the difference was tuned for or declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from selfattn.comparison.compare import compare
from selfattn.comparison.report import report
from selfattn.errors import UserError
from selfattn.report.sections.quality import interval_note
from selfattn.results.record import Gate, Record

TINY: dict[str, Any] = {"epochs": 2, "items_per_epoch": 128, "batch_size": 64, "validation_items": 20}
SET = (
    "transformer:encoder.dim=16", "transformer:decoder.dim=16", "transformer:encoder.ffn_dim=16",
    "rnn-attention:encoder.hidden_dim=16", "rnn-attention:decoder.hidden_dim=16",
)  # fmt: skip


def compared(out: Path, *models: str, **changes: Any) -> Path:
    own = tuple(setting for setting in SET if setting.partition(":")[0] in models)
    compare("dates", models=models, set=own, out=out, test_items=20, quick=True, apart=True, **TINY | changes)
    return out / "runs"


def gate(record: Record) -> Gate:
    (found,) = [gate for gate in record.gates if gate.name == "same training"]
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("runs")
    alike = compared(home / "alike", "rnn-attention", "transformer")
    starved = compared(home / "starved", "transformer", epochs=1, lr=1e-5) / "transformer-seed0"
    return {"rnn": alike / "rnn-attention-seed0", "alike": alike / "transformer-seed0", "starved": starved}


def test_what_is_declared_may_differ_and_is_said(runs: dict[str, Path], tmp_path: Path) -> None:
    pair = [runs["rnn"], runs["starved"]]
    record, files = report(pair, tmp_path / "one", declared=("lr",))
    assert not gate(record).passed
    assert "epochs: 2 of rnn-attention-seed0, 1 of transformer-seed0" in gate(record).reason
    assert "Not comparable" in files.markdown.read_text().partition("|")[0]
    assert "lr" not in gate(record).reason.partition("; lr differs as declared")[0]
    record, files = report(pair, tmp_path / "both", declared=("lr", "epochs"))
    assert gate(record).passed
    assert gate(record).reason == "all runs had the same settings of the training; epochs, lr differs as declared"
    assert record.settings["declared"] == ["lr", "epochs"]
    assert "--declared lr,epochs" in record.command
    assert "trained differently on purpose: lr, epochs" in files.markdown.read_text()
    with pytest.raises(UserError, match="`declared` rate: not a setting of the training; choose of seed, epochs, "):
        report(pair, tmp_path / "none", declared=("rate",))
    with pytest.raises(UserError, match="`declared`: the runs of one comparison"):
        report([runs["rnn"].parents[1]], tmp_path / "none", declared=("lr",))


def test_dates_of_one_day_are_one_item(runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that is short of days gives no narrow intervals, and says so."""
    from selfattn.tasks.dates import Dates

    plain, _ = report([runs["rnn"], runs["alike"]], tmp_path / "plain")
    monkeypatch.setattr(Dates, "repeats", lambda self, pair: pair.target[:2])
    record, files = report([runs["rnn"], runs["alike"]], tmp_path / "centuries")
    assert (record.interval.repeated, plain.interval.repeated) == (18, 0)
    for model, before in zip(record.models, plain.models, strict=True):
        one, other = model.metrics["exact_match"], before.metrics["exact_match"]
        assert (one.high or 0) - (one.low or 0) > 2 * ((other.high or 0) - (other.low or 0))
    assert "18 items repeat another" in files.markdown.read_text()
    assert "겹치는 18개 항목" in interval_note(record).say("ko")


def test_what_was_tuned_for_may_differ(tmp_path: Path) -> None:
    """Runs of the comparison may be reported alone."""
    names, out = ("rnn-attention", "transformer"), tmp_path / "tuned"
    where = compared(out, *names, rates=(0.002, 0.004), tuning_seeds=1)
    record, _ = report([out], tmp_path / "again")
    assert gate(record).passed
    record, _ = report([where / f"{name}-seed0" for name in names], tmp_path / "single")
    assert gate(record).passed
    assert min(len(model.trials) for model in record.models) >= 2
    assert record.models[0].trials[0].seed == 10_000
