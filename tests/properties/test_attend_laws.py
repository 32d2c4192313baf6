"""The laws of ``attend``, over shapes, masks, heads, groups, scores and dtypes, on both paths, with gradients.

The numbers are those of the architecture: 2 one function on both paths, 4 rows that see nothing, 5 what is masked
cannot be felt, 6 right-aligned causality, 7 neighbours, order and padding, 8 permutation.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from selfattn.attention import (
    Additive,
    Concat,
    Normalizer,
    Score,
    attend,
    causal_mask,
    make_normalizer,
    make_score,
    softmax,
    softmax1,
)

pytestmark = pytest.mark.usefixtures("plugins")

Close = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True)
class Scores:
    """Names of scores, those that read the number of a key apart."""

    placeless: tuple[str, ...]
    placed: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.placeless, *self.placed)


BUILT_IN = Scores(("dot", "scaled_dot", "general", "additive", "concat"), ("location",))
PLUGIN = Scores(("cosine",))
both_kinds = pytest.mark.parametrize("scores", [BUILT_IN, PLUGIN], ids=["built-in", "plugin"])
both_paths = pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])


def law(test: Callable[..., None]) -> Any:
    """Hold calls that are drawn to a law, on both paths, with built-in scores and a plugin's."""
    return both_kinds(both_paths(given(data=st.data())(test)))


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
    def group(self) -> int:
        return self.query.shape[1] // self.key.shape[1]

    def allowed(self) -> Tensor:
        """Which query may see which key, ``[b h i j]``, said once more and in other words than the library's."""
        (b, h, i, _), j = self.query.shape, self.key.shape[2]
        allowed = torch.ones(b, h, i, j, dtype=torch.bool)
        if self.mask is not None:
            allowed &= self.mask
        if self.causal:
            allowed &= torch.arange(j) - j <= torch.arange(i)[:, None] - i
        return allowed

    def allowed_by_key_head(self) -> Tensor:
        """The same ``[b g j]``: does any query of the group see this key?"""
        return self.allowed().unflatten(1, (-1, self.group)).any(dim=(2, 3))


@dataclass(frozen=True)
class Result:
    output: Tensor
    weights: Tensor | None
    gradients: dict[str, Tensor]


def run(call: Call, need_weights: bool) -> Result:
    names = ["query", "key", "value"] + ["bias"] * (call.bias is not None)
    leaves = {name: getattr(call, name).clone().requires_grad_() for name in names}
    parts: dict[str, Any] = {"score": call.score, "normalize": call.normalize}
    output, weights = attend(**leaves, **parts, mask=call.mask, causal=call.causal, need_weights=need_weights)
    leaves |= dict(call.score.named_parameters()) | dict(call.normalize.named_parameters())
    gradients = torch.autograd.grad(output, list(leaves.values()), call.output_grad, allow_unused=True)
    found = {name: grad for name, grad in zip(leaves, gradients, strict=True) if grad is not None}
    return Result(output.detach(), None if weights is None else weights.detach(), found)


def weights_by_hand(name: str, scores: Tensor, sink: Tensor) -> Tensor:
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


def by_hand(call: Call) -> Result:
    """The definition, query by query, in float64: scores of the keys that it may see, weights, weighted sum."""
    leaves = {
        name: getattr(call, name).double().requires_grad_()
        for name in ("query", "key", "value", "bias")
        if getattr(call, name) is not None
    }
    score = copy.deepcopy(call.score).double()
    normalize = copy.deepcopy(call.normalize).double()
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
    leaves |= dict(score.named_parameters()) | dict(normalize.named_parameters())
    gradients = torch.autograd.grad(output, list(leaves.values()), call.output_grad.double(), allow_unused=True)
    found = {name: grad for name, grad in zip(leaves, gradients, strict=True) if grad is not None}
    return Result(output.detach(), torch.stack(distributions).reshape(full).detach(), found)


@st.composite
def calls(
    draw: st.DrawFn,
    scores: tuple[str, ...],
    dtypes: list[torch.dtype] = DTYPES,
    masked: bool | None = None,
    causal: bool | None = None,
) -> Call:
    b, g, group = (draw(st.integers(1, most)) for most in (3, 2, 3))
    i, j, e, c = (draw(st.integers(1, most)) for most in (5, 6, 4, 4))
    h = g * group
    dtype = draw(st.sampled_from(dtypes))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def normal(*shape: int) -> Tensor:
        return (0.7 * torch.randn(shape, generator=random)).to(dtype)

    def some_shape() -> tuple[int, ...]:
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


def same_bits(actual: Result, expected: Result) -> None:
    assert torch.equal(actual.output, expected.output)
    if expected.weights is not None:
        assert torch.equal(actual.weights, expected.weights)
    assert actual.gradients.keys() == expected.gradients.keys()
    for name, gradient in expected.gradients.items():
        assert torch.equal(actual.gradients[name], gradient), name


def as_close(close: Close, actual: Result, expected: Result) -> None:
    close(actual.output, expected.output.to(actual.output.dtype))
    for name, gradient in actual.gradients.items():
        close(gradient, expected.gradients[name].to(gradient.dtype))


def put(tensor: Tensor, where: Tensor, values: list[float]) -> Tensor:
    """Overwrite the vectors where ``where`` is True, with the values in turn."""
    filled = torch.tensor(values, dtype=torch.float64).repeat(math.ceil(tensor.numel() / len(values)))[: tensor.numel()]
    return torch.where(where.unsqueeze(-1), filled.reshape(tensor.shape).to(tensor.dtype), tensor)


class TestOneFunctionOnBothPaths:
    @law
    def test_each_path_is_the_definition(
        self, data: st.DataObject, scores: Scores, need_weights: bool, close: Close
    ) -> None:
        call = data.draw(calls(scores.all))
        actual, expected = run(call, need_weights), by_hand(call)
        as_close(close, actual, expected)
        if need_weights:
            close(actual.weights, expected.weights.to(actual.weights.dtype))

    @pytest.mark.parametrize("normalize", [softmax, softmax1], ids=["softmax", "softmax1"])
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("causal", [False, True])
    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize(("i", "j"), [(67, 67), (1, 601), (3, 1103), (131, 37), (600, 600)])
    def test_law_2_over_several_blocks_of_the_kernel(
        self, i: int, j: int, masked: bool, causal: bool, dtype: torch.dtype, normalize: Normalizer, close: Close
    ) -> None:
        # The CPU kernel goes through 512 keys at a time; here a first block may be hidden whole from a query.
        query, key, value, grad = (0.7 * torch.randn(1, 2, n, 8).to(dtype) for n in (i, j, j, i))
        mask = None
        if masked:
            mask = torch.rand(i, j) < 0.5
            mask[0, : min(j - 1, 550)] = False
            mask[-1] = False
        call = Call(query, key, value, make_score("scaled_dot", 8, 8), normalize, mask, None, causal, grad)
        fused, reference = run(call, need_weights=False), run(call, need_weights=True)
        as_close(close, fused, reference)


class TestRowsThatSeeNothing:
    @law
    def test_law_4_output_and_weights_are_zero_and_gradients_finite(
        self, data: st.DataObject, scores: Scores, need_weights: bool
    ) -> None:
        call = data.draw(calls(scores.all, masked=True))
        rows = torch.tensor([data.draw(st.booleans()) for _ in range(call.query.shape[2])])
        call = replace(call, mask=call.mask & ~rows[:, None])
        result = run(call, need_weights)
        blind = ~call.allowed().any(dim=-1)
        assert blind[:, :, rows].all()
        assert result.output[blind].eq(0).all()
        assert result.weights is None or result.weights[blind].eq(0).all()
        assert result.gradients["query"][blind].eq(0).all()
        assert result.output.isfinite().all()
        assert all(gradient.isfinite().all() for gradient in result.gradients.values())


class TestWhatIsMaskedCannotBeFelt:
    @law
    def test_law_5_a_finite_value_is_felt_by_those_alone_who_may_see_it(
        self, data: st.DataObject, scores: Scores, need_weights: bool
    ) -> None:
        call = data.draw(calls(scores.all))
        b, g, j = (data.draw(st.integers(0, size - 1)) for size in call.key.shape[:3])
        if data.draw(st.booleans()):  # most keys are seen by some and hidden from others
            call = replace(call, mask=torch.rand(call.allowed().shape) < 0.5)
        huge = HUGE[call.query.dtype]
        values = data.draw(st.sampled_from([[huge], [-huge], [huge, -huge, 0.0], [1e4, -1e-30]]))
        here = torch.zeros(call.key.shape[:3], dtype=torch.bool)
        here[b, g, j] = True
        before = run(call, need_weights)
        names = data.draw(st.sampled_from([["key"], ["value"], ["key", "value"]]))
        after = run(replace(call, **{name: put(getattr(call, name), here, values) for name in names}), need_weights)

        touched = torch.zeros(call.query.shape[:3], dtype=torch.bool)
        of_group = slice(g * call.group, (g + 1) * call.group)
        touched[b, of_group] = call.allowed()[b, of_group, :, j]
        assert torch.equal(after.output[~touched], before.output[~touched])
        assert torch.equal(after.gradients["query"][~touched], before.gradients["query"][~touched])
        if need_weights:
            assert torch.equal(after.weights[~touched], before.weights[~touched])
        if not touched.any():
            same_bits(after, before)

    @law
    def test_law_5_not_even_nan_is_felt_where_nobody_looks(
        self, data: st.DataObject, scores: Scores, need_weights: bool
    ) -> None:
        call = data.draw(calls(scores.all, masked=True))
        (b, g, j, _), i = call.key.shape, call.query.shape[2]
        padding = torch.tensor([[data.draw(st.booleans()) for _ in range(j)] for _ in range(b)])
        blind = torch.tensor([data.draw(st.booleans()) for _ in range(i)])
        call = replace(call, mask=call.mask & ~padding[:, None, None] & ~blind[:, None])
        values = data.draw(st.permutations(NOT_FINITE))
        unseen, no_sight = ~call.allowed_by_key_head(), ~call.allowed().any(dim=-1)
        assert unseen[padding[:, None].expand(b, g, j)].all()
        poisoned = replace(
            call,
            query=put(call.query, no_sight, values),
            key=put(call.key, unseen, values),
            value=put(call.value, unseen, values),
        )
        result = run(poisoned, need_weights)
        same_bits(result, run(call, need_weights))
        assert result.gradients["value"][unseen].eq(0).all()

    @law
    def test_law_5_a_finite_bias_on_a_masked_pair(
        self, data: st.DataObject, scores: Scores, need_weights: bool
    ) -> None:
        call = data.draw(calls(scores.all))
        full = call.allowed()
        bias = torch.randn(full.shape).to(call.query.dtype)
        loud = torch.where(full, bias, HUGE[call.query.dtype])
        same_bits(run(replace(call, bias=loud), need_weights), run(replace(call, bias=bias), need_weights))


class TestCausalIsRightAligned:
    @law
    def test_law_6_causal_is_the_mask_that_lets_the_last_query_see_every_key(
        self, data: st.DataObject, scores: Scores, need_weights: bool, close: Close
    ) -> None:
        call = data.draw(calls(scores.all, causal=True))
        i, j = call.query.shape[2], call.key.shape[2]
        by_hand = torch.tensor([[key - (j - 1) <= query - (i - 1) for key in range(j)] for query in range(i)])
        assert by_hand[-1].all()
        assert torch.equal(causal_mask(i, j), by_hand)
        explicit = replace(call, causal=False, mask=by_hand if call.mask is None else by_hand & call.mask)
        as_close(close, run(call, need_weights), run(explicit, need_weights))

    @law
    def test_law_6_the_last_queries_of_a_text_get_what_they_get_in_the_whole_text(
        self, data: st.DataObject, scores: Scores, need_weights: bool, close: Close
    ) -> None:
        call = data.draw(calls(scores.all, causal=True, masked=False))
        j = call.key.shape[2]
        query = torch.randn(*call.query.shape[:2], j, call.query.shape[3]).to(call.query.dtype)
        bias = None if call.bias is None else torch.randn(j, j).to(call.query.dtype)
        last = data.draw(st.integers(1, j))
        options: dict[str, Any] = {"score": call.score, "normalize": call.normalize}
        options |= {"causal": True, "need_weights": need_weights}
        whole = attend(query, call.key, call.value, bias=bias, **options)
        part = attend(query[:, :, -last:], call.key, call.value, bias=None if bias is None else bias[-last:], **options)
        close(part.output, whole.output[:, :, -last:])
        if need_weights:
            close(part.weights, whole.weights[:, :, -last:])


PER_ROW = ("query", "key", "value")


class TestNeighboursOrderAndPadding:
    @law
    def test_law_7_neighbours_are_not_felt(self, data: st.DataObject, scores: Scores, need_weights: bool) -> None:
        call = data.draw(calls(scores.all))
        row = data.draw(st.integers(0, call.query.shape[0] - 1))
        other = torch.arange(call.query.shape[0]) != row
        size = data.draw(st.sampled_from([1.0, 100.0, math.nan]))
        changed = {}
        for name in PER_ROW:
            tensor = getattr(call, name)
            changed[name] = torch.where(other[:, None, None, None], size * torch.randn(tensor.shape), tensor).to(tensor)
        before, after = run(call, need_weights), run(replace(call, **changed), need_weights)
        assert torch.equal(after.output[row], before.output[row])
        for name in PER_ROW:
            if name in before.gradients:
                assert torch.equal(after.gradients[name][row], before.gradients[name][row])

    @law
    def test_law_7_padding(self, data: st.DataObject, scores: Scores, need_weights: bool, close: Close) -> None:
        call = data.draw(calls(scores.placeless, causal=False))
        full, j = call.allowed(), call.key.shape[2]
        more = data.draw(st.integers(1, 9))
        bias = None if call.bias is None else call.bias.expand(full.shape)

        def padded(x: Tensor, axis: int, fill: float) -> Tensor:
            shape = list(x.shape)
            shape[axis] = more
            return torch.cat([x, torch.full(shape, fill).to(x.dtype)], dim=axis)

        longer = replace(
            call,
            key=padded(call.key, 2, math.nan),
            value=padded(call.value, 2, math.inf),
            mask=padded(full, 3, 0),
            bias=None if bias is None else padded(bias, 3, 5.0),
        )
        short, long = run(replace(call, bias=bias), need_weights), run(longer, need_weights)
        close(long.output, short.output)
        for name, gradient in short.gradients.items():
            axis = {"key": 2, "value": 2, "bias": 3}.get(name)
            close(long.gradients[name] if axis is None else long.gradients[name].narrow(axis, 0, j), gradient)


class TestPermutation:
    @law
    def test_law_8_the_order_of_the_keys_is_not_felt_and_that_of_the_queries_is_kept(
        self, data: st.DataObject, scores: Scores, need_weights: bool, close: Close
    ) -> None:
        call = data.draw(calls(scores.placeless, causal=False))
        full = call.allowed()
        rows = torch.tensor(data.draw(st.permutations(range(full.shape[2]))))
        columns = torch.tensor(data.draw(st.permutations(range(full.shape[3]))))
        moved = replace(
            call,
            query=call.query[:, :, rows],
            key=call.key[:, :, columns],
            value=call.value[:, :, columns],
            mask=full[:, :, rows][..., columns],
            bias=None if call.bias is None else call.bias.expand(full.shape)[:, :, rows][..., columns],
            output_grad=call.output_grad[:, :, rows],
        )
        before, after = run(call, need_weights), run(moved, need_weights)
        close(after.output, before.output[:, :, rows])
        close(after.gradients["query"], before.gradients["query"][:, :, rows])
        close(after.gradients["key"], before.gradients["key"][:, :, columns])
