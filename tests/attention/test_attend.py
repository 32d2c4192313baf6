"""``attend`` and ``MultiHeadAttention``: values that can be checked by hand, shapes, and every documented error."""

import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from selfattn.attention import Alibi, Location, MultiHeadAttention, attend, core, dot, make_score, scaled_dot
from selfattn.attention import layer as layer_module

both_paths = pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])
SCORES = ["dot", "scaled_dot", "general", "additive", "concat", "location"]


def heads(rows):
    """One batch row, one head: ``[[...], ...]`` to ``[1 1 length width]``."""
    return torch.tensor(rows, dtype=torch.float64)[None, None]


class TestByHand:
    @both_paths
    def test_log_weights(self, need_weights, close):
        # Scores ln 1, ln 2, ln 5: weights 1/8, 2/8, 5/8.
        key = heads([[0.0], [math.log(2)], [math.log(5)]])
        value = heads([[8.0, 0.0], [0.0, 8.0], [8.0, 8.0]])
        result = attend(heads([[1.0]]), key, value, score=dot, need_weights=need_weights)
        close(result.output, heads([[1.0 + 5.0, 2.0 + 5.0]]))
        if need_weights:
            close(result.weights, heads([[1 / 8, 2 / 8, 5 / 8]]))
        else:
            assert result.weights is None

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
    @pytest.mark.parametrize(
        ("i", "causal", "rows"), [(1, True, None), (7, True, None), (7, False, None), (1, False, 6)]
    )
    def test_heads_that_are_read_where_they_lie_give_the_bits_of_copies(self, dtype, i, causal, rows, monkeypatch):
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
    def test_empty_inputs(self, name, sizes, causal, need_weights):
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
    def test_nothing_that_is_handed_in_is_changed(self, need_weights):
        tensors = [torch.randn(2, 3, 5, 7) for _ in range(3)]
        mask, bias = torch.rand(5, 5) < 0.5, torch.randn(3, 1, 5)
        before = [x.clone() for x in (*tensors, mask, bias)]
        attend(*tensors, mask=mask, bias=bias, causal=True, need_weights=need_weights)
        assert all(torch.equal(x, y) for x, y in zip((*tensors, mask, bias), before, strict=True))

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("project", [True, False])
    @pytest.mark.parametrize("score", SCORES)
    def test_autocast(self, score, project, dtype):
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
    def test_no_nan_arises_even_on_the_way(self, with_bias, need_weights):
        query, key, value = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
        bias = torch.randn(5, 5, requires_grad=True) if with_bias else None
        mask = torch.rand(5, 5) < 0.5
        mask[2] = False
        with torch.autograd.detect_anomaly():
            attend(query, key, value, mask=mask, bias=bias, need_weights=need_weights).output.sum().backward()


class TestWhichPath:
    @pytest.fixture
    def kernel(self, monkeypatch):
        """What PyTorch's fused kernel was called with."""
        calls = []
        run = torch.nn.functional.scaled_dot_product_attention

        def recorded(*args, **kwargs):
            calls.append({"attn_mask": args[3], **kwargs})
            return run(*args, **kwargs)

        monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", recorded)
        return calls

    @pytest.mark.parametrize("need_weights", [False, True])
    @pytest.mark.parametrize("name", SCORES)
    def test_dot_products_alone_are_fused(self, name, need_weights, kernel):
        x = torch.randn(2, 3, 5, 8)
        attend(x, x, x, score=make_score(name, 8, 8), need_weights=need_weights)
        assert len(kernel) == (name in ("dot", "scaled_dot", "general") and not need_weights)

    def test_plain_causality_is_left_to_the_kernel(self, kernel):
        x = torch.randn(2, 3, 5, 8)
        attend(x, x, x, causal=True)  # as many keys as queries: no mask is built
        attend(x[:, :, -1:], x, x, causal=True)  # the one query of a cached step: there is nothing to mask
        assert [(call["is_causal"], call["attn_mask"]) for call in kernel] == [(True, None), (False, None)]


@both_paths
def test_kept_weights_are_scaled_and_the_others_are_zero(need_weights):
    """With the identity as values, the output is the dropped weights themselves; returned are those before."""
    zeros, value = torch.zeros(400, 1, 8, 4), torch.eye(8).expand(400, 1, 8, 8)
    result = attend(zeros, zeros, value, dropout_p=0.25, need_weights=need_weights)
    assert result.weights is None or result.weights.eq(1 / 8).all()
    torch.testing.assert_close(result.output.unique(), torch.tensor([0.0, 1 / 8 / 0.75]))


def test_normalised_queries_and_keys_have_root_mean_square_one(close):
    layer = MultiHeadAttention(8, num_heads=2, qk_norm=True)
    key = layer.project_context(100 * torch.randn(3, 5, 8)).key
    close(key.square().mean(-1), torch.ones(3, 2, 5))
    x = torch.randn(3, 5, 8)
    with torch.no_grad():
        before = layer(x).output
        layer.q_proj.weight *= 100
        layer.q_proj.bias *= 100
    close(layer(x).output, before)  # the length of a query no longer counts


@pytest.mark.parametrize("score", [dot, scaled_dot])
@pytest.mark.parametrize("value", [1.0, 100.0, 200.0])
@pytest.mark.parametrize("bias", [None, 3.0, 1e5, -1e5])
def test_both_paths_agree_in_float16_where_scores_overflow(score, value, bias):
    query, key = (torch.full((1, 2, 3, 64), value, dtype=torch.float16) for _ in range(2))
    key[..., 1, :] = value / 2
    values = torch.randn(1, 2, 3, 4).half()
    added = None if bias is None else torch.tensor([0.0, bias, bias / 2]).expand(1, 1, 3, 3)
    mask = torch.tensor([True, True, False]).expand(1, 1, 3, 3)
    for allowed in (None, mask):
        fused = attend(query, key, values, score=score, bias=added, mask=allowed).output
        reference = attend(query, key, values, score=score, bias=added, mask=allowed, need_weights=True).output
        assert fused.isfinite().all()
        torch.testing.assert_close(fused, reference, rtol=1e-2, atol=1e-2)


def test_a_layer_checks_once_what_attend_checks_at_every_call(monkeypatch):
    calls = []
    check = core.check_vectors

    def counted(*arguments):
        calls.append("check")
        check(*arguments)

    for module in (core, layer_module):
        monkeypatch.setattr(module, "check_vectors", counted)
    layer = MultiHeadAttention(8, num_heads=2)
    layer(torch.randn(2, 5, 8), need_weights=True)
    assert not calls
    attend(*[torch.randn(2, 3, 5, 7)] * 3)
    assert calls == ["check"]


def test_the_location_score_is_cited_by_one_equation():
    """Luong et al. 2015 number general, dot and concat in equation 7, location in equation 8."""
    docs = Path(__file__).parents[2] / "docs"
    pages = [docs / "concepts.md", docs / "ko" / "concepts.md", *sorted((docs / "notebooks").glob("concepts*.ipynb"))]
    cited = [str(Location.__doc__), *(page.read_text(encoding="utf-8") for page in pages)]
    found = [re.findall(r"(?:section 3\.1, equation|3\.1절, 식) (\d+)", text) for text in cited]
    assert found == [["8"]] * 5
