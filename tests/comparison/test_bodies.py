"""An output matrix of its own is outside embeddings and yet no model: bodies are counted without it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from selfattn.comparison.options import CompareOptions
from selfattn.comparison.preparation import match_models
from selfattn.comparison.testing import batch_shape, measure_cost
from selfattn.data.pairs import encode_pairs
from selfattn.errors import UserError
from selfattn.evaluation.cost import BatchShape, count_flops
from selfattn.models.build import body, parameters
from selfattn.models.config import override
from selfattn.models.families import PRESETS
from selfattn.runs.directory import RunDirectory
from selfattn.runs.load import load
from selfattn.tasks.dates import Dates
from selfattn.tasks.translation import Translation
from selfattn.training.config import TrainingConfig

WORDS = 8_000
ONE_LAYER = {"encoder.num_layers": 1, "decoder.num_layers": 1}
SMALL = {name: override(PRESETS[name].config, ONE_LAYER) for name in ("rnn-attention", "transformer")}
MODELS = {name: override(Translation(data="a.tsv").size(config), ONE_LAYER) for name, config in SMALL.items()}


def sized(models: dict[str, Any] = MODELS, **options: Any) -> tuple[dict[str, Any], Any]:
    return match_models(
        models,
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
    """Both have 1.3 M outside embeddings; of the RNN's, nine tenths are the output matrix."""
    assert not MODELS["rnn-attention"].tie_output
    with pytest.raises(UserError, match=r"outside embeddings.*vocabulary transformer has 1272.*`match` body"):
        sized(match="parameters")
    found, matching = sized(match="parameters", apart=True)
    assert max(matching.counts.values()) / min(matching.counts.values()) < 1.02
    assert body(found["transformer"]) > 10 * body(found["rnn-attention"])
    found, matching = sized(match="none", apart=True)
    assert (found, matching.budget, matching.target) == (MODELS, "none", None)
    with pytest.raises(UserError, match="`apart` compares them all the same"):
        sized(match="none")
    found, matching = sized(match="body")
    assert matching.counts == {name: body(config) for name, config in found.items()}
    for counts in (matching.counts, sized(SMALL, match="flops")[1].counts):
        assert max(counts.values()) / min(counts.values()) < 1.02


def test_both_passes_of_r_drop_and_padding_are_counted(finished: Path) -> None:
    run = load(finished / "runs" / "rnn-plain-seed5")
    reports = RunDirectory(run.path).metrics()
    tests: Any = SimpleNamespace(validation=Dates().splits(5, 5).validation(5))
    shape = batch_shape(encode_pairs(tests.validation, run.tokenizer), run.config.training)
    bare = count_flops(run.model, shape).training / (shape.batch * shape.target)
    once = measure_cost(run, tests, thorough=False)
    first, last = reports
    tokens = first.tokens / (1 - first.padding) + (last.tokens - first.tokens) / (1 - last.padding)
    assert min(first.padding, last.padding) > 0
    assert once.training_flops == pytest.approx(bare * tokens)
    run.config = replace(run.config, training=replace(run.config.training, r_drop=1.0))
    twice = measure_cost(run, tests, thorough=False)
    assert twice.training_flops == pytest.approx(2 * bare * tokens)
    assert twice.training_flops_per_token == pytest.approx(2 * once.training_flops_per_token)
