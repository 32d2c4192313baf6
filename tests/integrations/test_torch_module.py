"""Our MultiheadAttention against PyTorch's: results, gradients, state dicts, inside PyTorch's encoder."""

import copy
import random

import pytest
import torch
from torch import nn

from selfattn.attention import Rotary, attend, make_score
from selfattn.integrations import torch as module
from selfattn.integrations.torch import MultiheadAttention

HIDE = float("-inf")


def random_case(seed):
    """PyTorch's module with random settings, its inputs and the arguments of one call."""
    choose = random.Random(seed)
    torch.manual_seed(seed)
    heads = choose.choice([1, 2, 3, 4])
    d, b, i, j = heads * choose.choice([1, 2, 3, 5]), *(choose.randint(1, 6) for _ in range(3))
    is_self, is_batched, batch_first = choose.random() < 0.4, choose.random() < 0.8, choose.random() < 0.5
    kdim, vdim = (None, None) if is_self else (choose.choice([None, 5]), choose.choice([None, 7]))
    j = i if is_self else j
    shares = {"bias": 0.7, "add_bias_kv": 0.3, "add_zero_attn": 0.3}
    kinds = {name: choose.random() < share for name, share in shares.items()}
    module = nn.MultiheadAttention(d, heads, **kinds, kdim=kdim, vdim=vdim, batch_first=batch_first)
    module.train(choose.random() < 0.5)
    b = b if is_batched else 1

    def tensor(length, width):
        return torch.randn(((b, length) if batch_first else (length, b)) + (width,) if is_batched else (length, width))

    query = tensor(i, d)
    inputs = [query] * 3 if is_self else [query, tensor(j, kdim or d), tensor(j, vdim or d)]
    padding = torch.rand((b, j) if is_batched else (j,)) < 0.3 if choose.random() < 0.5 else None
    mask = torch.rand((i, j) if choose.random() < 0.5 else (b * heads, i, j)) < 0.3 if choose.random() < 0.6 else None
    if choose.random() < 0.4:  # masks that are added to the scores
        padding = None if padding is None else torch.zeros(padding.shape).masked_fill(padding, HIDE)
        mask = None if mask is None else torch.randn(mask.shape).masked_fill(mask, HIDE)
    return module, inputs, {
        "key_padding_mask": padding,
        "attn_mask": mask,
        "need_weights": choose.random() < 0.6,
        "average_attn_weights": choose.random() < 0.5,
    }  # fmt: skip


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_results_and_gradients_are_pytorchs(first, close):
    for seed in range(first, first + 100):
        theirs, inputs, arguments = random_case(seed)
        ours = MultiheadAttention.from_torch(copy.deepcopy(theirs))
        expected, expected_weights = theirs(*inputs, **arguments)
        output, weights = ours(*inputs, **arguments)
        finite = ~expected.isnan()
        assert output.shape == expected.shape
        close(output[finite], expected[finite])
        assert not output.isnan().any()
        assert (weights is None) == (expected_weights is None)
        if weights is not None:
            close(weights[~expected_weights.isnan()], expected_weights[~expected_weights.isnan()])
        if finite.all():
            expected.square().sum().backward()
            output.square().sum().backward()
            parameters, expected_parameters = dict(ours.named_parameters()), dict(theirs.named_parameters())
            assert parameters.keys() == expected_parameters.keys()
            for name, parameter in expected_parameters.items():
                if parameter.grad is not None:
                    close(parameters[name].grad, parameter.grad)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("padded", [False, True])
def test_no_inference_kernel_of_pytorch_bypasses_it(padded, monkeypatch):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(3, 5, 8)
    padding = torch.arange(5) >= torch.tensor([[5], [3], [4]]) if padded else None
    with torch.no_grad():
        expected = encoder(x, src_key_padding_mask=padding)
    for each in encoder.layers:
        each.self_attn = MultiheadAttention.from_torch(each.self_attn)
    calls = []
    monkeypatch.setattr(module, "attend", lambda *args, **named: (calls.append(1), attend(*args, **named))[1])
    with torch.no_grad():
        output = encoder(x, src_key_padding_mask=padding)
    assert len(calls) == 2
    shown = ~padding if padding is not None else slice(None)
    torch.testing.assert_close(output[shown], expected[shown], rtol=1e-4, atol=1e-5)


def test_any_score_and_position():
    score, position = make_score("additive", 3, 3), Rotary(4)
    x = torch.randn(2, 5, 8)
    plain = MultiheadAttention(8, 2, batch_first=True)
    rotated = MultiheadAttention.from_torch(plain)
    rotated.position = position
    assert not torch.allclose(plain(x, x, x)[0], rotated(x, x, x)[0])
    module = MultiheadAttention(6, 2, batch_first=True, score=score)
    assert module(x[..., :6], x[..., :6], x[..., :6])[1].sum(-1).allclose(torch.ones(2, 5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_finite_mask_over_every_key_hides_none(dtype):
    """-1e9 would be minus infinity in float16, and a softmax over hidden keys alone NaN. Only the bias is left."""
    module = MultiheadAttention(6, 2, batch_first=True).to(dtype)
    nn.init.uniform_(module.out_proj.bias)
    x = torch.randn(2, 3, 6, dtype=dtype)
    mask = torch.full((3, 3), -1e9)
    output, weights = module(x, x, x, attn_mask=mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, dtype=dtype), rtol=0, atol=2e-3)
    torch.testing.assert_close(module(x, x, x, attn_mask=mask, need_weights=False)[0], output, rtol=0, atol=2e-3)
    output, weights = module(x, x, x, key_padding_mask=torch.ones(2, 3, dtype=torch.bool))
    torch.testing.assert_close(output, module.out_proj.bias.expand(2, 3, 6))
    assert not weights.any()


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("kind", ["attn_mask", "key_padding_mask"])
def test_nan_in_a_mask_is_not_hidden(kind, weights):
    module = MultiheadAttention(6, 2, batch_first=True)
    x, mask = torch.randn(1, 3, 6), torch.zeros(3, 3)
    mask[1, 1] = torch.nan
    output, _ = module(x, x, x, **{kind: mask if kind == "attn_mask" else mask[[1]]}, need_weights=weights)
    assert output.isnan().any(-1).tolist() == [[kind == "key_padding_mask", True, kind == "key_padding_mask"]]


@pytest.mark.parametrize("extra", [False, True])
def test_nan_that_no_query_sees_reaches_no_gradient(extra):
    module = MultiheadAttention(6, 2, batch_first=True, add_zero_attn=extra)
    torch.manual_seed(0)
    x, padding = torch.randn(2, 3, 6), torch.tensor([[False, False, True], [False, False, False]])

    def gradients(fill):
        memory = x.masked_fill(padding[..., None], fill)
        output, _ = module(x, memory, memory, key_padding_mask=padding, need_weights=False)
        return list(torch.autograd.grad(output.square().sum(), list(module.parameters())))

    for one, other in zip(gradients(3.0), gradients(torch.nan), strict=True):
        assert torch.equal(one, other)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_a_nested_batch_has_weights_too(batch_first, average):
    module = MultiheadAttention(6, 2, batch_first=batch_first)
    rows = [torch.randn(4, 6), torch.randn(2, 6)]
    nested = torch.nested.nested_tensor(rows)
    outputs, weights = module(nested, nested, nested, average_attn_weights=average)
    assert weights.shape == ((2, 4, 4) if average else (2, 2, 4, 4))
    assert not weights[1, ..., 2:, :].any()
    for row, output, found in zip(rows, outputs.unbind(), weights, strict=True):
        expected, alone = module(row, row, row, average_attn_weights=average)
        torch.testing.assert_close(output, expected)
        torch.testing.assert_close(found[..., : len(row), : len(row)], alone)
    with pytest.raises(ValueError, match="without a mask; pad it"):
        module(nested, nested, nested, key_padding_mask=torch.zeros(2, 4, dtype=torch.bool))


@pytest.mark.parametrize(("name", "sizes"), [
    ("key_padding_mask", (2, 4)), ("key_padding_mask", (1, 5)),  # the second would be that of every text
    ("attn_mask", (4, 5)), ("attn_mask", (1, 5)), ("attn_mask", (2, 5, 5)),  # the last as many as heads
])  # fmt: skip
def test_a_mask_of_another_shape_is_refused(name, sizes):
    x = torch.randn(2, 5, 6)
    module = MultiheadAttention(6, 2, batch_first=True)
    with pytest.raises(ValueError, match=f"MultiheadAttention: expected {name}"):
        module(x, x, x, **{name: torch.zeros(sizes, dtype=torch.bool)})
    with pytest.raises(TypeError, match=r"as bool, True = hidden, or numbers, got torch\.uint8"):
        module(x, x, x, key_padding_mask=torch.zeros(2, 5, dtype=torch.uint8))
