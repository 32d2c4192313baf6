"""Every derivative against finite differences, in float64: scores, both paths, masks, blocks, and the whole layer."""

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
    Learned,
    MultiHeadAttention,
    RelativeBias,
    Rotary,
    make_score,
)
from selfattn.attention.cache import Cache
from selfattn.layers import FeedForward, TransformerBlock

SCORES = ["dot", "scaled_dot", "general", "additive", "concat", "location", "cosine"]  # the last is a plugin's

__all__ = ["plugins"]
pytestmark = pytest.mark.usefixtures("plugins")


@pytest.fixture(autouse=True)
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def leaf(*shape):
    return torch.randn(shape, requires_grad=True)


def check(function, leaves, fast=False):
    """Move every number of every leaf a little, in place, and hold what follows against the gradient.

    Fast: move all numbers of a leaf at once, in a random direction.
    """
    assert gradcheck(lambda *_: function(), leaves, fast_mode=fast)


def check_layer(function, inputs, layer):
    """Number by number for the inputs, which pass through everything; the weights, mostly of projections, fast."""
    check(function, inputs)
    check(function, [*inputs, *layer.parameters()], fast=True)  # a layer may have no weights


@pytest.mark.parametrize("block_elements", [1, 8, 12, 26])
@pytest.mark.parametrize("kind", [Additive, Concat])
def test_scores_in_blocks(kind, block_elements):
    # [b h i j a] = 2 2 3 2 2. A query needs 4 elements, so that these are blocks of one query (where 1 is too few for
    # any), of two of a head's three, of a whole head, and of two of the four heads.
    query, key, score = leaf(2, 2, 3, 2), leaf(2, 2, 2, 1), kind(2, 1, hidden_dim=2)
    score.block_elements = block_elements
    check(lambda: score(query, key), [query, key, *score.parameters()])


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
    check_layer(lambda: layer(x, mask=mask, causal=True, need_weights=need_weights).output, [x], layer)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("project", [True, False], ids=["projected", "bare"])
def test_layer_over_another_text(project, score):
    layer = MultiHeadAttention(4, num_heads=2, score=make_score(score, 2, 2, max_length=5), project=project)
    x, context = leaf(2, 2, 4), leaf(2, 3, 4)
    mask = torch.tensor([[True, True, False], [False, False, False]])[:, None, None]
    check_layer(lambda: layer(x, layer.project_context(context), mask=mask).output, [x, context], layer)


@pytest.mark.parametrize("position", POSITIONS)
def test_cache(position):
    layer = MultiHeadAttention(4, num_heads=2, position=POSITIONS[position]())
    past, now = leaf(1, 3, 4), leaf(1, 1, 4)

    def step():
        cache = Cache(layer.project_context(past)).append(layer.project_context(now, torch.tensor([3])))
        return layer(now, cache.entries, causal=True).output

    check_layer(step, [past, now], layer)


def test_learned_positions():
    layer = Learned(5, 3)
    check(lambda: layer(torch.tensor([[4, 0], [0, 2]])), list(layer.parameters()))


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
def test_forward_mode_is_the_product_with_the_reverse_modes_gradient():
    attention = MultiHeadAttention(4, num_heads=2, dropout=0.5)
    layer = TransformerBlock(4, self_attn=attention, feed_forward=FeedForward(4, 5), dropout=0.5)
    x, direction = torch.randn(2, 2, 3, 4)
    for training in (False, True):
        layer.train(training)
        with forward_ad.dual_level():
            torch.manual_seed(1)
            dual = layer(forward_ad.make_dual(x, direction), causal=True).x
            tangent = forward_ad.unpack_dual(dual).tangent
        if not training:
            _, expected = torch.autograd.functional.jvp(
                lambda x: layer(x, causal=True, need_weights=True).x, x, direction
            )
            torch.testing.assert_close(tangent, expected)
