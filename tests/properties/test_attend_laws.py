"""The laws of ``attend`` and of its layer, over shapes, masks, heads, scores and dtypes, on both paths, with gradients.

The numbers are those of the architecture: 2 one function on both paths, 4 rows that see nothing, 5 what is masked
cannot be felt, 6 right-aligned causality, 7 neighbours. That padding changes nothing (7) and order does not matter (8)
follows from 2 and 5; layers and models are held to it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from selfattn import registry
from selfattn.attention import (
    Additive,
    Alibi,
    Concat,
    MultiHeadAttention,
    Normalizer,
    RelativeBias,
    Rotary,
    Score,
    attend,
    causal_mask,
    make_normalizer,
    make_score,
)
from selfattn.attention.cache import Cache

pytestmark = pytest.mark.usefixtures("plugins")

KINDS = {"built-in": ("dot", "scaled_dot", "general", "additive", "concat", "location"), "plugin": ("cosine",)}
PATHS = {"fused": False, "reference": True}


@dataclass(frozen=True)
class Law:
    """What a law is held to: calls that are drawn, with built-in scores or a plugin's, on one of the paths."""

    data: st.DataObject
    scores: tuple[str, ...]
    need_weights: bool
    close: Callable[[Tensor, Tensor], None]

    def call(self, **options):
        return self.data.draw(calls(self.scores, **options))

    def run(self, call):
        return run(call, self.need_weights)


def law(test):
    def held(data, kind, path, close):
        test(Law(data, KINDS[kind], PATHS[path], close))

    held.__name__ = test.__name__
    by_kind, by_path = pytest.mark.parametrize("kind", KINDS), pytest.mark.parametrize("path", PATHS)
    return by_kind(by_path(given(data=st.data())(held)))


SMOOTH = ["softmax", "softmax1", "softmax_sink", "sigmoid"]
NORMALIZERS = [*SMOOTH, "sparsemax", "entmax15"]
DTYPES = [torch.float32, torch.float64, torch.bfloat16]
# A finite value that no product with it below makes infinite.
HUGE = {torch.float32: 1e30, torch.bfloat16: 1e30, torch.float64: 1e300}
NOT_FINITE = [math.nan, math.inf, -math.inf]


@dataclass(frozen=True)
class Call:
    """The arguments of one ``attend``, and the gradient that comes back to its output."""

    query: Tensor
    key: Tensor
    value: Tensor
    score: Score
    normalize: Normalizer
    mask: Tensor | None
    bias: Tensor | None
    causal: bool
    output_grad: Tensor

    @property
    def group(self):
        return self.query.shape[1] // self.key.shape[1]

    def allowed(self):
        """Which query may see which key, ``[b h i j]``, said once more and in other words than the library's."""
        (b, h, i, _), j = self.query.shape, self.key.shape[2]
        allowed = torch.ones(b, h, i, j, dtype=torch.bool)
        if self.mask is not None:
            allowed &= self.mask
        if self.causal:
            allowed &= torch.arange(j) - j <= torch.arange(i)[:, None] - i
        return allowed

    def allowed_by_key_head(self):
        """The same ``[b g j]``: does any query of the group see this key?"""
        return self.allowed().unflatten(1, (-1, self.group)).any(dim=(2, 3))


@dataclass(frozen=True)
class Result:
    output: Tensor
    weights: Tensor | None
    gradients: dict[str, Tensor]


def result_of(call, leaves, parts, output, weights):
    for part in parts:
        leaves |= dict(part.named_parameters())
    gradients = torch.autograd.grad(output, list(leaves.values()), call.output_grad.to(output), allow_unused=True)
    found = {name: grad for name, grad in zip(leaves, gradients, strict=True) if grad is not None}
    return Result(output.detach(), None if weights is None else weights.detach(), found)


def leaves_of(call, dtype):
    names = ["query", "key", "value"] + ["bias"] * (call.bias is not None)
    return {name: getattr(call, name).to(dtype, copy=True).requires_grad_() for name in names}


def run(call, need_weights):
    leaves = leaves_of(call, call.query.dtype)
    parts = {"score": call.score, "normalize": call.normalize}
    attended = attend(**leaves, **parts, mask=call.mask, causal=call.causal, need_weights=need_weights)
    return result_of(call, leaves, [*parts.values()], attended.output, attended.weights)


def weights_by_hand(name, scores, sink):
    """The weights of one query that sees all these keys ``[j]``, with their derivatives."""
    powers = scores.exp()
    if name in SMOOTH or not len(scores):
        extra = {"softmax": 0.0, "softmax1": 1.0, "softmax_sink": sink.exp()}
        return powers / (powers + len(scores)) if name == "sigmoid" else powers / (powers.sum() + extra.get(name, 0.0))
    # max(factor * s - tau, 0)^power with the tau, by bisection, that makes the sum 1; and the Jacobian as published.
    power, factor = (1, 1.0) if name == "sparsemax" else (2, 0.5)
    z = factor * scores.detach()
    low, high = z.max() - 1, z.max()
    for _ in range(100):
        middle = (low + high) / 2
        too_much = (z - middle).clamp(min=0).pow(power).sum() > 1
        low, high = (middle, high) if too_much else (low, middle)
    weights = (z - low).clamp(min=0).pow(power)
    slopes = (weights > 1e-14).double() if power == 1 else weights.sqrt()
    jacobian = slopes.diag() - slopes.outer(slopes) / slopes.sum()
    return weights + jacobian @ (scores - scores.detach())


def by_hand(call):
    """The definition, query by query, in float64: scores of the keys that it may see, weights, weighted sum."""
    leaves = leaves_of(call, torch.float64)
    score, normalize = copy.deepcopy(call.score).double(), copy.deepcopy(call.normalize).double()
    allowed, full = call.allowed(), call.allowed().shape
    bias = leaves["bias"].expand(full) if "bias" in leaves else torch.zeros(full, dtype=torch.float64)
    names, no_sink = {type(make_normalizer(name)): name for name in NORMALIZERS}, torch.zeros(full[1])
    outputs, distributions = [], []
    for b, h, i in torch.cartesian_prod(*map(torch.arange, full[:3])).tolist():
        key, value = leaves["key"][b, h // call.group], leaves["value"][b, h // call.group]
        seen = allowed[b, h, i].nonzero().flatten()
        scores = score(leaves["query"][b, h, i][None, None, None], key[None, None])[0, 0, 0] + bias[b, h, i]
        weights = weights_by_hand(names[type(normalize)], scores[seen], getattr(normalize, "sink", no_sink)[h])
        outputs.append(weights @ value[seen])
        distributions.append(torch.zeros(full[3]).double().index_put((seen,), weights))
    output = torch.stack(outputs).reshape(call.output_grad.shape)
    return result_of(call, leaves, [score, normalize], output, torch.stack(distributions).reshape(full))


@st.composite
def calls(draw, scores, masked=None, causal=None):
    b, g, group = (draw(st.integers(1, most)) for most in (3, 2, 3))
    i, j, e, c = (draw(st.integers(1, most)) for most in (5, 6, 4, 4))
    h = g * group
    dtype = draw(st.sampled_from(DTYPES))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def normal(*shape):
        return (0.7 * torch.randn(shape, generator=random)).to(dtype)

    def some_shape():
        whole = [draw(st.booleans()) for _ in range(4)]
        shape = [size if keep else 1 for size, keep in zip((b, h, i, j), whole, strict=True)]
        return tuple(shape[next((k for k, keep in enumerate(whole) if keep), 4) :])  # leading ones left out

    mask = bias = None
    if draw(st.booleans()) if masked is None else masked:
        mask = torch.rand(some_shape(), generator=random) < draw(st.sampled_from([0.0, 0.3, 0.6, 0.9, 1.0]))
    if draw(st.booleans()):
        bias = normal(*some_shape())
    score = make_score(draw(st.sampled_from(scores)), e, e, max_length=7)
    # With 16 bits a key may come just below the threshold instead of above it, where the derivative jumps.
    normalize = make_normalizer(draw(st.sampled_from(SMOOTH if dtype is torch.bfloat16 else NORMALIZERS)), h)
    with torch.no_grad():
        for parameter in [*score.parameters(), *normalize.parameters()]:
            parameter.copy_(0.7 * torch.randn(parameter.shape, generator=random))
    if isinstance(score, Additive | Concat):
        score.block_elements = draw(st.sampled_from([1, 20, 2**24]))
    return Call(
        query=normal(b, h, i, e),
        key=normal(b, g, j, e),
        value=normal(b, g, j, c),
        score=score.to(dtype),
        normalize=normalize.to(dtype),
        mask=mask,
        bias=bias,
        causal=draw(st.booleans()) if causal is None else causal,
        output_grad=normal(b, h, i, c),
    )


def same_bits(actual, expected):
    assert torch.equal(actual.output, expected.output)
    if expected.weights is not None:
        assert torch.equal(actual.weights, expected.weights)
    assert actual.gradients.keys() == expected.gradients.keys()
    for name, gradient in expected.gradients.items():
        assert torch.equal(actual.gradients[name], gradient), name


def as_close(close, actual, expected):
    close(actual.output, expected.output.to(actual.output.dtype))
    for name, gradient in actual.gradients.items():
        close(gradient, expected.gradients[name].to(gradient.dtype))


def put(tensor, where, values):
    """Overwrite the vectors where ``where`` is True, with the values in turn."""
    filled = torch.tensor(values, dtype=torch.float64).repeat(math.ceil(tensor.numel() / len(values)))[: tensor.numel()]
    return torch.where(where.unsqueeze(-1), filled.reshape(tensor.shape).to(tensor.dtype), tensor)


@law
def test_law_2_each_path_is_the_definition(law):
    call = law.call()
    actual, expected = law.run(call), by_hand(call)
    as_close(law.close, actual, expected)
    if law.need_weights:
        law.close(actual.weights, expected.weights.to(actual.weights.dtype))


@pytest.mark.parametrize("normalize", ["softmax", "softmax1"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("i", "j", "causal"),
    [(i, j, causal) for i, j in ((67, 67), (1, 601), (3, 1103), (131, 37)) for causal in (False, True)]
    + [(600, 600, True)],
)
@pytest.mark.parametrize("masked", [False, True])
def test_law_2_over_several_blocks_of_the_kernel(i, j, masked, causal, dtype, normalize, close):
    # The CPU kernel goes through 512 keys at a time; here a first block may be hidden whole from a query.
    query, key, value, grad = (0.7 * torch.randn(1, 2, n, 8).to(dtype) for n in (i, j, j, i))
    mask = None
    if masked:
        mask = torch.rand(i, j) < 0.5
        mask[0, : min(j - 1, 550)] = False
        mask[-1] = False
    parts = make_score("scaled_dot", 8, 8), make_normalizer(normalize)
    call = Call(query, key, value, *parts, mask, None, causal, grad)
    as_close(close, run(call, need_weights=False), run(call, need_weights=True))


@law
def test_law_4_rows_that_see_nothing_are_zero_and_gradients_finite(law):
    call = law.call(masked=True)
    rows = torch.tensor([law.data.draw(st.booleans()) for _ in range(call.query.shape[2])])
    call = replace(call, mask=call.mask & ~rows[:, None])
    result, blind = law.run(call), ~call.allowed().any(dim=-1)
    assert blind[:, :, rows].all()
    for zero in (result.output, result.weights, result.gradients["query"]):
        assert zero is None or zero[blind].eq(0).all()
    assert all(tensor.isfinite().all() for tensor in (result.output, *result.gradients.values()))


@law
def test_law_5_a_finite_value_is_felt_by_those_alone_who_may_see_it(law):
    call, draw = law.call(), law.data.draw
    b, g, j = (draw(st.integers(0, size - 1)) for size in call.key.shape[:3])
    if draw(st.booleans()):  # most keys are seen by some and hidden from others
        call = replace(call, mask=torch.rand(call.allowed().shape) < 0.5)
    huge = HUGE[call.query.dtype]
    values = draw(st.sampled_from([[huge], [-huge], [huge, -huge, 0.0], [1e4, -1e-30]]))
    here = torch.zeros(call.key.shape[:3], dtype=torch.bool)
    here[b, g, j] = True
    names = draw(st.sampled_from([["key"], ["value"], ["key", "value"]]))
    overwritten = replace(call, **{name: put(getattr(call, name), here, values) for name in names})
    before, after = law.run(call), law.run(overwritten)
    touched = torch.zeros(call.query.shape[:3], dtype=torch.bool)
    of_group = slice(g * call.group, (g + 1) * call.group)
    touched[b, of_group] = call.allowed()[b, of_group, :, j]
    assert torch.equal(after.output[~touched], before.output[~touched])
    assert torch.equal(after.gradients["query"][~touched], before.gradients["query"][~touched])
    if law.need_weights:
        assert torch.equal(after.weights[~touched], before.weights[~touched])
    if not touched.any():
        same_bits(after, before)


@law
def test_law_5_not_even_nan_is_felt_where_nobody_looks(law):
    call, draw = law.call(masked=True), law.data.draw
    (b, g, j, _), i = call.key.shape, call.query.shape[2]
    padding = torch.tensor([[draw(st.booleans()) for _ in range(j)] for _ in range(b)])
    blind = torch.tensor([draw(st.booleans()) for _ in range(i)])
    call = replace(call, mask=call.mask & ~padding[:, None, None] & ~blind[:, None])
    values = draw(st.permutations(NOT_FINITE))
    unseen, no_sight = ~call.allowed_by_key_head(), ~call.allowed().any(dim=-1)
    assert unseen[padding[:, None].expand(b, g, j)].all()
    places = {"query": no_sight, "key": unseen, "value": unseen}
    poisoned = {name: put(getattr(call, name), where, values) for name, where in places.items()}
    result = law.run(replace(call, **poisoned))
    same_bits(result, law.run(call))
    assert result.gradients["value"][unseen].eq(0).all()


@law
def test_law_5_a_finite_bias_on_a_masked_pair(law):
    call = law.call()
    bias = torch.randn(call.allowed().shape).to(call.query.dtype)
    loud = torch.where(call.allowed(), bias, HUGE[call.query.dtype])
    same_bits(law.run(replace(call, bias=loud)), law.run(replace(call, bias=bias)))


@law
def test_law_6_causal_is_the_mask_that_lets_the_last_query_see_every_key(law):
    call = law.call(causal=True)
    i, j = call.query.shape[2], call.key.shape[2]
    by_hand = torch.tensor([[key - (j - 1) <= query - (i - 1) for key in range(j)] for query in range(i)])
    assert by_hand[-1].all()
    assert torch.equal(causal_mask(i, j), by_hand)
    explicit = replace(call, causal=False, mask=by_hand if call.mask is None else by_hand & call.mask)
    as_close(law.close, law.run(call), law.run(explicit))


@law
def test_law_7_neighbours_are_not_felt(law):
    call, changed = law.call(), {}
    row = law.data.draw(st.integers(0, call.query.shape[0] - 1))
    other = torch.arange(call.query.shape[0]) != row
    size = law.data.draw(st.sampled_from([1.0, 100.0, math.nan]))
    for name in ("query", "key", "value"):
        tensor = getattr(call, name)
        changed[name] = torch.where(other[:, None, None, None], size * torch.randn(tensor.shape), tensor).to(tensor)
    before, after = law.run(call), law.run(replace(call, **changed))
    assert torch.equal(after.output[row], before.output[row])
    for name in changed.keys() & before.gradients.keys():
        assert torch.equal(after.gradients[name][row], before.gradients[name][row])


# The layer, with positions


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


def layer_law(test):
    """Hold layers that are drawn to a law, on both paths, with built-in positions and a plugin's."""
    return both_kinds(both_paths(given(data=st.data())(test)))


@dataclass(frozen=True)
class Case:
    layer: MultiHeadAttention
    x: Tensor
    context: Tensor


@st.composite
def layers(draw, positions=(None,)):
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


def gradients_of(layer, output, grad, *inputs):
    leaves = [*inputs, *layer.parameters()]
    found = torch.autograd.grad(output, leaves, grad, allow_unused=True)
    return [torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, found, strict=True)]


@given(case=layers())
def test_weights_can_always_be_had_and_change_nothing(case, close):
    (output, none), (with_weights, weights) = (
        case.layer(case.x, case.context, need_weights=wanted) for wanted in (False, True)
    )
    assert none is None
    close(with_weights, output)
    close(weights.sum(-1), torch.ones(weights.shape[:-1]).double())
    grad = torch.randn(output.shape).double()
    for one, other in zip(
        gradients_of(case.layer, output, grad), gradients_of(case.layer, with_weights, grad), strict=True
    ):
        close(one, other)


@both_paths
@given(case=layers())
def test_a_context_projected_once_is_the_context(case, need_weights):
    made = case.layer.project_context(case.context)
    for _ in range(2):  # nothing is used up
        ours = case.layer(case.x, made, need_weights=need_weights)
        assert torch.equal(ours.output, case.layer(case.x, case.context, need_weights=need_weights).output)


@layer_law
def test_law_6_a_text_read_in_parts(data, positions, need_weights, close):
    case = data.draw(layers(positions).map(over_itself))
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


@layer_law
def test_law_8_a_text_permuted(data, positions, need_weights, close):
    """Permuting a text with its positions permutes the output."""
    case = data.draw(layers(positions).map(over_itself))
    i = case.x.shape[1]
    order = torch.tensor(data.draw(st.permutations(range(i))))
    before = case.layer(case.x, need_weights=need_weights)
    after = case.layer(case.x[:, order], positions=order, need_weights=need_weights)
    close(after.output, before.output[:, order])
    if need_weights:
        close(after.weights, before.weights[:, :, order][..., order])
