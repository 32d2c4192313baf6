"""A comparison that is not fooled: cheats are planted and must be seen; copies and sizes are judged rightly."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selfattn.attention import layer
from selfattn.comparison.compare import compare
from selfattn.comparison.plan import PlannedModel
from selfattn.comparison.record import changed_settings
from selfattn.comparison.report import write_comparison
from selfattn.data.dates.source import DateSource, EmbeddedDates
from selfattn.errors import UserError
from selfattn.models.config import override
from selfattn.models.families import PRESETS
from selfattn.report.sections.quality import interval_note
from selfattn.report.verdict import badges, question, verdict
from selfattn.results.record import Record, read_record
from selfattn.runs.run import Run
from selfattn.tasks.dates import Dates

SMALL = (
    "transformer:encoder.dim=16", "transformer:decoder.dim=16", "transformer:encoder.ffn_dim=16",
    "rnn-attention:encoder.hidden_dim=16", "rnn-attention:decoder.hidden_dim=16",
)  # fmt: skip
BIGGER = (*SMALL, "transformer:encoder.ffn_dim=400")
MODELS = ("rnn-attention", "transformer")


def compare_small(out: Path, **changes: Any) -> Record:
    training = {"epochs": 1, "items_per_epoch": 64, "batch_size": 64, "validation_items": 20}
    usual: dict[str, Any] = {"models": MODELS, "set": SMALL, "test_items": 40, "quick": True, "apart": True}
    return compare("dates", out=out, **usual | training | changes)[0]


def failed(record: Record) -> set[tuple[str, str]]:
    return {(gate.name, gate.model) for gate in record.gates if not gate.passed}


def is_stopped(out: Path) -> bool:
    return "ot comparable" in (out / "report.md").read_text().partition("|")[0]


def test_dates_of_one_day_are_one_item(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that is short of days gives no narrow intervals, and says so."""
    plain, _ = write_comparison(finished, tmp_path / "plain")
    monkeypatch.setattr(Dates, "repeats", lambda self, pair: pair.target[:2])
    record, files = write_comparison(finished, tmp_path / "centuries")
    assert (record.interval.repeated, plain.interval.repeated) == (18, 0)
    assert "18 items repeat another" in files.markdown.read_text()
    assert "겹치는 18개 항목" in interval_note(record).say("ko")


def test_a_model_of_twice_the_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"parameters outside embeddings: transformer has .*`apart`"):
        compare_small(tmp_path / "refused", set=BIGGER, apart=False)
    assert not (tmp_path / "refused").exists()


def test_planted_cheats_are_caught(tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Transformer is twice as large, reads the future and collapses; the first epoch shows half of the test."""
    attend, decode = layer.attend_checked, Run.decode

    def leaky(*arguments: Any, mask: Any = None, **settings: Any) -> Any:
        return attend(*arguments, mask=mask and replace(mask, causal=False), **settings)

    def collapsed(self: Run, *arguments: Any, **settings: Any) -> Any:
        results: Any = decode(self, *arguments, **settings)
        if self.config.preset != "transformer":
            return results
        return [[replace(output, text="2000-01-01") for output in outputs] for outputs in results]

    known = [pair for split in ("train", "test") for pair in DateSource(["en_US"], seed=0, split=split).pairs(20)]
    monkeypatch.setattr(layer.MultiHeadAttention, "attend_with", staticmethod(leaky))
    monkeypatch.setattr(Run, "decode", collapsed)
    monkeypatch.setattr(EmbeddedDates, "test", lambda self, count: known)
    record = compare_small(tmp_path / "out", set=BIGGER)
    planted = {("causal", "transformer"), ("variety", "transformer"), ("overlap", "")}
    assert planted <= failed(record)
    assert ("causal", "rnn-attention") not in failed(record)
    assert not {"causal", "overlap"} & {name for name, _ in failed(read_record(finished / "results.json"))}
    (overlap,) = [gate for gate in record.gates if gate.name == "overlap"]
    assert overlap.value == pytest.approx(0.5)
    (sizes,) = [gate for gate in record.gates if gate.name == "matched budgets"]
    assert "asked for" in sizes.reason
    assert is_stopped(tmp_path / "out")


def test_changed_models_stand_on_the_first_screen_and_are_not_called_by_the_name_of_their_preset(
    finished: Path,
) -> None:
    record = read_record(finished / "results.json")
    shown = [badge.text.say("en") for badge in badges(record)]
    assert "all models changed: decoder.hidden_dim 8, encoder.hidden_dim 8" in shown
    assert question(record).say("en").startswith("Do")
    assert "the RNN with attention" not in verdict(record).lead.say("en")
    first, second = record.models
    alone = replace(second, changes={**second.changes, "decoder.score": "additive"}, preset="luong-bidirectional")
    shown = [badge.text.say("en") for badge in badges(replace(record, models=(first, alone)))]
    assert "rnn-attention alone changed: decoder.score additive" in shown
    assert "rnn-attention is a luong-bidirectional" in shown
    usual = tuple(replace(model, changes={}) for model in record.models)
    assert "the RNN with attention" in verdict(replace(record, models=usual)).lead.say("en")
    assert not any("changed" in badge.text.say("en") for badge in badges(replace(record, models=usual)))


def test_widths_that_were_chosen_to_match_are_no_changes() -> None:
    config = override(PRESETS["transformer"].config, {"encoder.dim": 64, "encoder.position": "rotary"})
    planned = PlannedModel("transformer", config)
    assert changed_settings(Dates(), planned, is_sized=True) == {"encoder.position": "rotary"}
    assert changed_settings(Dates(), planned, is_sized=False) == {"encoder.dim": "64", "encoder.position": "rotary"}
    assert (
        changed_settings(Dates(), replace(planned, config=Dates().size(PRESETS["transformer"].config)), is_sized=False)
        == {}
    )
