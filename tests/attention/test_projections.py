"""Projections that are replaced by low-rank adapters; keys and values that several rows share."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selfattn.attention import Alibi, MultiHeadAttention, RelativeBias, Rotary, key_mask, padding_mask
from selfattn.attention.masks import Mask
from selfattn.attention.positions import AttentionPosition

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


def adapted() -> tuple[MultiHeadAttention, MultiHeadAttention]:
    """A layer, and its copy with adapters for queries and values."""
    layer = MultiHeadAttention(12, 7, num_heads=3)
    tuned: Any = copy.deepcopy(layer)
    tuned.q_proj, tuned.v_proj = LowRank(tuned.q_proj, 12, 12), LowRank(tuned.v_proj, 7, 12)
    return layer, tuned


def test_an_adapter_begins_as_the_layer_and_alone_is_trained() -> None:
    layer, tuned = adapted()
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
    _, tuned = adapted()
    x, mask = torch.randn(2, 5, 12), padding_mask(torch.tensor([11, 4]), 11)

    def gradients(fill: float) -> list[Tensor]:
        context = torch.randn(2, 11, 7, generator=torch.Generator().manual_seed(0)).masked_fill(~mask[..., None], fill)
        loss = tuned(x, context, mask=key_mask(mask)).output.square().sum()
        return list(torch.autograd.grad(loss, [p for p in tuned.parameters() if p.requires_grad]))

    for one, other in zip(gradients(3.0), gradients(torch.nan), strict=True):
        assert torch.equal(one, other)


def test_rows_that_share_keys_on_purpose_are_as_if_each_had_its_own(close: Close) -> None:
    layer = MultiHeadAttention(12, 7, num_heads=3)
    x, context = torch.randn(6, 5, 12), torch.randn(2, 11, 7)
    mask = key_mask(padding_mask(torch.tensor([11, 4]), 11))
    rows = torch.tensor([0, 0, 0, 1, 1, 1])
    bias = torch.randn(3, 1, 11)
    keys = replace(layer.project_context(context), shared_by=3)
    shared = layer(x, keys, mask=mask, bias=bias, need_weights=True)
    apart = layer(x, context[rows], mask=mask[rows], bias=bias, need_weights=True)
    close(shared.output, apart.output)
    assert shared.weights is not None
    assert apart.weights is not None
    close(shared.weights, apart.weights)
    for options in ({"causal": True}, {"positions": torch.arange(5)}):
        with pytest.raises(ValueError, match="rows that share a context have no order"):
            layer(x, keys, **options)  # type: ignore[arg-type]  # of several types
    rotary = MultiHeadAttention(12, num_heads=3, position=Rotary(4))
    with pytest.raises(ValueError, match="have no order"):
        rotary(x, replace(rotary.project_context(x[:2]), shared_by=3))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 12])
def test_rows_of_queries_and_of_keys_are_never_mixed(rows: int) -> None:
    layer = MultiHeadAttention(12, num_heads=3, position=Rotary(4))
    x, context = torch.randn(6, 5, 12), torch.randn(rows, 5, 12)
    for each in (context, layer.project_context(context)):
        with pytest.raises(ValueError, match=f"x has 6 rows, context {rows}; give each row its own"):
            layer(x, each, causal=True, positions=torch.arange(5))


@pytest.mark.parametrize("kind", ["a replaced forward", "a hook of all modules", "torch.func"])
def test_joined_projections_pass_nothing_by_that_acts_on_one(kind: str, close: Close) -> None:
    layer, x = MultiHeadAttention(8, num_heads=2), torch.randn(2, 5, 8)
    replaced: Any = layer.k_proj
    if kind == "a replaced forward":
        forward = replaced.forward
        replaced.forward = lambda context: 3 * forward(context)
    handle = None
    if kind == "a hook of all modules":
        handle = nn.modules.module.register_module_forward_hook(
            lambda module, _, output: 3 * output if module is replaced else None
        )
    weights = {name: torch.stack([weight, 2 * weight]) for name, weight in layer.named_parameters()}
    try:
        with torch.inference_mode():
            if kind == "torch.func":
                project = torch.func.vmap(lambda w: _projected(layer, w, x))
                close(project(weights)[1], _projected(layer, {n: w[1] for n, w in weights.items()}, x))
            else:
                close(layer.project_self(x)[1].key, layer.project_context(x).key)
    finally:
        if handle is not None:
            handle.remove()


def _projected(layer: MultiHeadAttention, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    class Projecting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self) -> Tensor:
            return self.layer.project_self(x)[1].key

    keys: Tensor = torch.func.functional_call(Projecting(), {f"layer.{n}": w for n, w in weights.items()}, ())
    return keys


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["q_proj.weight", "k_proj.weight", "v_proj.weight", "k_proj.bias"])
def test_a_weight_that_was_replaced_is_the_one_that_is_read(name: str, bias: bool) -> None:
    """By one outside the joined matrix: of the same values first, then of others."""
    layer = MultiHeadAttention(8, num_heads=2, bias=bias)
    assert layer._joined is not None
    assert layer._joined.holds(layer)
    x = torch.randn(2, 5, 8)
    part, field = name.split(".")
    linear = layer.get_submodule(part)
    old = getattr(linear, field)
    new = torch.randn(8) if old is None else old.detach() + 1
    setattr(linear, field, nn.Parameter(new))
    assert not layer._joined.holds(layer)
    with torch.inference_mode():
        query, context = layer.project_self(x)
        assert torch.equal(query.heads, layer.project_query(x))
        assert torch.equal(context.key, layer.project_context(x).key)
        assert torch.equal(context.value, layer.project_context(x).value)


def test_a_layer_of_two_widths_projects_no_text_of_its_own() -> None:
    with pytest.raises(ValueError, match="attends to a context of another width"):
        MultiHeadAttention(12, 7, num_heads=3).project_self(torch.randn(2, 5, 12))


def test_keys_that_another_layer_placed_are_refused() -> None:
    x = torch.randn(2, 5, 8)
    placed = MultiHeadAttention(8, num_heads=2, position=Rotary(4)).project_context(x)
    with pytest.raises(ValueError, match="context was projected with positions, but the layer uses none"):
        MultiHeadAttention(8, num_heads=2)(x, placed)


def test_rows_that_share_a_context_hide_no_future() -> None:
    layer = MultiHeadAttention(8, num_heads=2)
    shared = replace(layer.project_context(torch.randn(2, 5, 8)), shared_by=3)
    with pytest.raises(ValueError, match="rows that share a context have no order"):
        layer(torch.randn(6, 1, 8), shared, mask=Mask(causal=True))


@pytest.mark.parametrize(
    "position", [Rotary(4), Alibi(2), RelativeBias(2)], ids=lambda position: type(position).__name__
)
def test_positions_whose_differences_wrap_around_are_refused(position: AttentionPosition) -> None:
    layer, x = MultiHeadAttention(8, num_heads=2, position=position), torch.randn(2, 5, 8)
    for dtype in (torch.uint8, torch.bool):
        with pytest.raises(TypeError, match=f"expected positions of keys as int64, got {dtype}"):
            layer(x, positions=torch.arange(5).to(dtype))
    with pytest.raises(ValueError, match=r"expected positions of keys \[i\] or \[b i\], got \(1, 1, 5\)"):
        layer(x, positions=torch.arange(5)[None, None])
