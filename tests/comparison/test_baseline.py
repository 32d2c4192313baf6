"""The baseline that a user states: what others reached on the same data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selfattn.comparison.compare import compare
from selfattn.comparison.report import report
from selfattn.errors import UserError
from selfattn.evaluation.gates.output_gates import baseline_gate
from selfattn.results.record import Baseline, Record
from selfattn.tasks.baselines import stated_baseline
from selfattn.tasks.translation import Translation

SOURCE = "Smith 2026, a Transformer: 41.02"
SMALL = ("encoder.dim=16", "decoder.dim=16", "encoder.ffn_dim=16", "decoder.ffn_dim=16", "encoder.num_layers=1",
         "decoder.num_layers=1")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "source", "language", "expected"),
    [
        (None, None, "de", None),
        ("bleu=38", SOURCE, "de", Baseline("bleu", 38.0, SOURCE)),
        ("bleu_lowercased_tokenised=38.5", f"  {SOURCE}\n", "de", Baseline("bleu_lowercased_tokenised", 38.5, SOURCE)),
        ("exact_match=1", "by\nhand", "ko", Baseline("exact_match", 1.0, "by hand")),
        ("chrf=100", SOURCE, "ko", Baseline("chrf", 100.0, SOURCE)),
    ],
)
def test_a_baseline_has_a_metric_a_value_and_a_source(
    text: str | None, source: str | None, language: str, expected: Baseline | None
) -> None:
    assert stated_baseline(text, source, language) == expected


@pytest.mark.parametrize(
    ("text", "source", "message"),
    [
        ("38", SOURCE, "`baseline` 38: expected metric=value, the metric one of bleu, "),
        ("comet=1", SOURCE, "one of bleu, bleu_lowercased_tokenised, chrf, exact_match$"),
        ("ter=50", SOURCE, "expected metric=value"),  # lower is better
        ("bleu=", SOURCE, "a number above 0 and at most 100, got $"),
        ("bleu=much", SOURCE, "got much"),
        ("bleu=nan", SOURCE, "got nan"),
        ("bleu=0", SOURCE, "got 0"),
        ("bleu=101", SOURCE, "got 101"),
        ("exact_match=95", SOURCE, "at most 1, got 95"),
        ("bleu=38", None, "`baseline`: needs `baseline_source`: who reached what, on what"),
        ("bleu=38", "  ", "needs `baseline_source`"),
        (None, SOURCE, "give `baseline` metric=value as well"),
    ],
)
def test_a_baseline_that_cannot_be_meant(text: str | None, source: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        stated_baseline(text, source, "de")
    assert "\n" not in str(caught.value)


def test_there_is_no_such_score_for_every_language(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="one of bleu, chrf, exact_match"):
        stated_baseline("bleu_lowercased_tokenised=38", SOURCE, "ko")
    with pytest.raises(UserError, match="expected metric=value"):
        compare("translation", out=tmp_path / "out", baseline="38", baseline_source=SOURCE)
    assert not (tmp_path / "out").exists()


def test_a_gate_at_the_baseline_and_below() -> None:
    baseline = Baseline("bleu", 38.0, SOURCE)
    at, below = baseline_gate(baseline, 38.0), baseline_gate(baseline, 37.99)
    assert at is not None
    assert at.passed
    assert below is not None
    assert (below.name, below.passed, below.value, below.limit) == ("published baseline", False, 37.99, 38.0)
    assert below.reason == f"bleu 37.99, at least 38 expected ({SOURCE})"


def options(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"out": tmp_path / "out", "quick": True, "apart": True, "match": None, "test_items": 20}
    training = {"epochs": 1, "items_per_epoch": 100, "batch_size": 64, "validation_items": 10}
    models = ("one=transformer", "two=transformer")
    settings = tuple(f"{name}:{setting}" for name in ("one", "two") for setting in SMALL)
    return given | training | {"models": models, "set": settings} | changes


def baselines(record: Record) -> list[tuple[str, bool, str]]:
    return [(gate.model, gate.passed, gate.reason) for gate in record.gates if gate.name == "published baseline"]


def test_every_model_is_held_against_it_and_it_cannot_be_moved_afterwards(tmp_path: Path) -> None:
    asked = options(tmp_path, baseline="bleu=99", baseline_source=SOURCE)
    record, files = compare("translation", **asked)
    found = baselines(record)
    assert [(model, passed) for model, passed, _ in found] == [("one", False), ("two", False)]
    assert all(reason.endswith(f"at least 99 expected ({SOURCE})") for _, _, reason in found)
    assert f"--baseline bleu=99 --baseline-source '{SOURCE}'" in record.command
    assert SOURCE in files.markdown.read_text()
    again, _ = report([tmp_path / "out"], tmp_path / "again")
    assert again == record
    with pytest.raises(UserError, match="holds another experiment"):
        compare("translation", **asked | {"baseline": "bleu=1", "resume": True})
    korean, _ = compare("translation", **asked | {"lang": "ko", "resume": True})
    assert "--lang ko" in korean.command
    assert replace(korean, command="") == replace(record, command="")


def test_a_share_of_the_training_is_held_against_what_it_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_from_80 = Baseline("exact_match", 0.99, SOURCE, examples=80, distinct=80)
    monkeypatch.setattr(Translation, "published", lambda self, settings: {"transformer": asked_from_80})
    compare("translation", **options(tmp_path, models=("one=transformer",), set=SMALL, budgets=(0.5, 1.0), jobs=1))
    whole, half = (
        json.loads((tmp_path / "out" / "runs" / f"one-seed0{name}" / "test.json").read_text())["gates"]
        for name in ("", "-budget0.5")
    )
    (found,) = [gate["reason"] for gate in whole if gate["name"] == "published baseline"]
    assert found.startswith("exact_match 0 after 100 training pairs, ")
    assert not [gate for gate in half if gate["name"] == "published baseline"]  # 50 pairs


def test_who_is_stopped_after_some_steps_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_from_1 = Baseline("exact_match", 0.99, SOURCE, examples=1)
    monkeypatch.setattr(Translation, "published", lambda self, settings: {"transformer": asked_from_1})
    record, _ = compare("translation", **options(tmp_path, models=("one=transformer",), set=SMALL, max_steps=1))
    assert baselines(record) == []


def test_without_one_there_is_no_such_gate_on_translations(tmp_path: Path) -> None:
    record, _ = compare("translation", **options(tmp_path, models=("one=transformer",), set=SMALL))
    assert baselines(record) == []
    plan = tmp_path / "out" / "plan.json"
    data = json.loads(plan.read_text())
    del data["checksum"]  # written by hand, or before there were any
    assert "baseline" not in data  # as it was before there were floors
    plan.write_text(json.dumps(data | {"baseline": None}))  # as it was written when there were
    again, _ = report([tmp_path / "out"], tmp_path / "again")
    assert again == record
    for broken in ({"metric": "bleu"}, "bleu=38", {"metric": "bleu", "value": 1.0, "source": "", "more": 1}):
        plan.write_text(json.dumps(data | {"baseline": broken}))
        with pytest.raises(UserError, match=r"plan\.json: baseline"):
            report([tmp_path / "out"], tmp_path / "other")
