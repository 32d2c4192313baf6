"""The baseline that a user states: what others reached on the same data."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from selfattn.comparison.compare import compare
from selfattn.comparison.report import write_comparison
from selfattn.comparison.testing import RunTest
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.results.record import Baseline
from selfattn.tasks.baselines import stated_baseline
from selfattn.training.config import TrainingConfig

SOURCE = "Smith 2026, a Transformer: 41.02"


@pytest.mark.parametrize(
    ("text", "source", "language", "expected"),
    [
        (None, None, "de", None),
        ("bleu=38", SOURCE, "de", Baseline("bleu", 38.0, SOURCE)),
        ("bleu_lowercased_tokenised=38.5", f"  {SOURCE}\n", "de", Baseline("bleu_lowercased_tokenised", 38.5, SOURCE)),
        ("exact_match=1", "by\nhand", "ko", Baseline("exact_match", 1.0, "by hand")),
    ],
)
def test_a_baseline_has_a_metric_a_value_and_a_source(
    text: str | None, source: str | None, language: str, expected: Baseline | None
) -> None:
    assert stated_baseline(text, source, language) == expected


@pytest.mark.parametrize(
    ("text", "source", "message"),
    [
        ("38", SOURCE, "`baseline` 38: expected metric=value, a value above 0 of one of bleu"),
        ("comet=1", SOURCE, r"chrf \(at most 100\), exact_match \(at most 1\)$"),
        ("ter=50", SOURCE, "expected metric=value"),  # lower is better
        ("bleu=", SOURCE, "expected metric=value"),
        ("bleu=nan", SOURCE, "expected metric=value"),
        ("bleu=101", SOURCE, r"bleu \(at most 100\)"),
        ("bleu=38", None, "`baseline` metric=value and `baseline_source`, who reached it on what, go together"),
        (None, SOURCE, "go together"),
    ],
)
def test_a_baseline_that_cannot_be_meant(text: str | None, source: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        stated_baseline(text, source, "de")
    assert "\n" not in str(caught.value)


def test_there_is_no_such_score_for_every_language(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"one of bleu \(at most 100\), chrf"):
        stated_baseline("bleu_lowercased_tokenised=38", SOURCE, "ko")
    with pytest.raises(UserError, match="expected metric=value"):
        compare("translation", out=tmp_path / "out", baseline="38", baseline_source=SOURCE)
    assert not (tmp_path / "out").exists()


def test_a_model_is_held_against_it_and_it_cannot_be_moved_afterwards(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"a word {k}\tein Wort {k}\n" for k in range(100)))
    settings: dict[str, Any] = {
        "data": (tmp_path / "pairs.tsv",), "target": "de", "vocab_size": 300, "batch_size": 64, "validation_items": 10,
        "out": tmp_path / "out", "quick": True, "apart": True, "match": None, "test_items": 20, "epochs": 1,
        "items_per_epoch": 100, "set": ("encoder.hidden_dim=8", "decoder.hidden_dim=8"),
        "models": ("rnn-plain",), "baseline": "bleu=99", "baseline_source": SOURCE,
    }  # fmt: skip
    record, files = compare("translation", **settings)
    gates = [gate for gate in record.gates if gate.name == "published baseline"]
    assert [(gate.model, gate.passed) for gate in gates] == [("rnn-plain", False)]
    assert all(gate.reason.endswith(f"at least 99 expected ({SOURCE})") for gate in gates)
    assert f"--baseline bleu=99 --baseline-source '{SOURCE}'" in record.command
    assert SOURCE in files.markdown.read_text()
    again, _ = write_comparison(tmp_path / "out", tmp_path / "again")
    assert again == record
    with pytest.raises(UserError, match="holds another experiment"):
        compare("translation", **settings | {"baseline": "bleu=1", "resume": True})


@pytest.mark.parametrize(
    ("baseline", "training", "share", "is_checked"),
    [
        ({}, {}, 1, True),
        ({"examples": 200}, {}, 1, True),
        ({"examples": 201}, {}, 1, False),  # two epochs of 100 pairs
        ({"examples": 101}, {}, 0.5, False),
        ({"distinct": 101}, {}, 1, False),
        ({"examples": 1}, {"max_steps": 1}, 1, False),  # after how many pairs is not known
        ({"examples": 61}, {"items_per_epoch": 30}, 1, False),
    ],
)
def test_a_published_model_is_a_baseline_for_those_that_were_trained_on_as_many_pairs(
    baseline: dict[str, int], training: dict[str, int], share: float, is_checked: bool
) -> None:
    config = SimpleNamespace(
        training=TrainingConfig(**{"epochs": 2} | training), data={}, model=SimpleNamespace(architecture="transformer")
    )
    published = {"transformer": Baseline("exact_match", 0.99, SOURCE, **baseline)}
    task: Any = SimpleNamespace(published=lambda data: published, language="en")
    tests: Any = SimpleNamespace(seen=SimpleNamespace(pairs=100), pairs=[Pair("x", "a"), Pair("y", "c")])
    run: Any = SimpleNamespace(config=config)
    gate = RunTest(run, task, tests).published_baseline(["a", "b"], share)
    assert (gate is not None) == is_checked
    assert gate is None or (not gate.passed and gate.value == 0.5)
    config.model.architecture = "rnn"  # for which nothing is published
    assert RunTest(run, task, tests).published_baseline(["a", "b"], share) is None
