"""Projections that are handed in: low-rank adapters, quantised layers, values of a width of their own."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention, key_mask, padding_mask

Close = Callable[[Tensor, Tensor], None]


class LowRank(nn.Module):
    """A frozen linear layer and a trained product of two thin matrices (Hu et al. 2022, "LoRA", section 4.1)."""

    def __init__(self, linear: nn.Module, inside: int, outside: int, rank: int = 2) -> None:
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.down, self.up = nn.Linear(inside, rank, bias=False), nn.Linear(rank, outside, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        adapted: Tensor = self.linear(x) + self.up(self.down(x))
        return adapted


def adapted(layer: MultiHeadAttention, context_dim: int, **settings: Any) -> MultiHeadAttention:
    wide = layer.output_dim
    return MultiHeadAttention(
        wide,
        context_dim,
        num_heads=layer.num_heads,
        q_proj=LowRank(layer.q_proj, wide, wide),
        v_proj=LowRank(layer.v_proj, context_dim, wide),
        k_proj=layer.k_proj,
        out_proj=layer.out_proj,
        **settings,
    )


def test_an_adapter_begins_as_the_layer_and_alone_is_trained() -> None:
    layer = MultiHeadAttention(12, 7, num_heads=3)
    tuned = adapted(layer, 7)
    x, context = torch.randn(2, 5, 12), torch.randn(2, 11, 7)
    assert torch.equal(tuned(x, context).output, layer(x, context).output)
    for module in (tuned.k_proj, tuned.out_proj):
        module.requires_grad_(False)
    before = {name: value.clone() for name, value in tuned.state_dict().items()}
    optimizer = torch.optim.SGD((p for p in tuned.parameters() if p.requires_grad), lr=1.0)
    for _ in range(2):  # the thin matrices begin as zero times something: the second step moves both
        optimizer.zero_grad()
        tuned(x, context).output.square().sum().backward()
        optimizer.step()
    moved = {name for name, value in tuned.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {f"{name}_proj.{part}.weight" for name in "qv" for part in ("down", "up")}


def test_padding_reaches_no_gradient_of_an_adapter() -> None:
    tuned = adapted(MultiHeadAttention(12, 7, num_heads=3), 7)
    x, mask = torch.randn(2, 5, 12), padding_mask(torch.tensor([11, 4]), 11)

    def gradients(fill: float) -> list[Tensor]:
        context = torch.randn(2, 11, 7, generator=torch.Generator().manual_seed(0)).masked_fill(~mask[..., None], fill)
        loss = tuned(x, context, mask=key_mask(mask)).output.square().sum()
        return list(torch.autograd.grad(loss, [p for p in tuned.parameters() if p.requires_grad]))

    for one, other in zip(gradients(3.0), gradients(torch.nan), strict=True):
        assert torch.equal(one, other)


def test_widths_are_taken_from_what_is_handed_in(close: Close) -> None:
    values = nn.Linear(7, 2 * 5)  # two key-value heads of width 5; queries and keys have 3
    layer = MultiHeadAttention(12, 7, num_heads=4, num_kv_heads=2, q_proj=nn.Linear(12, 4 * 3), v_proj=values)
    assert layer.k_proj.out_features == 2 * 3
    assert layer.out_proj.in_features == 4 * 5
    x, context = torch.randn(2, 3, 12), torch.randn(2, 11, 7)
    output, weights = layer(x, context, need_weights=True)
    assert layer.project_context(context).value.shape == (2, 2, 11, 5)
    by_hand = torch.einsum("bhij,bhjc->bhic", weights, layer.project_context(context).value.repeat_interleave(2, dim=1))
    close(output, layer.out_proj(by_hand.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q_proj": nn.Linear(12, 10)}, "width of q_proj, 10 is not divisible by 3 heads"),
        ({"v_proj": nn.Linear(7, 10)}, "width of v_proj, 10 is not divisible by 3 heads"),
        ({"k_proj": nn.Linear(7, 9)}, "expected k_proj with out_features=12, got 9"),
        ({"k_proj": nn.Linear(5, 12)}, "expected k_proj with in_features=7, got 5"),
        ({"q_proj": nn.Linear(12, 9), "head_dim": 4}, "expected q_proj with out_features=12, got 9"),
        ({"v_proj": nn.Linear(7, 6), "out_proj": nn.Linear(12, 12)}, "expected out_proj with in_features=6, got 12"),
        ({"out_proj": nn.Linear(12, 7)}, "expected out_proj with out_features=12, got 7"),
        ({"out_proj": nn.Linear(12, 12), "project": False, "context_dim": 12}, "out_proj needs project=True"),
    ],
    ids=str,
)
def test_widths_that_do_not_fit(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        MultiHeadAttention(**{"query_dim": 12, "context_dim": 7, "num_heads": 3} | arguments)


def test_what_was_made_of_fewer_rows_serves_several_each(close: Close) -> None:
    layer = MultiHeadAttention(12, 7, num_heads=3)
    x, context = torch.randn(6, 5, 12), torch.randn(2, 11, 7)
    mask = key_mask(padding_mask(torch.tensor([11, 4]), 11))
    rows = torch.tensor([0, 0, 0, 1, 1, 1])
    bias = torch.randn(3, 1, 11)
    shared = layer(x, layer.project_context(context), mask=mask, bias=bias, need_weights=True)
    apart = layer(x, context[rows], mask=mask[rows], bias=bias, need_weights=True)
    close(shared.output, apart.output)
    assert shared.weights is not None
    assert apart.weights is not None
    close(shared.weights, apart.weights)
