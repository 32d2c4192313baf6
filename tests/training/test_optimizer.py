"""What decays and what does not."""

from __future__ import annotations

import torch

from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.presets import PRESETS
from selfattn.models.transformer_config import TransformerConfig
from selfattn.training.config import TrainingConfig
from selfattn.training.optim.optimizer import make_optimizer


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
