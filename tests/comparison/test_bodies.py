"""An output matrix of its own is outside embeddings and yet no model: bodies are counted without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from selfattn.comparison import models as model_sizes
from selfattn.comparison import tested as files
from selfattn.comparison.compare import compare
from selfattn.comparison.models import match_models
from selfattn.comparison.options import CompareOptions
from selfattn.comparison.testing import batch_shape
from selfattn.data.pairs import encode_pairs
from selfattn.errors import UserError
from selfattn.evaluation.cost import BatchShape, count_flops
from selfattn.models.presets import PRESETS
from selfattn.models.sizing import body, parameters
from selfattn.report.verdict.ranking import badges
from selfattn.runs.run import load
from selfattn.tasks.dates import Dates
from selfattn.tasks.translation import size_for_sentences
from selfattn.training.config import TrainingConfig

WORDS = 8_000
MODELS = {name: size_for_sentences(PRESETS[name].config) for name in ("rnn-attention", "transformer")}


def sized(**options: Any) -> tuple[dict[str, Any], Any]:
    return match_models(
        MODELS,
        CompareOptions(models=tuple(MODELS), out=Path("none"), **options),
        vocab_size=WORDS,
        training=TrainingConfig(),
        shape=BatchShape(4, 5, 6),
    )


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_body_has_no_axis_over_the_vocabulary(name: str) -> None:
    config = PRESETS[name].config
    counts = [parameters(config, words) for words in (40, 41, 1000)]
    assert counts[0] - 40 * (counts[1] - counts[0]) == body(config) == counts[2] - 1000 * (counts[1] - counts[0])


def test_an_untied_output_matrix_does_not_pass_for_a_model() -> None:
    """Both have 1.83 M outside embeddings; of the RNN's, nine tenths are the output matrix."""
    assert not MODELS["rnn-attention"].tie_output
    with pytest.raises(
        UserError, match=r"parameters outside embeddings.*any axis over the vocabulary transformer has 9.*`match` body"
    ):
        sized(match="parameters")
    found, matching = sized(match="parameters", apart=True)
    assert max(matching.counts.values()) / min(matching.counts.values()) < 1.02
    assert body(found["transformer"]) > 10 * body(found["rnn-attention"])
    found, matching = sized(match="body")
    assert matching.budget == "body"
    assert matching.counts == {name: body(config) for name, config in found.items()}
    assert max(matching.counts.values()) / min(matching.counts.values()) < 1.02


def test_report_and_record_have_the_body_and_the_gate_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = {"epochs": 1, "items_per_epoch": 64, "batch_size": 64, "validation_items": 10}
    given: dict[str, Any] = {"models": ("rnn-attention", "transformer"), "quick": True, "test_items": 10}
    record, files = compare("dates", out=tmp_path / "out", **given, **training)
    assert [model.parameters_body for model in record.models] == [165_888, 175_040]
    assert ("note", "parameters without vocabulary: up to 5.5 % apart") in [
        (badge.kind, badge.text.say("en")) for badge in badges(record)
    ]
    assert "165,888" in files.markdown.read_text()
    (gate,) = [gate for gate in record.gates if gate.name == "matched budgets"]
    assert gate.passed
    assert gate.reason.endswith("; without any axis over the vocabulary transformer has 5.5% more than rnn-attention")
    monkeypatch.setattr(model_sizes, "BODIES_APART", 0.05)
    from selfattn.comparison.report import report

    again, _ = report([tmp_path / "out"], tmp_path / "again")
    assert [gate.name for gate in again.gates if not gate.passed and not gate.model] == ["matched budgets"]


def test_both_passes_of_r_drop_are_counted(tmp_path: Path) -> None:
    small = ("encoder.dim=16", "decoder.dim=16", "encoder.ffn_dim=16", "decoder.ffn_dim=16", "decoder.dropout=0.1")
    given: dict[str, Any] = {"models": ("transformer",), "set": small, "quick": True, "test_items": 5}
    training: dict[str, Any] = {"epochs": 1, "items_per_epoch": 64, "batch_size": 64, "validation_items": 5}
    flops, tested = [], {}
    for rate in (0.0, 1.0):
        record, _ = compare("dates", out=tmp_path / str(rate), r_drop=rate, **given, **training)
        cost, tested[rate] = record.models[0].cost, files.Tested(tmp_path / str(rate) / "runs" / "transformer-seed0")
        flops.append((cost.training_flops, cost.training_flops_per_token, record.models[0].curves[0].points[-1].flops))
    assert flops[1] == tuple(2 * (one or 0) for one in flops[0])
    # And padding, which is computed like the rest: an eighth of a batch and more.
    run = load(tested[0.0].path)
    valid = run.config.training.validation_items
    examples = encode_pairs(Dates().splits(0, valid).validation(valid), run.tokenizer)
    shape = batch_shape(examples, run.config.training)
    bare = count_flops(run.model, shape).training / (shape.batch * shape.target)
    (last,) = tested[0.0].metrics
    assert last.padding > 0.1
    assert flops[0][0] == pytest.approx(bare * last.tokens / (1 - last.padding))
