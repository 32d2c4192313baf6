"""``attend`` and ``MultiHeadAttention``: values that can be checked by hand, shapes, and every documented error."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from selfattn.attention import (
    Alibi,
    Dot,
    Location,
    MultiHeadAttention,
    Rotary,
    Score,
    Sinusoidal,
    attend,
    core,
    dot,
    make_score,
    scaled_dot,
)
from selfattn.attention import layer as layer_module
from selfattn.errors import UserError

Close = Callable[[Tensor, Tensor], None]
both_paths = pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])
SCORES = ["dot", "scaled_dot", "general", "additive", "concat", "location"]


def heads(rows: list[list[float]]) -> Tensor:
    """One batch row, one head: ``[[...], ...]`` to ``[1 1 length width]``."""
    return torch.tensor(rows, dtype=torch.float64)[None, None]


class TestByHand:
    @both_paths
    def test_log_weights(self, need_weights: bool, close: Close) -> None:
        # Scores ln 1, ln 2, ln 5: weights 1/8, 2/8, 5/8.
        key = heads([[0.0], [math.log(2)], [math.log(5)]])
        value = heads([[8.0, 0.0], [0.0, 8.0], [8.0, 8.0]])
        result = attend(heads([[1.0]]), key, value, score=dot, need_weights=need_weights)
        close(result.output, heads([[1.0 + 5.0, 2.0 + 5.0]]))
        if need_weights:
            assert result.weights is not None
            close(result.weights, heads([[1 / 8, 2 / 8, 5 / 8]]))
        else:
            assert result.weights is None

    @both_paths
    def test_the_scaled_score_is_divided_by_the_root_of_the_width(self, need_weights: bool, close: Close) -> None:
        # Width 4: q . k = 2 ln 3, divided by 2: ln 3, against 0: weights 3/4 and 1/4.
        query, key = heads([[math.log(3), 0, 0, 0]]), heads([[2.0, 0, 0, 0], [0.0, 5, 5, 5]])
        output = attend(query, key, heads([[4.0], [8.0]]), need_weights=need_weights).output
        close(output, heads([[3.0 + 2.0]]))

    @both_paths
    def test_the_bias_is_added_to_the_scores(self, need_weights: bool, close: Close) -> None:
        bias = torch.tensor([0.0, math.log(3)], dtype=torch.float64)
        zeros, value = heads([[0.0], [0.0]]), heads([[4.0], [8.0]])
        close(attend(zeros, zeros, value, bias=bias, need_weights=need_weights).output, heads([[7.0], [7.0]]))

    @both_paths
    @pytest.mark.parametrize(
        ("num_queries", "means"),
        [
            (1, [4.0]),
            (2, [3.0, 4.0]),
            (3, [2.0, 3.0, 4.0]),
            (5, [0.0, 0.0, 2.0, 3.0, 4.0]),  # the first two stand before the first key
        ],
    )
    def test_causal_is_right_aligned(
        self, num_queries: int, means: list[float], need_weights: bool, close: Close
    ) -> None:
        # Equal scores over the values 2, 4, 6: a query's output is the mean of what it sees.
        query, key, value = torch.zeros(1, 1, num_queries, 1).double(), heads([[0.0]] * 3), heads([[2.0], [4.0], [6.0]])
        output = attend(query, key, value, causal=True, need_weights=need_weights).output
        close(output.flatten(), torch.tensor(means, dtype=torch.float64))

    @both_paths
    def test_each_key_head_serves_the_query_heads_of_its_group(self, need_weights: bool, close: Close) -> None:
        value = torch.tensor([3.0, 5.0]).reshape(1, 2, 1, 1)
        output = attend(torch.zeros(1, 6, 1, 1), torch.zeros(1, 2, 1, 1), value, need_weights=need_weights).output
        close(output.flatten(), torch.tensor([3.0, 3.0, 3.0, 5.0, 5.0, 5.0]))

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
    @pytest.mark.parametrize(
        ("i", "causal", "rows"), [(1, True, None), (7, True, None), (7, False, None), (1, False, 6)]
    )
    def test_heads_that_are_read_where_they_lie_give_the_bits_of_copies(
        self, dtype: torch.dtype, i: int, causal: bool, rows: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        query, key, value = torch.randn(2, 6, i, 8), torch.randn(2, 2, 131, 8), torch.randn(2, 2, 131, 8)
        query, key, value = (one.to(dtype) for one in (query, key, value))
        bias = None if rows is None else torch.randn(rows, i, 131).to(dtype)
        with torch.inference_mode():
            copies = attend(query, *(one.repeat_interleave(3, dim=1) for one in (key, value)), bias=bias, causal=causal)
            monkeypatch.setattr(Tensor, "repeat_interleave", None)  # no copies are made
            found = attend(query, key, value, bias=bias, causal=causal)
        assert torch.equal(found.output, copies.output)


class TestShapes:
    @both_paths
    @pytest.mark.parametrize("causal", [False, True])
    @pytest.mark.parametrize("sizes", [(2, 5, 0), (2, 0, 7), (0, 5, 7)], ids=str)
    @pytest.mark.parametrize("name", ["dot", "concat", "location"])
    def test_nothing_to_ask_or_to_see(
        self, name: str, sizes: tuple[int, int, int], causal: bool, need_weights: bool
    ) -> None:
        b, i, j = sizes
        query = torch.randn(b, 3, i, 11, requires_grad=True)
        key, value = torch.randn(b, 3, j, 11, requires_grad=True), torch.randn(b, 3, j, 13, requires_grad=True)
        for mask in (None, torch.ones(i, j, dtype=torch.bool), torch.ones(b, 1, 1, j, dtype=torch.bool)):
            output, weights = attend(
                query, key, value, score=make_score(name, 11, 11), mask=mask, causal=causal, need_weights=need_weights
            )
            assert output.shape == (b, 3, i, 13)
            assert torch.equal(output, torch.zeros_like(output))
            assert weights is None or weights.shape == (b, 3, i, j)
            for tensor, gradient in zip(
                (query, key, value),
                torch.autograd.grad(output.sum(), (query, key, value), allow_unused=True),
                strict=True,
            ):
                if gradient is None:
                    assert name == "location"
                    assert tensor is key
                else:
                    assert torch.equal(gradient, torch.zeros_like(tensor))


class TestTensorsAsTheyCome:
    @both_paths
    def test_nothing_that_is_handed_in_is_changed(self, need_weights: bool) -> None:
        tensors = [torch.randn(2, 3, 5, 7) for _ in range(3)]
        mask, bias = torch.rand(5, 5) < 0.5, torch.randn(3, 1, 5)
        before = [x.clone() for x in (*tensors, mask, bias)]
        attend(*tensors, mask=mask, bias=bias, causal=True, need_weights=need_weights)
        assert all(torch.equal(x, y) for x, y in zip((*tensors, mask, bias), before, strict=True))

    def test_the_softmax_of_half_precision_runs_in_float32(self) -> None:
        # Scores 8 and 8 + 1/64, which bfloat16 would round to 8: the weights 1/2 -+ 1/256 tell them apart.
        query, key = torch.ones(1, 1, 1, 1).bfloat16(), torch.full((1, 1, 2, 1), 8.0).bfloat16()
        bias = torch.tensor([0.0, 1 / 64]).bfloat16()
        weights = attend(query, key, key, score=dot, bias=bias, need_weights=True).weights
        assert weights is not None
        assert weights.flatten().tolist() == [1 / 2 - 1 / 256, 1 / 2 + 1 / 256]

    @both_paths
    def test_large_half_precision_products_are_scaled_before_they_overflow(self, need_weights: bool) -> None:
        # q . k = 64 * 40 * 40 = 102400, more than float16 holds; divided by 8 it is not.
        large = torch.full((1, 1, 3, 64), 40.0, dtype=torch.float16)
        output = attend(large, large, torch.ones(1, 1, 3, 5, dtype=torch.float16), need_weights=need_weights).output
        assert torch.equal(output, torch.ones_like(output))

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("project", [True, False])
    @pytest.mark.parametrize("score", SCORES)
    def test_autocast(self, score: str, project: bool, dtype: torch.dtype) -> None:
        layer = MultiHeadAttention(12, num_heads=3, score=score, project=project, position=Alibi(3), qk_norm=True)
        x, context = torch.randn(2, 5, 12), torch.randn(2, 7, 12, requires_grad=True)
        mask = torch.rand(2, 1, 1, 7) < 0.7
        exact = layer(x, context, mask=mask).output
        with torch.autocast("cpu", dtype=dtype):
            fused = layer(x, context, mask=mask).output
            reference = layer(x, layer.project_context(context), mask=mask, need_weights=True).output
        assert fused.dtype == reference.dtype == dtype
        for output in (fused, reference):
            torch.testing.assert_close(output.float(), exact, rtol=5e-2, atol=5e-2)
            (gradient,) = torch.autograd.grad(output.sum(), context)
            assert gradient.isfinite().all()

    @both_paths
    @pytest.mark.filterwarnings("ignore:Anomaly Detection")
    @pytest.mark.parametrize("with_bias", [False, True], ids=["", "bias"])
    def test_no_nan_arises_even_on_the_way(self, with_bias: bool, need_weights: bool) -> None:
        query, key, value = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
        bias = torch.randn(5, 5, requires_grad=True) if with_bias else None
        mask = torch.rand(5, 5) < 0.5
        mask[2] = False
        with torch.autograd.detect_anomaly():
            attend(query, key, value, mask=mask, bias=bias, need_weights=need_weights).output.sum().backward()


class TestWhichPath:
    @pytest.fixture
    def kernel(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
        """What PyTorch's fused kernel was called with."""
        calls: list[dict[str, Any]] = []
        run = torch.nn.functional.scaled_dot_product_attention

        def recorded(*args: Any, **kwargs: Any) -> Tensor:
            calls.append({"attn_mask": args[3], **kwargs})
            return run(*args, **kwargs)

        monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", recorded)
        return calls

    @pytest.mark.parametrize("need_weights", [False, True])
    @pytest.mark.parametrize("name", SCORES)
    def test_dot_products_are_fused_unless_the_weights_are_wanted(
        self, name: str, need_weights: bool, kernel: list[dict[str, Any]]
    ) -> None:
        x = torch.randn(2, 3, 5, 8)
        attend(x, x, x, score=make_score(name, 8, 8), need_weights=need_weights)
        assert len(kernel) == (name in ("dot", "scaled_dot", "general") and not need_weights)

    def test_plain_causality_is_left_to_the_kernel(self, kernel: list[dict[str, Any]]) -> None:
        x = torch.randn(2, 3, 5, 8)
        attend(x, x, x, causal=True)  # as many keys as queries: no mask is built
        attend(x[:, :, -1:], x, x, causal=True)  # the one query of a cached step: there is nothing to mask
        assert [(call["is_causal"], call["attn_mask"]) for call in kernel] == [(True, None), (False, None)]


class TestDropout:
    """With the identity as values, the output is the dropped weights themselves."""

    j, p = 8, 0.25

    def dropped(self, need_weights: bool, score: Score = scaled_dot, dropout_p: float = p, rows: int = 400) -> Tensor:
        value = torch.eye(self.j).expand(rows, 1, self.j, self.j)
        zeros = torch.zeros(rows, 1, self.j, 4)
        result = attend(zeros, zeros, value, score=score, dropout_p=dropout_p, need_weights=need_weights)
        if result.weights is not None:  # what is returned is the distribution, before dropout
            assert torch.equal(result.weights, torch.full_like(result.weights, 1 / self.j))
        return result.output

    @both_paths
    def test_kept_weights_are_scaled_and_the_others_are_zero(self, need_weights: bool) -> None:
        values = self.dropped(need_weights).unique()
        torch.testing.assert_close(values, torch.tensor([0.0, 1 / self.j / (1 - self.p)]))


def x(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


GOOD: dict[str, Any] = {"query": x(2, 3, 5, 11), "key": x(2, 3, 7, 11), "value": x(2, 3, 7, 13)}
BAD_CALLS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"query": x(2, 5, 11)}, ValueError, "expected query [b h i e], got 3 axes (2, 5, 11)"),
    ({"value": x(1, 2, 3, 7, 13)}, ValueError, "expected value [b h j c], got 5 axes (1, 2, 3, 7, 13)"),
    ({"query": x(17, 3, 5, 11)}, ValueError, "do not fit: ((17, 3, 5, 11), (2, 3, 7, 11), (2, 3, 7, 13))"),
    ({"value": x(2, 3, 17, 13)}, ValueError, "do not fit: ((2, 3, 5, 11), (2, 3, 7, 11), (2, 3, 17, 13))"),
    ({"value": x(2, 1, 7, 13)}, ValueError, "do not fit: ((2, 3, 5, 11), (2, 3, 7, 11), (2, 1, 7, 13))"),
    ({"key": x(2, 2, 7, 11), "value": x(2, 2, 7, 13)}, ValueError, "2 key-value heads do not divide 3 query heads"),
    ({"key": x(2, 0, 7, 11), "value": x(2, 0, 7, 13)}, ValueError, "0 key-value heads do not divide 3 query heads"),
    ({"key": x(2, 3, 7, 17)}, ValueError, "ScaledDot: query width 11 and key width 17 differ"),
    ({"mask": x(2, 7).bool()}, ValueError, "expected a mask that broadcasts to [b h i j] (2, 3, 5, 7), got (2, 7)"),
    (
        {"mask": x(1, 1, 1, 5, 7).bool()},
        ValueError,
        "expected a mask that broadcasts to [b h i j] (2, 3, 5, 7), got (1,",
    ),
    ({"mask": x(5, 7)}, TypeError, "expected a bool mask, True = may attend, got torch.float32"),
    ({"bias": x(2, 5, 7)}, ValueError, "expected a bias that broadcasts to [b h i j] (2, 3, 5, 7), got (2, 5, 7)"),
    ({"bias": x(5, 7).bool()}, TypeError, "expected bias as a floating point tensor, got torch.bool"),
    ({"value": x(2, 3, 7, 13, dtype=torch.float64)}, TypeError, "expected query, key and value of one dtype, got ("),
    ({"dropout_p": 1.0}, ValueError, "dropout_p must be a number in [0, 1), got 1.0"),
    ({"bias": 0.5}, TypeError, "expected bias as a floating point tensor, got float"),
    ({"dropout_p": "0.1"}, ValueError, "dropout_p must be a number in [0, 1), got '0.1'"),
    ({"dropout_p": -0.5}, ValueError, "dropout_p must be a number in [0, 1), got -0.5"),
]


class TestErrors:
    @pytest.mark.parametrize(("change", "error", "message"), BAD_CALLS, ids=[case[2][:50] for case in BAD_CALLS])
    def test_attend(self, change: dict[str, Any], error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=re.escape(message)):
            attend(**GOOD | change)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"query_dim": 10, "num_heads": 3}, "query_dim 10 is not divisible by 3 heads"),
            (
                {"query_dim": 6, "context_dim": 10, "num_heads": 3, "project": False},
                "context_dim 10 is not divisible by 3 heads",
            ),
            ({"query_dim": 12, "num_heads": 6, "num_kv_heads": 4}, "4 key-value heads do not divide 6 heads"),
            ({"query_dim": -8, "num_heads": 2}, "query_dim must be at least 1, got -8"),
            ({"query_dim": 12, "num_heads": 0}, "0 key-value heads do not divide 0 heads"),
            ({"query_dim": 12, "num_heads": 3, "dropout": 1.5}, "dropout must be a number in [0, 1), got 1.5"),
            ({"query_dim": 12, "num_heads": 3, "position": "rotary"}, "position as an AttentionPosition, got 'rotary'"),
            ({"query_dim": 12, "num_heads": 3, "position": Sinusoidal(4)}, "position as an AttentionPosition, got Sin"),
            ({"query_dim": 12, "num_heads": 3, "score": "angle"}, "score 'angle' is not known; known: dot, scaled_dot"),
        ],
        ids=str,
    )
    def test_building_a_layer(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises((TypeError, ValueError, UserError), match=re.escape(message)):
            MultiHeadAttention(**arguments)

    def test_a_context_without_the_positions_that_the_layer_needs(self) -> None:
        layer, plain = MultiHeadAttention(8, num_heads=2, position=Rotary(4)), MultiHeadAttention(8, num_heads=2)
        with pytest.raises(ValueError, match="uses positions, but context was projected without"):
            layer(x(2, 5, 8), plain.project_context(x(2, 7, 8)))

    def test_positions_that_are_not_as_many_as_the_tokens(self) -> None:
        layer = MultiHeadAttention(8, num_heads=2, position=Rotary(4))
        with pytest.raises(ValueError, match="expected 7 positions of keys, got 5"):
            layer.project_context(x(2, 7, 8), torch.arange(5))
        with pytest.raises(ValueError, match="expected 5 positions of queries, got 1"):
            layer(x(2, 5, 8), positions=torch.arange(1), context=x(2, 7, 8))
        # With one query more than keys, "the last five of four" must not become "the last one, five times".
        with pytest.raises(ValueError, match="expected 5 positions of queries, got 4; state positions="):
            layer(x(2, 5, 8), x(2, 4, 8))


class TestLayer:
    def test_normalised_queries_and_keys_have_root_mean_square_one(self, close: Close) -> None:
        layer = MultiHeadAttention(8, num_heads=2, qk_norm=True)
        key = layer.project_context(100 * torch.randn(3, 5, 8)).key
        close(key.square().mean(-1), torch.ones(3, 2, 5))
        x = torch.randn(3, 5, 8)
        with torch.no_grad():
            before = layer(x).output
            layer.q_proj.weight *= 100
            assert layer.q_proj.bias is not None
            layer.q_proj.bias *= 100
        close(layer(x).output, before)  # the length of a query no longer counts


# --- what cannot be taken ---------------------------------------------------------------------------------------------


def random_heads(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*sizes).to(dtype)


Q = random_heads(2, 3, 5, 7)


@pytest.mark.parametrize("score", [dot, scaled_dot])
@pytest.mark.parametrize("value", [1.0, 100.0, 200.0])
@pytest.mark.parametrize("bias", [None, 3.0, 1e5, -1e5])
def test_both_paths_agree_in_float16_where_scores_overflow(score: Score, value: float, bias: float | None) -> None:
    query, key = (torch.full((1, 2, 3, 64), value, dtype=torch.float16) for _ in range(2))
    key[..., 1, :] = value / 2
    values = random_heads(1, 2, 3, 4, dtype=torch.float16)
    added = None if bias is None else torch.tensor([0.0, bias, bias / 2]).expand(1, 1, 3, 3)
    mask = torch.tensor([True, True, False]).expand(1, 1, 3, 3)
    for allowed in (None, mask):
        fused = attend(query, key, values, score=score, bias=added, mask=allowed).output
        reference = attend(query, key, values, score=score, bias=added, mask=allowed, need_weights=True).output
        assert fused.isfinite().all()
        torch.testing.assert_close(fused, reference, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("query", "found"),
    [(Q.to(torch.complex64), "torch.complex64"), (Q.long(), "torch.int64"), (np.zeros((2, 3, 5, 7)), "ndarray")],
)
def test_other_numbers_are_refused_by_name(query: Any, found: str) -> None:
    for arguments in ((query, Q, Q), (Q, query, Q), (Q, Q, query)):
        with pytest.raises(TypeError, match=rf"attend: expected (query|key|value) as a floating point .* got {found}"):
            attend(*arguments)


def test_heads_of_no_width_are_refused() -> None:
    none = torch.zeros(2, 3, 5, 0)
    with pytest.raises(ValueError, match="attend: expected heads at least 1 wide, got query 0 and key 0"):
        attend(none, none, Q)


@pytest.mark.parametrize(
    ("score", "found"), [(lambda query, key: query @ key.mT, "got <function"), (Dot, "got <class")]
)
def test_what_is_no_score_is_said(score: Any, found: str) -> None:
    for call in (lambda: attend(Q, Q, Q, score=score), lambda: MultiHeadAttention(8, num_heads=2, score=score)):
        with pytest.raises(TypeError, match=found):
            call()


@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("x", [torch.zeros(5, 8), torch.zeros(2, 5, 9), torch.zeros(2, 5), np.zeros((2, 5, 8))])
def test_states_of_another_form_are_refused(x: Any, project: bool) -> None:
    layer = MultiHeadAttention(8, num_heads=2, project=project)
    calls: tuple[Callable[[], object], ...] = (
        lambda: layer(x), lambda: layer.project_context(x), lambda: layer(torch.zeros(2, 5, 8), x),
        lambda: layer(x, torch.zeros(2, 5, 8)),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(
            ValueError,
            match=r"MultiHeadAttention: expected (x|context) \[b . d\] with (8|2 times any number of) features",
        ):
            call()


class Flat(Score):
    """Forgets an axis that broadcasting would take for another, with as many rows as heads."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return (query @ key.transpose(-2, -1))[:, 0]

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return query[:, :1], key, 1.0


@both_paths
def test_a_score_that_forgets_an_axis(need_weights: bool) -> None:
    same, method = random_heads(3, 3, 5, 7), "forward" if need_weights else "as_dot"
    with pytest.raises(ValueError, match=rf"expected Flat\.{method} to return"):
        attend(same, same, same, score=Flat(), need_weights=need_weights)


@pytest.mark.parametrize("kind", ["nested", "sparse", "float8"])
def test_numbers_that_no_path_computes_with_are_named(kind: str) -> None:
    dense = torch.ones(1, 2, 3, 4)
    other = dense.to_sparse() if kind == "sparse" else dense.to(torch.float8_e4m3fn)
    if kind == "nested":
        other = torch.nested.nested_tensor([torch.ones(2, 3, 4)], layout=torch.jagged)
    with pytest.raises(TypeError, match="attend: expected query as a dense tensor of at least 16-bit numbers"):
        attend(other, dense, dense)


def test_a_layer_checks_once_what_attend_checks_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    check = core.check_vectors

    def counted(*arguments: Any) -> None:
        calls.append("check")
        check(*arguments)

    for module in (core, layer_module):
        monkeypatch.setattr(module, "check_vectors", counted)
    layer = MultiHeadAttention(8, num_heads=2)
    layer(torch.randn(2, 5, 8), need_weights=True)
    assert not calls
    attend(Q, Q, Q)
    assert calls == ["check"]
    with pytest.raises(ValueError, match=r"expected a bias that broadcasts to .* got \(5, 4\)"):
        layer(torch.randn(2, 5, 8), bias=torch.zeros(5, 4))
    with pytest.raises(ValueError, match=r"expected a mask that broadcasts to .* got \(5, 4\)"):
        layer(torch.randn(2, 5, 8), mask=torch.ones(5, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="Dot: query width 4 and key width 3 differ"):
        MultiHeadAttention(8, 6, num_heads=2, score="dot", project=False)(torch.randn(2, 5, 8), torch.randn(2, 5, 6))


def test_the_location_score_is_cited_by_one_equation() -> None:
    """Luong et al. 2015 number general, dot and concat in equation 7, location in equation 8."""
    docs = Path(__file__).parents[2] / "docs"
    pages = [docs / "concepts.md", docs / "ko" / "concepts.md", *sorted((docs / "notebooks").glob("concepts*.ipynb"))]
    cited = [str(Location.__doc__), *(page.read_text(encoding="utf-8") for page in pages)]
    found = [re.findall(r"(?:section 3\.1, equation|3\.1절, 식) (\d+)", text) for text in cited]
    assert found == [["8"]] * 5
