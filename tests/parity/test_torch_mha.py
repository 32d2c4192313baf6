"""``MultiHeadAttention`` against ``torch.nn.MultiheadAttention`` with the same weights: outputs, weights, gradients."""

from collections.abc import Callable

import pytest
import torch
from einops import rearrange, repeat
from torch import Tensor

from selfattn.attention import MultiHeadAttention, causal_mask, key_mask, padding_mask
from selfattn.convert.torch_modules import attention_to_torch

Close = Callable[[Tensor, Tensor], None]
both_paths = pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])

BATCH, QUERIES, KEYS, DIM, CONTEXT, HEADS = 2, 5, 7, 12, 10, 3


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
    theirs = attention_to_torch(ours)
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
    for parameter in ours.parameters():  # a conversion moves gradients as it moves weights
        parameter.data = parameter.grad
    moved = dict(attention_to_torch(ours).named_parameters())
    for name, parameter in theirs.named_parameters():
        close(moved[name].detach(), parameter.grad)


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
