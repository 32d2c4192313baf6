"""What decays and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.presets import PRESETS
from selfattn.models.transformer_config import TransformerConfig
from selfattn.training.config import TrainingConfig
from selfattn.training.optimizer import make_optimizer
from selfattn.training.weights import Average, ExponentialAverage, LastAverage, make_average, put_into


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


def test_the_rate_and_the_memory_are_those_asked_for_in_one_kernel() -> None:
    optimizer = make_optimizer(torch.nn.Linear(3, 2), TrainingConfig(lr=0.5, betas=(0.7, 0.8)))
    for group in optimizer.param_groups:
        assert (group["lr"], group["betas"], group["fused"]) == (0.5, (0.7, 0.8), True)


def test_each_average_by_its_name() -> None:
    model, config = torch.nn.Linear(3, 2), TrainingConfig(average_last=4, ema_decay=0.25)
    none, moving, last = (make_average(model, replace(config, average=name)) for name in ("none", "ema", "last"))
    assert type(none) is Average
    assert isinstance(moving, ExponentialAverage)
    assert moving.decay == 0.25
    assert isinstance(last, LastAverage)
    assert last.count == 4


def test_the_first_decays_of_the_moving_average_are_2_in_11_and_3_in_12() -> None:
    """Weights 0, then 11, then 12: 11 (1 - 2/11) = 9, and 9/4 + 12 (3/4) = 11.25; a smaller decay is taken as it is."""
    weight = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)
    for decay, expected in ((0.9, (9.0, 11.25)), (0.0, (11.0, 12.0))):
        weight.weight.fill_(0.0)
        average = ExponentialAverage(weight, decay)
        for value, mean in zip((11.0, 12.0), expected, strict=True):
            weight.weight.fill_(value)
            average.stepped()
            assert average.weights()["weight"].item() == pytest.approx(mean, rel=1e-6)


def test_weights_of_another_model_are_refused() -> None:
    with pytest.raises(ValueError, match="these are the weights of another model"):
        put_into(torch.nn.Linear(3, 2), {"weight": torch.zeros(3, 2), "bias": torch.zeros(2)})
