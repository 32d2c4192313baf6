"""``MultiHeadAttention`` against ``torch.nn.MultiheadAttention`` with the same weights: outputs, weights, gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention, causal_mask, key_mask, padding_mask

Close = Callable[[Tensor, Tensor], None]
both_paths = pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])

BATCH, QUERIES, KEYS, DIM, CONTEXT, HEADS = 2, 5, 7, 12, 10, 3


def theirs_like(ours: MultiHeadAttention, context_dim: int) -> nn.MultiheadAttention:
    """Build theirs and copy our weights in."""
    bias = ours.out_proj.bias is not None
    theirs = nn.MultiheadAttention(
        DIM, HEADS, bias=bias, kdim=context_dim, vdim=context_dim, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        if theirs.in_proj_weight is not None:
            theirs.in_proj_weight.copy_(torch.cat([ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight]))
        else:
            for name in "qkv":
                getattr(theirs, f"{name}_proj_weight").copy_(getattr(ours, f"{name}_proj").weight)
        theirs.out_proj.weight.copy_(ours.out_proj.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([ours.q_proj.bias, ours.k_proj.bias, ours.v_proj.bias]))
            theirs.out_proj.bias.copy_(ours.out_proj.bias)
    return theirs


def gradients_of(theirs: nn.MultiheadAttention) -> dict[str, Tensor]:
    """Their gradients under our names."""
    found = {f"out_proj.{name}": parameter.grad for name, parameter in theirs.out_proj.named_parameters()}
    for position, name in enumerate("qkv"):
        rows = slice(position * DIM, (position + 1) * DIM)
        if theirs.in_proj_weight is not None:
            found[f"{name}_proj.weight"] = theirs.in_proj_weight.grad[rows]
        else:
            found[f"{name}_proj.weight"] = getattr(theirs, f"{name}_proj_weight").grad
        if theirs.in_proj_bias is not None:
            found[f"{name}_proj.bias"] = theirs.in_proj_bias.grad[rows]
    return found


# Both senses, side by side: ours True = may attend; theirs True = may not. Key masks are [b j], others [i j].
LENGTHS = torch.tensor([KEYS, 4])
MASKS: dict[str, tuple[Tensor | None, dict[str, Tensor]]] = {
    "none": (None, {}),
    "padding": (key_mask(padding_mask(LENGTHS, KEYS)), {"key_padding_mask": ~padding_mask(LENGTHS, KEYS)}),
    "window": (
        torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(-1),
        {"attn_mask": ~torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(-1)},
    ),
    "per head": (
        torch.arange(BATCH * HEADS * QUERIES * KEYS).reshape(BATCH, HEADS, QUERIES, KEYS) % 3 != 1,
        {"attn_mask": torch.arange(BATCH * HEADS * QUERIES * KEYS).reshape(BATCH * HEADS, QUERIES, KEYS) % 3 == 1},
    ),
    "both": (
        key_mask(padding_mask(LENGTHS, KEYS)) & causal_mask(QUERIES, KEYS),
        {"key_padding_mask": ~padding_mask(LENGTHS, KEYS), "attn_mask": ~causal_mask(QUERIES, KEYS)},
    ),
}


@both_paths
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("context_dim", [DIM, CONTEXT])
def test_cross_attention(context_dim: int, mask: str, bias: bool, need_weights: bool, close: Close) -> None:
    ours = MultiHeadAttention(DIM, context_dim, num_heads=HEADS, bias=bias).double()
    theirs = theirs_like(ours, context_dim)
    x, context = torch.randn(BATCH, QUERIES, DIM).double(), torch.randn(BATCH, KEYS, context_dim).double()
    our_inputs, their_inputs = ([t.clone().requires_grad_() for t in (x, context)] for _ in range(2))
    our_mask, their_masks = MASKS[mask]
    output, weights = ours(*our_inputs, mask=our_mask, need_weights=need_weights)
    expected, expected_weights = theirs(
        their_inputs[0], their_inputs[1], their_inputs[1], **their_masks, average_attn_weights=False
    )
    close(output, expected)
    if need_weights:
        close(weights, expected_weights)
    grad = torch.randn(BATCH, QUERIES, DIM).double()
    output.backward(grad)
    expected.backward(grad)
    for one, other in zip(our_inputs, their_inputs, strict=True):
        assert one.grad is not None
        close(one.grad, other.grad)
    found = gradients_of(theirs)
    assert found.keys() == dict(ours.named_parameters()).keys()
    for name, parameter in ours.named_parameters():
        close(parameter.grad, found[name])


@both_paths
@pytest.mark.parametrize("num_kv_heads", [1, 2, 3])
def test_grouped_queries_are_copied_keys_and_values(num_kv_heads: int, need_weights: bool, close: Close) -> None:
    """Each key-value head written out once for every query head that it serves; its gradient is the sum of theirs."""
    times = 6 // num_kv_heads
    grouped = MultiHeadAttention(DIM, CONTEXT, num_heads=6, num_kv_heads=num_kv_heads).double()
    expanded = MultiHeadAttention(DIM, CONTEXT, num_heads=6).double()
    expanded.load_state_dict(
        {
            name: repeat(weight, "(g e) ... -> (g times e) ...", g=num_kv_heads, times=times)
            if name[:6] in ("k_proj", "v_proj")
            else weight
            for name, weight in grouped.state_dict().items()
        }
    )
    x, context, mask = (
        torch.randn(BATCH, QUERIES, DIM).double(),
        torch.randn(BATCH, KEYS, CONTEXT).double(),
        MASKS["padding"][0],
    )
    (output, weights), (expected, expected_weights) = (
        layer(x, context, mask=mask, need_weights=need_weights) for layer in (grouped, expanded)
    )
    close(output, expected)
    if need_weights:
        close(weights, expected_weights)
    grad = torch.randn(BATCH, QUERIES, DIM).double()
    output.backward(grad)
    expected.backward(grad)
    for name, parameter in expanded.named_parameters():
        gradient = parameter.grad
        assert gradient is not None
        if name[:6] in ("k_proj", "v_proj"):
            gradient = rearrange(gradient, "(g times e) ... -> g times e ...", g=num_kv_heads, times=times).sum(1)
            gradient = gradient.flatten(0, 1)
        close(grouped.get_parameter(name).grad, gradient)  # type: ignore[arg-type]  # may be None for mypy
