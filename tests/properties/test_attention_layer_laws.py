"""The laws of ``MultiHeadAttention``, over heads, groups, scores and positions, on both paths, with gradients.

That padding and neighbours are not felt (5, 7) is tested with whole models.
"""

import copy
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from selfattn import registry
from selfattn.attention import Alibi, MultiHeadAttention, RelativeBias, Rotary, make_score
from selfattn.attention.cache import Cache

pytestmark = pytest.mark.usefixtures("plugins")


both_paths = pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])
WIDTH = 4  # of a head

POSITIONS = {
    "rotary": lambda num_heads: Rotary(WIDTH),
    "alibi": Alibi,
    "relative": lambda num_heads: RelativeBias(num_heads, num_buckets=8, max_distance=6),
    "kerple": lambda num_heads: registry.POSITIONS["kerple"](num_heads),  # a plugin's
}
BUILT_IN = (None, "rotary", "alibi", "relative")
PLUGIN = (None, "kerple")
both_kinds = pytest.mark.parametrize("positions", [BUILT_IN, PLUGIN], ids=["built-in", "plugin"])


def law(test):
    """Hold layers that are drawn to a law, on both paths, with built-in positions and a plugin's."""
    return both_kinds(both_paths(given(data=st.data())(test)))


@dataclass(frozen=True)
class Case:
    layer: MultiHeadAttention
    x: Tensor
    context: Tensor


@st.composite
def cases(draw, positions=(None,)):
    num_kv_heads, group = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    num_heads = num_kv_heads * group
    position = draw(st.sampled_from(positions))
    torch.manual_seed(draw(st.integers(0, 2**32)))
    layer = MultiHeadAttention(
        num_heads * WIDTH,
        6,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        score=make_score(draw(st.sampled_from(("scaled_dot", "general", "additive"))), WIDTH, WIDTH),
        position=None if position is None else POSITIONS[position](num_heads),
        qk_norm=draw(st.booleans()),
    )
    b, i, j = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 6))
    return Case(layer.double(), torch.randn(b, i, num_heads * WIDTH).double(), torch.randn(b, j, 6).double())


def over_itself(case):
    """The same heads over a context as wide as the queries: self-attention."""
    layer, old = copy.deepcopy(case.layer), case.layer
    for name in ("k_proj", "v_proj"):
        setattr(layer, name, torch.nn.Linear(old.q_proj.in_features, old.k_proj.out_features).double())
    layer.context_dim = old.query_dim
    return replace(case, layer=layer)


def gradients(layer, output, grad, *inputs):
    leaves = [*inputs, *layer.parameters()]
    found = torch.autograd.grad(output, leaves, grad, allow_unused=True)
    return [torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, found, strict=True)]


@given(case=cases())
def test_weights_can_always_be_had_and_change_nothing(case, close):
    (output, none), (with_weights, weights) = (
        case.layer(case.x, case.context, need_weights=wanted) for wanted in (False, True)
    )
    assert none is None
    close(with_weights, output)
    close(weights.sum(-1), torch.ones(weights.shape[:-1]).double())
    grad = torch.randn(output.shape).double()
    for one, other in zip(gradients(case.layer, output, grad), gradients(case.layer, with_weights, grad), strict=True):
        close(one, other)


@both_paths
@given(case=cases())
def test_a_context_projected_once_is_the_context(case, need_weights):
    made = case.layer.project_context(case.context)
    for _ in range(2):  # nothing is used up
        ours = case.layer(case.x, made, need_weights=need_weights)
        assert torch.equal(ours.output, case.layer(case.x, case.context, need_weights=need_weights).output)


@law
def test_law_6_a_text_read_in_parts(data, positions, need_weights, close):
    case = data.draw(cases(positions).map(over_itself))
    layer, x = case.layer, case.x
    whole = layer(x, causal=True, need_weights=need_weights)
    cache = None
    start, i = 0, x.shape[1]
    while start < i:
        end = data.draw(st.integers(start + 1, i))
        part, positions = x[:, start:end], torch.arange(start, end)
        new = layer.project_context(part, positions)
        cache = Cache(new) if cache is None else cache.append(new)
        output, weights = layer(part, cache.entries, causal=True, need_weights=need_weights)
        close(output, whole.output[:, start:end])
        if need_weights:
            close(weights, whole.weights[:, :, start:end, :end])
        start = end


@law
def test_law_8_a_text_permuted(data, positions, need_weights, close):
    """Permuting a text with its positions permutes the output."""
    case = data.draw(cases(positions).map(over_itself))
    i = case.x.shape[1]
    order = torch.tensor(data.draw(st.permutations(range(i))))
    before = case.layer(case.x, need_weights=need_weights)
    after = case.layer(case.x[:, order], positions=order, need_weights=need_weights)
    close(after.output, before.output[:, order])
    if need_weights:
        close(after.weights, before.weights[:, :, order][..., order])
