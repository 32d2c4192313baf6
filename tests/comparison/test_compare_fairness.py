"""A comparison that goes on where it stopped, and one that is not fooled: cheats are planted and must be seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selfattn.comparison.again import report
from selfattn.comparison.compare import compare
from selfattn.comparison.costs import COSTS
from selfattn.comparison.planning.plan import read_plan
from selfattn.comparison.running import jobs
from selfattn.data.dates.source import DateSource
from selfattn.data.dates.splits import EmbeddedDates
from selfattn.errors import UserError
from selfattn.report.write import ReportFiles
from selfattn.results.record import Record

TINY = {"epochs": 1, "items_per_epoch": 200, "batch_size": 64, "validation_items": 20}
SMALL = (
    "transformer:encoder.dim=16", "transformer:decoder.dim=16", "transformer:encoder.ffn_dim=16",
    "rnn-attention:encoder.hidden_dim=16", "rnn-attention:decoder.hidden_dim=16",
)  # fmt: skip
MODELS = ("rnn-attention", "transformer")


def compare_small(out: Path, **changes: Any) -> tuple[Record, ReportFiles]:
    given: dict[str, Any] = {"models": MODELS, "set": SMALL, "test_items": 40, "quick": True, "apart": True}
    return compare("dates", out=out, **given | TINY | changes)


def failed(record: Record) -> set[str]:
    return {gate.name for gate in record.gates if not gate.passed}


def verdict(out: Path) -> str:
    """The first lines of the report, up to its table."""
    return (out / "report.md").read_text().partition("|")[0]


def without_times(out: Path) -> Any:
    """The results but for what a clock says."""
    data = json.loads((out / "results.json").read_text())
    for name in ("created", "command"):
        del data[name]
    for model in data["models"]:
        del model["timing"], model["cost"]
        for curve in model["curves"]:
            for point in curve["points"]:
                del point["seconds"]
    del data["protocol"]["seal"]["created"]
    for look in data["protocol"]["looks"]:
        del look["when"], look["command"]
    return data


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The gates that models as small as these do not pass though nothing is planted."""
    record, _ = compare_small(tmp_path_factory.mktemp("honest") / "out")
    return failed(record)


@pytest.mark.parametrize("runs_before", [1, 3])
def test_a_stopped_comparison_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_before: int) -> None:
    whole = tmp_path / "whole"
    compare_small(whole, seeds=2)

    out, trained = tmp_path / "stopped", []
    real_fit = jobs.fit

    def fit(config: Any, material: Any, path: Path, **settings: Any) -> Any:
        if len(trained) == runs_before:
            raise KeyboardInterrupt
        trained.append(path)
        return real_fit(config, material, path, **settings)

    monkeypatch.setattr(jobs, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        compare_small(out, seeds=2)
    monkeypatch.setattr(jobs, "fit", real_fit)
    before = {path: path.stat().st_mtime_ns for path in sorted((out / "runs").rglob("*")) if path.is_file()}
    assert before
    compare_small(out, seeds=2, resume=True)
    assert {path: path.stat().st_mtime_ns for path in before} == before, "a finished run was run again"
    assert without_times(out) == without_times(whole)


def test_a_run_that_was_killed_while_training_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, out = tmp_path / "whole", tmp_path / "stopped"
    compare_small(whole, epochs=3)
    real_test = jobs.test_run

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "test_run", stop)
    with pytest.raises(KeyboardInterrupt):
        compare_small(out, epochs=3)
    monkeypatch.setattr(jobs, "test_run", real_test)
    compare_small(out, epochs=3, resume=True)
    assert without_times(out) == without_times(whole)


def test_resume_takes_the_same_settings_only(tmp_path: Path) -> None:
    compare_small(tmp_path / "out", models=("transformer",), set=SMALL[:3])
    with pytest.raises(UserError, match="holds another comparison, made by: selfattn compare dates"):
        compare_small(tmp_path / "out", models=("transformer",), set=SMALL[:3], seeds=2, resume=True)
    with pytest.raises(UserError, match="`resume`"):
        compare_small(tmp_path / "out")


def test_resume_takes_another_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    few: dict[str, Any] = {"models": ("transformer",), "set": SMALL[:3]}
    compare_small(out, **few)
    compare_small(whole, **few, lang="ko")
    monkeypatch.setattr(jobs, "fit", None)  # nothing is trained again
    for lang in ("ko", "en", "ko"):
        record, _ = compare_small(out, **few, lang=lang, resume=True)
        assert ("--lang ko" in record.command) == (lang == "ko")
        assert f'<html lang="{lang}"' in (out / "report.html").read_text()
        assert read_plan(out).command == record.command
    assert without_times(out) == without_times(whole)
    with pytest.raises(UserError, match="holds another comparison"):
        compare_small(out, **few, lang="ko", seeds=2, resume=True)


def test_a_plan_with_a_command_that_no_shell_can_read(tmp_path: Path) -> None:
    few: dict[str, Any] = {"models": ("transformer",), "set": SMALL[:3]}
    compare_small(tmp_path / "out", **few)
    plan = tmp_path / "out" / "comparison.json"
    data = json.loads(plan.read_text())
    del data["checksum"]  # written by hand
    plan.write_text(json.dumps(data | {"command": "somebody's"}))
    with pytest.raises(UserError, match="holds another comparison, made by: somebody's;"):
        compare_small(tmp_path / "out", **few, resume=True)


def test_the_report_can_be_made_again_byte_for_byte(tmp_path: Path) -> None:
    out = tmp_path / "out"
    compare_small(out, seeds=2)
    for name in ("one", "two"):
        report([out], tmp_path / name)
    for file in ("report.html", "report.md", "results.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
        assert (tmp_path / "one" / file).read_bytes() == (out / file).read_bytes()


def test_a_report_of_single_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole, _ = compare_small(out, seeds=2)
    runs = sorted((out / "runs").iterdir())
    record, _ = report(runs, tmp_path / "again", lang="ko")
    assert {model.name: model.metrics for model in record.models} == {
        model.name: model.metrics for model in whole.models
    }
    assert record.pairs == whole.pairs
    assert [model.timing for model in record.models] == [model.timing for model in whole.models]
    assert record.settings["training_time"] == whole.settings["training_time"]
    (out / COSTS).unlink()
    record, _ = report(runs, tmp_path / "by the clock")
    assert "training_time" not in record.settings
    assert {model.timing.predict_ms for model in record.models} == {None}
    clock = [json.loads((run / "run.json").read_text())["train_seconds"] for run in runs]
    assert sorted(one for model in record.models for one in model.timing.train_seconds.runs) == sorted(clock)
    with pytest.raises(UserError, match="the same seed"):
        report([runs[0], runs[0]], tmp_path / "twice")
    with pytest.raises(UserError, match="no such run directory"):
        report([tmp_path / "nothing"], tmp_path / "none")


def test_two_copies_of_one_model_are_not_different(tmp_path: Path) -> None:
    record, _ = compare_small(tmp_path / "out", models=("a=transformer", "b=transformer"), set=(), seeds=5)
    (pair,) = record.pairs
    assert (pair.first, pair.second, pair.difference, pair.word) == ("a", "b", 0.0, "no difference seen")


def test_one_seed_is_too_few_to_tell(tmp_path: Path) -> None:
    record, _ = compare_small(tmp_path / "out", seeds=1)
    assert [pair.word for pair in record.pairs] == ["too few seeds to tell"]


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


@pytest.mark.parametrize("what", ["parameters", "flops"])
def test_models_are_sized_for_one_budget(tmp_path: Path, what: Any) -> None:
    record, _ = compare_small(tmp_path / "out", match=what, apart=False, seeds=1)
    counts = record.matching.counts
    assert record.matching.budget == what
    assert max(counts.values()) / min(counts.values()) <= 1.02
    if what == "parameters":
        assert counts == {model.name: model.parameters_non_embedding for model in record.models}


def test_a_budget_says_how_much(tmp_path: Path) -> None:
    record, _ = compare_small(tmp_path / "out", match="parameters", budget=20_000.0, apart=False, seeds=1)
    assert all(count == pytest.approx(20_000, rel=0.01) for count in record.matching.counts.values())


def test_tuning_is_the_same_for_all_and_on_validation_alone(tmp_path: Path) -> None:
    record, _ = compare_small(tmp_path / "out", tune=3)
    for model in record.models:
        assert len(model.tuning) == 3
        assert sum(trial.chosen for trial in model.tuning) == 1
        chosen = next(trial for trial in model.tuning if trial.chosen)
        assert chosen.valid == max(trial.valid for trial in model.tuning)
    settings = [[trial.settings for trial in model.tuning] for model in record.models]
    assert settings[0] == settings[1]
    assert record.settings["tuning_space"]


def test_a_causal_mask_that_is_off_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, honest: set[str]) -> None:
    """The Transformer's decoder reads the future; nothing else is changed."""
    from selfattn.attention import layer

    real = layer.attend

    def leaky(*arguments: Any, causal: bool = False, **settings: Any) -> Any:
        return real(*arguments, causal=False, **settings)

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
