"""Attention against PyTorch's layer with the same weights, the textbook's, and the formula of every score."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from einops import rearrange, repeat
from numpy.typing import NDArray
from torch import Tensor

from selfattn.attention import (
    Additive,
    Concat,
    Dot,
    General,
    Location,
    MultiHeadAttention,
    ScaledDot,
    Score,
    attend,
    causal_mask,
    dot,
    key_mask,
    padding_mask,
    scaled_dot,
)
from selfattn.convert.torch_modules import attention_to_torch
from selfattn.registry import SCORES, build_part

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


# Law 3: the layer without projections is the attention of the textbook RNN seq2seq, outputs and gradients.
# The reference is Saito's "Deep Learning from Scratch 2", chapter 8: weights from the dot product of a decoder state
# with every encoder state, the weighted sum of the encoder states, and both for every decoder step. Written anew from
# its formulas, in NumPy, with the backward pass worked out by hand:
#
#     s_j = hs_j . h      a = softmax(s)      c = sum_j a_j hs_j
#     da_j = dc . hs_j    ds_j = a_j (da_j - sum_k a_k da_k)    dh = sum_j ds_j hs_j    dhs_j = a_j dc + ds_j h


Array = NDArray[np.float64]


@dataclass
class OneStep:
    """One decoder state ``h [b d]`` looks at the encoder states ``hs [b s d]``."""

    hs: Array
    h: Array

    def forward(self) -> Array:
        scores = np.einsum("bsd,bd->bs", self.hs, self.h)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        self.weights: Array = powers / powers.sum(axis=1, keepdims=True)
        return np.einsum("bs,bsd->bd", self.weights, self.hs)

    def backward(self, dc: Array) -> tuple[Array, Array]:
        dweights = np.einsum("bd,bsd->bs", dc, self.hs)
        dscores = self.weights * (dweights - (self.weights * dweights).sum(axis=1, keepdims=True))
        dh = np.einsum("bs,bsd->bd", dscores, self.hs)
        as_value, as_key = self.weights[..., None] * dc[:, None], dscores[..., None] * self.h[:, None]
        return as_value + as_key, dh


class OverTime:
    """The same at each of the decoder's steps; every step looks at the same encoder states."""

    def forward(self, hs: Array, decoder: Array) -> Array:
        self.steps = [OneStep(hs, decoder[:, t]) for t in range(decoder.shape[1])]
        return np.stack([step.forward() for step in self.steps], axis=1)

    def weights(self) -> Array:
        return np.stack([step.weights for step in self.steps], axis=1)

    def backward(self, dcontext: Array) -> tuple[Array, Array]:
        gradients = [step.backward(dcontext[:, t]) for t, step in enumerate(self.steps)]
        return sum(dhs for dhs, _ in gradients), np.stack([dh for _, dh in gradients], axis=1)


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])
@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (torch.float32, 1e-6)], ids=str)
@pytest.mark.parametrize(("b", "s", "t", "d"), [(2, 3, 5, 7), (1, 1, 1, 1), (5, 29, 11, 16), (3, 2, 1, 13)])
def test_law_3(b: int, s: int, t: int, d: int, dtype: torch.dtype, within: float, need_weights: bool) -> None:
    random = np.random.default_rng(0)
    hs, decoder, dcontext = (random.uniform(-0.6, 0.6, (b, length, d)) for length in (s, t, t))
    textbook = OverTime()
    context = textbook.forward(hs, decoder)
    dhs, ddecoder = textbook.backward(dcontext)

    layer = MultiHeadAttention(d, num_heads=1, project=False, score="dot")
    assert not list(layer.parameters())
    encoder_states, decoder_states = (torch.tensor(x, dtype=dtype, requires_grad=True) for x in (hs, decoder))
    output, weights = layer(decoder_states, layer.project_context(encoder_states), need_weights=need_weights)
    output.backward(torch.tensor(dcontext, dtype=dtype))

    pairs = [(output, context), (encoder_states.grad, dhs), (decoder_states.grad, ddecoder)]
    if need_weights:
        pairs.append((weights[:, 0], textbook.weights()))
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=within, atol=within)


# Every score function against its formula, written with loops over positions and numbers


Vector = list[float]
Matrix = list[list[float]]
Formula = Callable[[Any, Vector, Vector, int], float]


def numbers(parameter: Tensor) -> Any:
    return parameter.detach().double().tolist()


def times(matrix: Matrix, vector: Vector) -> Vector:
    return [sum(weight * x for weight, x in zip(row, vector, strict=True)) for row in matrix]


def dot_formula(score: Dot, q: Vector, k: Vector, j: int) -> float:
    return sum(x * y for x, y in zip(q, k, strict=True))


def scaled_dot_formula(score: ScaledDot, q: Vector, k: Vector, j: int) -> float:
    return sum(x * y for x, y in zip(q, k, strict=True)) / math.sqrt(len(q))


def general_formula(score: General, q: Vector, k: Vector, j: int) -> float:
    """Luong's ``h_t' W h_s``; ``nn.Linear`` keeps the transpose of W, ``[key, query]``."""
    weight = numbers(score.proj.weight)
    return sum(k[a] * weight[a][b] * q[b] for a in range(len(k)) for b in range(len(q)))


def additive_formula(score: Additive, q: Vector, k: Vector, j: int) -> float:
    of_key, of_query = times(numbers(score.key_proj.weight), k), times(numbers(score.query_proj.weight), q)
    return sum(v * math.tanh(x + y) for v, x, y in zip(numbers(score.v.weight)[0], of_key, of_query, strict=True))


def concat_formula(score: Concat, q: Vector, k: Vector, j: int) -> float:
    inner = [
        x + bias for x, bias in zip(times(numbers(score.proj.weight), q + k), numbers(score.proj.bias), strict=True)
    ]
    return sum(v * math.tanh(x) for v, x in zip(numbers(score.v.weight)[0], inner, strict=True))


def location_formula(score: Location, q: Vector, k: Vector, j: int) -> float:
    return times(numbers(score.proj.weight), q)[j]


FORMULAS: dict[str, Formula] = {
    "dot": dot_formula,
    "scaled_dot": scaled_dot_formula,
    "general": general_formula,
    "additive": additive_formula,
    "concat": concat_formula,
    "location": location_formula,
}


def by_loops(formula: Formula, score: Score, query: Tensor, key: Tensor) -> Tensor:
    queries, keys = query.double().tolist(), key.double().tolist()
    return torch.tensor(
        [
            [
                [[formula(score, q, k, position) for position, k in enumerate(key_rows)] for q in query_rows]
                for query_rows, key_rows in zip(query_heads, key_heads, strict=True)
            ]
            for query_heads, key_heads in zip(queries, keys, strict=True)
        ],
        dtype=query.dtype,
    )


def make(name: str, query_dim: int, key_dim: int) -> Score:
    return build_part(SCORES, name, query_dim=query_dim, key_dim=key_dim, hidden_dim=5, max_length=17)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_heads", [1, 2, 3])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_formula(name: str, num_heads: int, dtype: torch.dtype, close: Callable[..., None]) -> None:
    same_width = name in ("dot", "scaled_dot")
    score = make(name, 11, 11 if same_width else 13).to(dtype)
    query, key = 0.7 * torch.randn(2, num_heads, 3, 11), 0.7 * torch.randn(2, num_heads, 7, 11 if same_width else 13)
    query, key = query.to(dtype), key.to(dtype)
    expected = by_loops(FORMULAS[name], score, query, key)
    close(score(query, key).detach(), expected)
    as_dot = score.as_dot(query, key)
    assert (as_dot is None) == (name in ("additive", "concat", "location"))
    if as_dot is not None:
        left, right, scale = as_dot
        close((scale * (left @ right.transpose(-2, -1))).detach(), expected)
    if isinstance(score, Additive | Concat):
        score.block_elements = 40
        close(score(query, key).detach(), expected)


def test_parameters_are_those_of_the_papers() -> None:
    shapes = {name: {k: tuple(p.shape) for k, p in make(name, 3, 7).named_parameters()} for name in FORMULAS}
    assert shapes == {
        "dot": {},
        "scaled_dot": {},
        "general": {"proj.weight": (7, 3)},
        "additive": {"query_proj.weight": (5, 3), "key_proj.weight": (5, 7), "v.weight": (1, 5)},
        "concat": {"proj.weight": (5, 10), "proj.bias": (5,), "v.weight": (1, 5)},
        "location": {"proj.weight": (17, 3)},
    }


def test_the_location_score_ends_at_its_stated_length() -> None:
    score, query = Location(3, max_length=5), torch.randn(1, 1, 2, 3)
    assert score(query, torch.randn(1, 1, 5, 3)).shape == (1, 1, 2, 5)
    with pytest.raises(ValueError, match=r"6 source positions, but it was built for at most 5; .*max_length=6"):
        attend(query, torch.randn(1, 1, 6, 3), torch.randn(1, 1, 6, 3), score=score)


@pytest.mark.parametrize("score", [dot, scaled_dot])
@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])
def test_a_dot_product_needs_equal_widths(score: Score, need_weights: bool) -> None:
    x, y = torch.randn(1, 1, 2, 3), torch.randn(1, 1, 2, 5)
    with pytest.raises(ValueError, match=r"query width 3 and key width 5 differ; use general or additive"):
        attend(x, y, y, score=score, need_weights=need_weights)
