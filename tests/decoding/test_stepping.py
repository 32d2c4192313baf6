"""Joined projections compute the same in fewer products, and the model stays as it is."""

from typing import Any

import pytest
import torch
from torch import nn

from selfattn.attention import MultiHeadAttention, Rotary
from selfattn.decoding.stepping import evaluating, stepping
from selfattn.layers import FeedForward, TransformerBlock


def block_of(attention: MultiHeadAttention) -> TransformerBlock:
    return TransformerBlock(12, self_attn=attention, feed_forward=FeedForward(12, 5), dropout=0.5)


@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"num_kv_heads": 1, "qk_norm": True, "position": Rotary(4)}])
def test_plain_projections_are_one_product(settings: dict[str, Any]) -> None:
    block = block_of(MultiHeadAttention(12, num_heads=3, **settings))
    model, called = nn.Sequential(nn.ModuleList([block]), block.feed_forward), list[str]()
    for name in ("q_proj", "k_proj", "v_proj"):
        getattr(block.self_attn, name).register_forward_hook(lambda *_, name=name: called.append(name))
    first, second = torch.randn(2, 2, 3, 12)
    with evaluating(model):
        expected = [block(x, causal=True).x for x in (first, second)]
    called.clear()
    before = dict(model.named_modules())
    with stepping(model) as stepper:
        copied = stepper[0][0]  # type: ignore[index]  # a list of blocks
        outputs = [copied(x, causal=True).x for x in (first, second)]
        assert copied.feed_forward is stepper[1] is block.feed_forward
    assert called == []
    torch.testing.assert_close(outputs, expected)
    assert dict(model.named_modules()) == before
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize(
    "attention",
    [
        MultiHeadAttention(12, num_heads=3, q_proj=nn.Sequential(nn.Linear(12, 12))),
        MultiHeadAttention(12, num_heads=3, k_proj=nn.Linear(12, 12, bias=False)),
        MultiHeadAttention(12, num_heads=3, project=False),
    ],
    ids=["adapter", "bias", "bare"],
)
def test_others_are_left_alone(attention: MultiHeadAttention) -> None:
    block = block_of(attention)
    with stepping(block) as stepper:
        assert stepper is block
