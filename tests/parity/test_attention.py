"""Attention against PyTorch's layer with the same weights, the textbook's, and the formula of every score."""

from itertools import product

import numpy as np
import pytest
import torch
from einops import rearrange, repeat
from formulas import score_of

from selfattn.attention import Additive, Concat, MultiHeadAttention, causal_mask, key_mask, padding_mask
from selfattn.convert.torch_modules import attention_to_torch
from selfattn.registry import SCORES, build_part

both_paths = pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])

BATCH, QUERIES, KEYS, DIM, CONTEXT, HEADS = 2, 5, 7, 12, 10, 3


# Both senses, side by side: ours True = may attend; theirs True = may not. Key masks are [b j], others [i j].
LENGTHS = torch.tensor([KEYS, 4])
MASKS = {
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
def test_cross_attention(context_dim, mask, bias, need_weights, close):
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
        close(one.grad, other.grad)
    for parameter in ours.parameters():  # a conversion moves gradients as it moves weights
        parameter.data = parameter.grad
    moved = dict(attention_to_torch(ours).named_parameters())
    for name, parameter in theirs.named_parameters():
        close(moved[name].detach(), parameter.grad)


@both_paths
@pytest.mark.parametrize("num_kv_heads", [1, 2, 3])
def test_grouped_queries_are_copied_keys_and_values(num_kv_heads, need_weights, close):
    """Each key-value head written out once for every query head that it serves; its gradient is the sum of theirs."""
    times = 6 // num_kv_heads
    grouped = MultiHeadAttention(DIM, CONTEXT, num_heads=6, num_kv_heads=num_kv_heads).double()
    expanded = MultiHeadAttention(DIM, CONTEXT, num_heads=6).double()
    weights = grouped.state_dict()
    for name in [name for name in weights if name[:6] in ("k_proj", "v_proj")]:
        weights[name] = repeat(weights[name], "(g e) ... -> (g times e) ...", g=num_kv_heads, times=times)
    expanded.load_state_dict(weights)
    x, context = torch.randn(BATCH, QUERIES, DIM).double(), torch.randn(BATCH, KEYS, CONTEXT).double()
    (output, weights), (expected, expected_weights) = (
        layer(x, context, mask=MASKS["padding"][0], need_weights=need_weights) for layer in (grouped, expanded)
    )
    close(output, expected)
    if need_weights:
        close(weights, expected_weights)
    grad = torch.randn(BATCH, QUERIES, DIM).double()
    output.backward(grad)
    expected.backward(grad)
    for name, parameter in expanded.named_parameters():
        gradient = parameter.grad
        if name[:6] in ("k_proj", "v_proj"):
            gradient = rearrange(gradient, "(g times e) ... -> g times e ...", g=num_kv_heads, times=times).sum(1)
            gradient = gradient.flatten(0, 1)
        close(grouped.get_parameter(name).grad, gradient)


# Law 3: the layer without projections is the attention of the textbook RNN seq2seq, outputs and gradients.
# The reference is Saito's "Deep Learning from Scratch 2", chapter 8: weights from the dot product of a decoder state
# with every encoder state, the weighted sum of the encoder states, and both for every decoder step. Written anew from
# its formulas, in NumPy, with the backward pass worked out by hand:
#
#     s_j = hs_j . h      a = softmax(s)      c = sum_j a_j hs_j
#     da_j = dc . hs_j    ds_j = a_j (da_j - sum_k a_k da_k)    dh = sum_j ds_j hs_j    dhs_j = a_j dc + ds_j h


def textbook(hs, h, dc):
    """Contexts and weights of decoder states ``h [b t d]`` over encoder states ``hs [b s d]``, and both gradients."""
    scores = np.einsum("bsd,btd->bts", hs, h)
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights = powers / powers.sum(axis=2, keepdims=True)
    dweights = np.einsum("btd,bsd->bts", dc, hs)
    dscores = weights * (dweights - (weights * dweights).sum(axis=2, keepdims=True))
    dhs = np.einsum("bts,btd->bsd", weights, dc) + np.einsum("bts,btd->bsd", dscores, h)
    return np.einsum("bts,bsd->btd", weights, hs), weights, dhs, np.einsum("bts,bsd->btd", dscores, hs)


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])
@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (torch.float32, 1e-6)], ids=str)
@pytest.mark.parametrize(("b", "s", "t", "d"), [(2, 3, 5, 7), (1, 1, 1, 1), (5, 29, 11, 16), (3, 2, 1, 13)])
def test_law_3(b, s, t, d, dtype, within, need_weights):
    random = np.random.default_rng(0)
    hs, decoder, dcontext = (random.uniform(-0.6, 0.6, (b, length, d)) for length in (s, t, t))
    context, expected_weights, dhs, ddecoder = textbook(hs, decoder, dcontext)
    layer = MultiHeadAttention(d, num_heads=1, project=False, score="dot")
    assert not list(layer.parameters())
    encoder_states, decoder_states = (torch.tensor(x, dtype=dtype, requires_grad=True) for x in (hs, decoder))
    output, weights = layer(decoder_states, layer.project_context(encoder_states), need_weights=need_weights)
    output.backward(torch.tensor(dcontext, dtype=dtype))

    pairs = [(output, context), (encoder_states.grad, dhs), (decoder_states.grad, ddecoder)]
    if need_weights:
        pairs.append((weights[:, 0], expected_weights))
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=within, atol=within)


# Every score function against its formula


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_heads", [1, 2, 3])
@pytest.mark.parametrize("name", ["dot", "scaled_dot", "general", "additive", "concat", "location"])
def test_the_formula(name, num_heads, dtype, close):
    width = 11 if name in ("dot", "scaled_dot") else 13
    score = build_part(SCORES, name, query_dim=11, key_dim=width, hidden_dim=5, max_length=17).to(dtype)
    query, key = (0.7 * torch.randn(2, num_heads, *sizes).to(dtype) for sizes in ((3, 11), (7, width)))
    expected = torch.zeros(2, num_heads, 3, 7, dtype=dtype)
    for b, h, i, j in product(*map(range, expected.shape)):
        expected[b, h, i, j] = score_of(name, score, query[b, h, i].double(), key[b, h, j].double(), j)
    close(score(query, key).detach(), expected)
    as_dot = score.as_dot(query, key)
    assert (as_dot is None) == (name in ("additive", "concat", "location"))
    if as_dot is not None:
        left, right, scale = as_dot
        close((scale * (left @ right.transpose(-2, -1))).detach(), expected)
    if isinstance(score, Additive | Concat):
        score.block_elements = 40
        close(score(query, key).detach(), expected)
