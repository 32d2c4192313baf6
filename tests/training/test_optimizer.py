"""What decays and what does not, and the learning rate by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.presets import PRESETS
from selfattn.models.transformer_config import TransformerConfig
from selfattn.training.config import ScheduleName, TrainingConfig
from selfattn.training.optimizer import lr_factor, make_optimizer
from selfattn.training.weights import put_into


def groups(model: torch.nn.Module) -> tuple[set[str], set[str]]:
    optimizer = make_optimizer(model, TrainingConfig(weight_decay=0.25))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed, kept = optimizer.param_groups
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.25, 0.0)
    return {names[id(p)] for p in decayed["params"]}, {names[id(p)] for p in kept["params"]}


def test_every_parameter_is_in_one_group_and_only_matrices_decay() -> None:
    for preset in ("transformer", "rnn-attention"):
        model = build(PRESETS[preset].config, vocab_size=11, pad_id=0, seed=0)
        decayed, kept = groups(model)
        assert decayed | kept == {name for name, _ in model.named_parameters()}
        assert not decayed & kept
        assert all(name.endswith("weight") or "weight_" in name for name in decayed)
        assert not any("embed" in name or "norm" in name or "bias" in name for name in decayed)


def test_a_matrix_tied_to_an_embedding_does_not_decay() -> None:
    stack = TransformerConfig(dim=8, num_heads=2, ffn_dim=13)
    model = build(EncoderDecoderConfig(encoder=stack, decoder=stack, tie_output=True), vocab_size=11, pad_id=0, seed=0)
    table = model.get_parameter("decoder.embed.tokens.weight")
    assert table is model.get_parameter("decoder.output.weight")
    _, kept = make_optimizer(model, TrainingConfig()).param_groups
    assert any(parameter is table for parameter in kept["params"])


def test_decay_shrinks_a_matrix_by_lr_times_decay() -> None:
    linear = torch.nn.Linear(3, 2)
    before, bias = linear.weight.detach().clone(), linear.bias.detach().clone()
    optimizer = make_optimizer(linear, TrainingConfig(lr=0.5, weight_decay=0.25))
    for parameter in linear.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(linear.weight.detach(), before * (1 - 0.5 * 0.25))
    assert torch.equal(linear.bias, bias)


def test_weights_of_another_model_are_refused() -> None:
    with pytest.raises(ValueError, match="these are the weights of another model"):
        put_into(torch.nn.Linear(3, 2), {"weight": torch.zeros(3, 2), "bias": torch.zeros(2)})


SCHEDULES: tuple[ScheduleName, ...] = ("constant", "linear", "cosine", "inverse_sqrt")


def factors(schedule: ScheduleName, total: int, warmup: int) -> list[float]:
    return [lr_factor(schedule, step, total_steps=total, warmup_steps=warmup) for step in range(1, total + 1)]


def test_values_by_hand() -> None:
    assert factors("constant", 4, 2) == [0.5, 1.0, 1.0, 1.0]
    assert factors("linear", 5, 2) == [0.5, 1.0, 0.75, 0.5, 0.25]
    assert factors("linear", 4, 0) == pytest.approx([0.8, 0.6, 0.4, 0.2])
    assert factors("cosine", 4, 1) == pytest.approx([1.0, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2])
    assert factors("inverse_sqrt", 9, 1) == pytest.approx([1 / math.sqrt(k) for k in range(1, 10)])
    assert factors("inverse_sqrt", 16, 4)[-1] == 0.5


def test_beyond_the_last_step_it_stays_at_the_last() -> None:
    assert lr_factor("linear", 99, total_steps=5, warmup_steps=2) == 0.25


@given(st.sampled_from(SCHEDULES), st.integers(1, 200), st.data())
def test_it_rises_to_one_then_never_rises_and_is_never_zero(
    schedule: ScheduleName, total: int, data: st.DataObject
) -> None:
    warmup = data.draw(st.integers(0, total))
    found = factors(schedule, total, warmup)
    rise, fall = found[:warmup], found[max(warmup - 1, 0) :]
    assert all(0 < factor <= 1 for factor in found)
    assert rise == sorted(rise)
    assert fall == sorted(fall, reverse=True)
    if warmup:
        assert found[warmup - 1] == 1.0
