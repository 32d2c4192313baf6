"""``attend`` by hand, in both paths and dtypes; scores in blocks, whose memory is measured; normalizers.

Laws and formulas: tests/properties, tests/parity; derivatives: tests/gradients.
"""

import re
from pathlib import Path

import pytest
import torch
from memory import Memory
from torch import Tensor

from selfattn.attention import (
    Additive,
    Alibi,
    Concat,
    Location,
    MultiHeadAttention,
    Normalizer,
    attend,
    core,
    dot,
    entmax15,
    make_normalizer,
    make_score,
    scaled_dot,
    sigmoid,
    softmax1,
    sparsemax,
)
from selfattn.attention import layer as layer_module
from selfattn.attention.scores import summed_tanh
from selfattn.models.config import config_from_dict, config_to_dict, override
from selfattn.models.families import get_preset
from selfattn.registry import NORMALIZERS

both_paths = pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])
SCORES = ["dot", "scaled_dot", "general", "additive", "concat", "location"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("i", "causal", "rows"), [(1, True, None), (7, True, None), (7, False, None), (1, False, 6)])
def test_heads_that_are_read_where_they_lie_give_the_bits_of_copies(dtype, i, causal, rows, monkeypatch):
    query, key, value = torch.randn(2, 6, i, 8), torch.randn(2, 2, 131, 8), torch.randn(2, 2, 131, 8)
    query, key, value = (one.to(dtype) for one in (query, key, value))
    bias = None if rows is None else torch.randn(rows, i, 131).to(dtype)
    with torch.inference_mode():
        copies = attend(query, *(one.repeat_interleave(3, dim=1) for one in (key, value)), bias=bias, causal=causal)
        monkeypatch.setattr(Tensor, "repeat_interleave", None)  # no copies are made
        found = attend(query, key, value, bias=bias, causal=causal)
    assert torch.equal(found.output, copies.output)


@both_paths
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(2, 5, 0), (2, 0, 7), (0, 5, 7)], ids=str)
@pytest.mark.parametrize("name", ["dot", "concat", "location"])
def test_empty_inputs(name, sizes, causal, need_weights):
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
        gradients = torch.autograd.grad(output.sum(), (query, key, value), materialize_grads=True)
        assert not any(gradient.any() for gradient in gradients)


@both_paths
def test_nothing_that_is_handed_in_is_changed(need_weights):
    tensors = [torch.randn(2, 3, 5, 7) for _ in range(3)]
    mask, bias = torch.rand(5, 5) < 0.5, torch.randn(3, 1, 5)
    before = [x.clone() for x in (*tensors, mask, bias)]
    attend(*tensors, mask=mask, bias=bias, causal=True, need_weights=need_weights)
    assert all(torch.equal(x, y) for x, y in zip((*tensors, mask, bias), before, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("score", SCORES)
def test_autocast(score, project, dtype):
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
def test_no_nan_arises_even_on_the_way(with_bias, need_weights):
    query, key, value = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
    bias = torch.randn(5, 5, requires_grad=True) if with_bias else None
    mask = torch.rand(5, 5) < 0.5
    mask[2] = False
    with torch.autograd.detect_anomaly():
        attend(query, key, value, mask=mask, bias=bias, need_weights=need_weights).output.sum().backward()


@pytest.fixture
def kernel(monkeypatch):
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
def test_dot_products_alone_are_fused(name, need_weights, kernel):
    x = torch.randn(2, 3, 5, 8)
    attend(x, x, x, score=make_score(name, 8, 8), need_weights=need_weights)
    assert len(kernel) == (name in ("dot", "scaled_dot", "general") and not need_weights)


def test_plain_causality_is_left_to_the_kernel(kernel):
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


# Additive and concat scores never hold [b h i j a] whole, forward or backward

# All of [b h i j a] in float32, and a block that is a 64th part of it.
BATCH, HEADS, QUERIES, KEYS, WIDTH = 1, 2, 127, 131, 64
WHOLE = 4 * BATCH * HEADS * QUERIES * KEYS * WIDTH
BLOCK_ELEMENTS = WHOLE // 4 // 64


@pytest.mark.parametrize("kind", [Additive, Concat])
def test_the_largest_tensor_and_the_peak_stay_far_below_the_whole(kind):
    score = kind(WIDTH)
    score.block_elements = BLOCK_ELEMENTS
    query, key = (torch.randn(BATCH, HEADS, length, WIDTH, requires_grad=True) for length in (QUERIES, KEYS))
    mask = torch.rand(KEYS) < 0.8
    with Memory() as memory:
        attend(query, key, key, score=score, mask=mask).output.square().sum().backward()
    scores, inputs = WHOLE // WIDTH, 4 * BATCH * HEADS * (QUERIES + KEYS) * WIDTH
    assert memory.largest <= max(4 * BLOCK_ELEMENTS, scores, inputs) < WHOLE / 60
    # One block, and what attention holds anyway: a few tensors like the scores, a few like the inputs.
    assert memory.peak <= 4 * BLOCK_ELEMENTS + 4 * scores + 4 * inputs < WHOLE / 6


@pytest.mark.parametrize(
    ("sizes", "block_elements", "largest", "peak"),
    [
        ((2, 3, 5, 11, 7), 1, max(11 * 7, 2 * 3 * 5 * 11), 10),  # a query of one head is the smallest block
        # Two blocks of four heads, in one memory: one block of many has a million elements.
        ((1, 8, 64, 64, 64), 2**21 - 1, 2**20, 2.1),
    ],
)
def test_a_block_is_written_anew(sizes, block_elements, largest, peak, close):
    b, h, i, j, width = sizes
    query, key, v = torch.randn(b, h, i, width), torch.randn(b, h, j, width), torch.randn(width)
    with Memory(ignore=(query, key, v)) as memory:
        scores = summed_tanh(query, key, v, block_elements=block_elements)
    assert memory.largest == 4 * largest
    assert memory.peak < peak * memory.largest
    close(scores, (query.unsqueeze(-2) + key.unsqueeze(-3)).tanh() @ v)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_many_blocks_are_summed_in_float32(dtype):
    # 1024 queries, each of which adds 1/4 to the gradient of one key: 256. In bfloat16 the sum would stop at 64.
    query, key = torch.zeros(1, 1, 1024, 1, dtype=dtype), torch.zeros(1, 1, 1, 1, dtype=dtype, requires_grad=True)
    v = torch.full((1,), 1 / 4, dtype=dtype)
    summed_tanh(query, key, v, block_elements=1).sum().backward()
    assert key.grad.item() == 256


# Normalizers

NAMES = ["softmax", "softmax1", "softmax_sink", "sparsemax", "entmax15", "sigmoid"]
every = pytest.mark.parametrize("name", NAMES)


def layer_of(name):
    layer = MultiHeadAttention(8, num_heads=2, normalize=name).eval()
    with torch.no_grad():
        for parameter in layer.normalize.parameters():
            parameter += torch.tensor([0.5, -0.7])
    return layer


def test_the_list_of_normalizers_is_this():
    built_in = [name for name in NORMALIZERS if NORMALIZERS.plugin_of(name) is None]
    built_in = [name for name in built_in if name != "relu_share"]  # of an example in a docstring, which may come first
    assert built_in == [*NAMES, "none"]  # none: linear attention, which has no distribution
    assert all(f"``{name}``" in str(MultiHeadAttention.__doc__) for name in NAMES)


def test_values_by_hand():
    scores = torch.tensor([1.0, 3.0]).log()
    assert softmax1(scores).tolist() == pytest.approx([1 / 5, 3 / 5])
    assert sigmoid(scores).tolist() == pytest.approx([1 / (1 + 2), 3 / (3 + 2)])
    assert sparsemax(torch.tensor([0.6, 0.4, 0.1, -9.0])).tolist() == pytest.approx([1.7 / 3, 1.1 / 3, 0.2 / 3, 0])
    # (1.2 / 2 - tau)^2 + (0 - tau)^2 = 1 has the solution tau = 0.3 - sqrt(0.41).
    root = 0.41**0.5
    assert entmax15(torch.tensor([1.2, 0.0, -9.0])).tolist() == pytest.approx([(0.3 + root) ** 2, (root - 0.3) ** 2, 0])


@every
def test_nan_in_a_query_is_not_hidden(name):
    query, key = torch.tensor([[[[torch.nan], [1.0]]]]), torch.ones(1, 1, 3, 1)
    output = attend(query, key, key, normalize=make_normalizer(name), need_weights=True).output.flatten()
    assert output.isnan().tolist() == [True, False]


@every
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_normalizers_run_in_float32(name, dtype):
    class Watched(Normalizer):
        def forward(self, scores):
            assert scores.dtype == torch.float32
            weights = make_normalizer(name, 2)(scores)
            assert weights.dtype == torch.float32
            return weights

    layer = layer_of(name)
    layer.normalize = Watched()
    x = torch.randn(3, 5, 8)
    with torch.autocast("cpu", dtype):
        assert layer(x, causal=True).output.isfinite().all()


def test_large_scores_and_a_bias_beyond_float16():
    query = torch.full((1, 1, 1, 2), 100.0, dtype=torch.float16)
    key = torch.tensor([[[[100.0, 100.0], [-100.0, 1.0]]]], dtype=torch.float16)
    for name in NAMES:
        attended = attend(query, key, key, normalize=make_normalizer(name), bias=torch.tensor([1e6, 0.0]))
        assert torch.equal(attended.output, key[:, :, :1]), name


def test_a_setting_is_in_the_record_where_it_differs_from_the_default():
    config = get_preset("transformer").config
    assert "normalize" not in config_to_dict(config)["encoder"]  # hashes of published plans cover the record
    changed = override(config, {"encoder.normalize": "entmax15"})
    assert config_to_dict(changed)["encoder"]["normalize"] == "entmax15"
    assert config_from_dict(config_to_dict(changed)) == changed
