"""A comparison that goes on where it stopped, and one that is not fooled: cheats are planted and must be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selfattn.comparison.compare import _prepare, compare, make_plan
from selfattn.comparison.costs import COSTS
from selfattn.comparison.report import report
from selfattn.data.dates.source import DateSource, EmbeddedDates
from selfattn.errors import UserError
from selfattn.report.write import ReportFiles
from selfattn.results.reading import read_record
from selfattn.results.record import Record, Timing

TINY = {"epochs": 1, "items_per_epoch": 200, "batch_size": 64, "validation_items": 20}
SMALL = (
    "transformer:encoder.dim=16", "transformer:decoder.dim=16", "transformer:encoder.ffn_dim=16",
    "rnn-attention:encoder.hidden_dim=16", "rnn-attention:decoder.hidden_dim=16",
)  # fmt: skip
SMALL_TRANSFORMER = ("encoder.dim=16", "decoder.dim=16")
MODELS = ("rnn-attention", "transformer")


def compare_small(out: Path, **changes: Any) -> tuple[Record, ReportFiles]:
    given: dict[str, Any] = {"models": MODELS, "set": SMALL, "test_items": 40, "quick": True, "apart": True}
    return compare("dates", out=out, **given | TINY | changes)


def failed(record: Record) -> set[str]:
    return {gate.name for gate in record.gates if not gate.passed}


def verdict(out: Path) -> str:
    """The first lines of the report, up to its table."""
    return (out / "report.md").read_text().partition("|")[0]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The gates that models as small as these do not pass though nothing is planted."""
    record, _ = compare_small(tmp_path_factory.mktemp("honest") / "out")
    return failed(record)


def test_a_report_of_single_runs(copy: Path, tmp_path: Path) -> None:
    full = read_record(copy / "results.json")
    runs = sorted(run for run in (copy / "runs").iterdir() if "budget" not in run.name)
    record, _ = report(runs, tmp_path / "again", lang="ko")
    for name in ("metrics", "timing"):
        before, now = ({model.name: getattr(model, name) for model in same.models} for same in (full, record))
        assert now == before
    assert record.pairs[0].turned().p == full.pairs[0].p
    assert record.settings["training_time"] == full.settings["training_time"]
    (copy / COSTS).unlink()
    record, _ = report(runs, tmp_path / "no times")
    assert {model.timing for model in record.models} == {Timing()}
    with pytest.raises(UserError, match="the same seed"):
        report([runs[0], runs[0]], tmp_path / "twice")
    with pytest.raises(UserError, match="no such run directory"):
        report([tmp_path / "nothing"], tmp_path / "none")


def test_two_copies_of_one_model_are_not_different(tmp_path: Path) -> None:
    record, _ = compare_small(
        tmp_path / "out",
        models=("a=transformer", "b=transformer"),
        set=("encoder.dim=16", "decoder.dim=16"),
        seeds=3,
        items_per_epoch=64,
    )
    (pair,) = record.pairs
    assert (pair.first, pair.second, pair.difference, pair.word) == ("a", "b", 0.0, "no difference seen")


def test_a_model_of_twice_the_size_is_refused_or_named(tmp_path: Path) -> None:
    bigger = (*SMALL, "transformer:encoder.ffn_dim=400")
    with pytest.raises(UserError, match=r"parameters outside embeddings: transformer has .*`apart`"):
        compare_small(tmp_path / "refused", set=bigger, apart=False)
    assert not (tmp_path / "refused").exists()
    record, _ = compare_small(tmp_path / "asked", set=bigger)
    (gate,) = [gate for gate in record.gates if gate.name == "matched budgets"]
    assert "asked for" in gate.reason
    # Runs of such models, put together afterwards, were not asked for.
    runs = sorted((tmp_path / "asked" / "runs").iterdir())
    record, _ = report(runs, tmp_path / "again")
    assert "matched budgets" in failed(record)
    assert "ot comparable" in verdict(tmp_path / "again")


@pytest.mark.parametrize("what", ["parameters", "body", "flops"])
def test_models_are_sized_for_one_budget(tmp_path: Path, what: str) -> None:
    settings = {"models": MODELS, "set": SMALL, "quick": True, "match": what, "out": tmp_path / "out"}
    matching = make_plan(*_prepare("dates", settings)).matching
    assert matching.budget == what
    assert max(matching.counts.values()) / min(matching.counts.values()) <= 1.02


def test_a_causal_mask_that_is_off_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, honest: set[str]) -> None:
    """The Transformer's decoder reads the future; nothing else is changed."""
    from selfattn.attention import layer

    real = layer.attend

    def leaky(*arguments: Any, mask: Any = None, **settings: Any) -> Any:
        return real(*arguments, mask=mask and replace(mask, causal=False), **settings)

    monkeypatch.setattr(layer, "attend", leaky)
    record, _ = compare_small(tmp_path / "out")
    assert "causal" in failed(record) - honest
    assert {gate.model for gate in record.gates if gate.name == "causal" and not gate.passed} == {"transformer"}
    assert "ot comparable" in verdict(tmp_path / "out")


def test_a_test_that_training_has_seen_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, honest: set[str]
) -> None:
    """Every second test date is one that the first epoch shows."""
    shown = DateSource(["en_US"], seed=0, split="train").pairs(20)
    unseen = DateSource(["en_US"], seed=0, split="test").pairs(20)
    monkeypatch.setattr(EmbeddedDates, "test", lambda self, count: [*shown, *unseen])
    record, _ = compare_small(tmp_path / "out")
    (gate,) = [gate for gate in record.gates if gate.name == "overlap"]
    assert not gate.passed
    assert "overlap" not in honest
    assert gate.value == pytest.approx(0.5)
    assert "ot comparable" in verdict(tmp_path / "out")


@pytest.fixture
def collapsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that says the same whatever it is asked."""
    from selfattn.runs.run import Run

    real: Callable[..., Any] = Run.decode

    def decode(self: Run, asked: Any, *arguments: Any, **settings: Any) -> Any:
        found = real(self, asked, *arguments, **settings)
        if self.config.preset != "transformer":
            return found
        return [[replace(output, text="2000-01-01") for output in outputs] for outputs in found]

    monkeypatch.setattr(Run, "decode", decode)


@pytest.mark.usefixtures("collapsed")
def test_a_collapsed_output_is_caught(tmp_path: Path, honest: set[str]) -> None:
    record, _ = compare_small(tmp_path / "out")
    assert "variety" in {gate.name for gate in record.gates if gate.model == "transformer" and not gate.passed} - honest
    assert "ot comparable" in verdict(tmp_path / "out")
