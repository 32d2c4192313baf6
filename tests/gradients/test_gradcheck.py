"""Derivatives against finite differences: scores in blocks, a layer, normalizers; also the second, and forward mode."""

import pytest
import torch
from third_party import plugins
from torch.autograd import forward_ad, gradcheck
from torch.nn.attention import SDPBackend, sdpa_kernel

from selfattn import registry
from selfattn.attention import (
    Additive,
    Alibi,
    Concat,
    MultiHeadAttention,
    RelativeBias,
    Rotary,
)
from selfattn.layers import FeedForward, TransformerBlock

__all__ = ["plugins"]
pytestmark = pytest.mark.usefixtures("plugins")


@pytest.fixture(autouse=True)
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def leaf(*shape):
    return torch.randn(shape, requires_grad=True)


def check(function, leaves, fast_mode=False):
    """Move every number of every leaf a little, in place, and hold what follows against the gradient.

    Fast: move all numbers of a leaf at once, in a random direction.
    """
    assert gradcheck(lambda *_: function(), leaves, fast_mode=fast_mode)


@pytest.mark.parametrize("block_elements", [1, 8, 12, 26, 99])
@pytest.mark.parametrize("kind", [Additive, Concat])
def test_scores_in_blocks(kind, block_elements):
    # [b h i j a] = 2 2 3 2 2. A query needs 4 elements, so that these are blocks of one query (where 1 is too few for
    # any), of two of a head's three, of a whole head, of two of the four heads, and of all.
    query, key, score = leaf(2, 2, 3, 2), leaf(2, 2, 2, 1), kind(2, 1, hidden_dim=2)
    score.block_elements = block_elements
    check(lambda: score(query, key), [query, key, *score.parameters()], fast_mode=True)


POSITIONS = {
    "none": lambda: None,
    "rotary": lambda: Rotary(2),
    "alibi": lambda: Alibi(2),
    "relative": lambda: RelativeBias(2, num_buckets=4, max_distance=3),
    "kerple": lambda: registry.POSITIONS["kerple"](2),  # a plugin's
}


@pytest.mark.parametrize(("num_kv_heads", "need_weights"), [(1, False), (2, True)], ids=["1-fused", "2-reference"])
@pytest.mark.parametrize("position", POSITIONS)
def test_layer_over_itself(position, num_kv_heads, need_weights):
    layer = MultiHeadAttention(
        4, num_heads=2, num_kv_heads=num_kv_heads, position=POSITIONS[position](), qk_norm=num_kv_heads == 1
    )
    x = leaf(2, 3, 4)
    mask = torch.tensor([[True, True, False], [True, True, True]])[:, None, None]

    def output():
        return layer(x, mask=mask, causal=True, need_weights=need_weights).output

    check(output, [x])  # it passes through everything
    check(output, [x, *layer.parameters()], fast_mode=True)


@pytest.mark.parametrize("name", ["softmax", "softmax1", "softmax_sink", "sparsemax", "entmax15", "sigmoid"])
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # PyTorch's own use of it, in forward mode
def test_normalizers_also_twice_and_in_forward_mode(name):
    layer = MultiHeadAttention(8, num_heads=2, normalize=name)
    with torch.no_grad():
        for parameter in layer.normalize.parameters():
            parameter += torch.tensor([0.5, -0.7])
    shown = torch.tensor([True, True, True, True, False])

    def weights(x):
        return layer.normalize(torch.where(shown, x, -torch.inf))

    scores = leaf(1, 2, 3, 5)
    assert gradcheck(weights, [scores])
    assert torch.autograd.gradgradcheck(weights, [scores])
    x = torch.randn(3, 5, 8)
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, x), causal=True).output).tangent
    _, expected = torch.autograd.functional.jvp(lambda x: layer(x, causal=True, need_weights=True).output, x, x)
    torch.testing.assert_close(moved, expected)


def penalty(x, layer, **options):
    """The squared gradient of the output's sum of squares with respect to the input."""
    output = layer(x, **options).output
    (gradient,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
    return gradient.square().sum()


def test_second_derivatives_are_right_or_the_error_says_how_to_have_them():
    layer = MultiHeadAttention(4, num_heads=2)
    x = torch.randn(2, 3, 4, requires_grad=True)
    (expected,) = torch.autograd.grad(penalty(x, layer, need_weights=True), x)
    with sdpa_kernel(SDPBackend.MATH):
        (by_kernel,) = torch.autograd.grad(penalty(x, layer), x)
    torch.testing.assert_close(by_kernel, expected)
    slope = torch.func.grad(lambda x: layer(x).output.square().sum())
    torch.testing.assert_close(torch.func.grad(lambda x: slope(x).square().sum())(x), expected)
    with pytest.raises(RuntimeError, match=r"no second derivative; compute the output under .*sdpa_kernel"):
        torch.autograd.grad(penalty(x, layer), x)


@pytest.mark.filterwarnings("ignore:.torch.jit.script")  # in PyTorch's own rules
def test_a_block_in_forward_mode_also_where_it_drops():
    attention = MultiHeadAttention(4, num_heads=2, dropout=0.5)
    layer = TransformerBlock(4, self_attn=attention, feed_forward=FeedForward(4, 5), dropout=0.5)
    x, direction = torch.randn(2, 2, 3, 4)
    for training in (True, False):
        layer.train(training)
        with forward_ad.dual_level():
            dual = layer(forward_ad.make_dual(x, direction), causal=True).x
            tangent = forward_ad.unpack_dual(dual).tangent
    _, expected = torch.autograd.functional.jvp(lambda x: layer(x, causal=True, need_weights=True).x, x, direction)
    torch.testing.assert_close(tangent, expected)
