"""What models take: time by turns and in a whole step; parameters of a body; operations of a training."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
import torch

from selfattn.comparison import costs
from selfattn.comparison.costs import by_turns, step_seconds
from selfattn.comparison.options import CompareOptions
from selfattn.comparison.preparation import match_models
from selfattn.comparison.testing import batch_shape, measure_cost
from selfattn.data.pairs import Example, encode_pairs
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
from selfattn.training.weights import ExponentialAverage


def test_all_are_asked_in_every_turn_and_the_first_turns_do_not_count(monkeypatch):
    monkeypatch.setattr(costs, "_WARM_UP", 2)
    ask = Mock()
    taken = by_turns({name: partial(ask, name) for name in "ab"}, 3)
    assert ask.call_args_list == [call(name, turn) for turn in (-2, -1, 0, 1, 2) for name in "ab"]
    assert min(taken.values()) >= 0


def test_a_timed_step_is_one_of_the_training(monkeypatch):
    """Of as many batches as are accumulated, with the average of the weights, halfway through the schedule."""
    steps, averaged, take = [], [], costs.take_steps

    def spy(stepper, groups, *, first, total_steps, **more):
        def counted():
            for group in groups:
                steps.append((len(group), first / total_steps, replace(stepper.config, lr=0.1)))
                yield group

        return take(stepper, counted(), first=first, total_steps=total_steps, **more)

    monkeypatch.setattr(costs, "take_steps", spy)
    monkeypatch.setattr(ExponentialAverage, "stepped", lambda self: averaged.append(1))
    training = TrainingConfig(
        accumulate=3, clip_norm=0.5, average="ema", warmup_steps=5000, lr=0.1, r_drop=0.5, precision="bfloat16",
        batch_size=2,
    )  # fmt: skip
    data = SimpleNamespace(tokenizer=range(11), validation=[Example([1] * 3, [1] * 5)])
    options = SimpleNamespace(device="auto")
    trainings = SimpleNamespace(recipe=training, first_seed=0, options=options, data=lambda _: (data,))
    before, config = torch.get_rng_state(), PRESETS["transformer"].config
    seconds = step_seconds({"a": (config, training), "b": (config, training)}, trainings)
    assert min(seconds.values()) > 0
    assert steps == [(3, 0.5, training)] * (2 * (costs._STEPS + costs._WARM_UP))
    assert len(averaged) == len(steps)
    assert torch.equal(before, torch.get_rng_state())


def test_a_comparison_computes_where_it_is_told_to(cli, tmp_path):
    done = cli("compare", "dates", "--device", "cuda", "--quick", "--out", tmp_path / "out", "--plan-only")
    if not torch.cuda.is_available():
        assert (done.code, done.err) == (2, "error: --device cuda: torch sees no CUDA device; take cpu\n")


# An output matrix of its own is outside embeddings and yet no model: bodies are counted without it

ONE_LAYER = {"encoder.num_layers": 1, "decoder.num_layers": 1}
SMALL = {name: override(PRESETS[name].config, ONE_LAYER) for name in ("rnn-attention", "transformer")}
MODELS = {name: override(Translation(data="a.tsv").size(config), ONE_LAYER) for name, config in SMALL.items()}


def sized(models=MODELS, **options):
    given = CompareOptions(models=tuple(MODELS), out=Path("none"), **options)
    return match_models(models, given, vocab_size=8_000, training=TrainingConfig(), shape=BatchShape(4, 5, 6))


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_body_has_no_axis_over_the_vocabulary(name):
    config = PRESETS[name].config
    counts = [parameters(config, words) for words in (40, 41, 1000)]
    assert counts[0] - 40 * (counts[1] - counts[0]) == body(config) == counts[2] - 1000 * (counts[1] - counts[0])


def test_an_untied_output_matrix_does_not_pass_for_a_model():
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


def test_both_passes_of_r_drop_and_padding_are_counted(finished):
    run = load(finished / "runs" / "rnn-plain-seed5")
    reports = RunDirectory(run.path).metrics()
    tests = SimpleNamespace(validation=Dates().splits(5, 5).validation(5))
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
