"""Law 9: compiled, exported, and under torch.func, everything gives the same numbers."""

import pytest
import torch
from torch import nn
from zoo import shrink

from selfattn.attention import Alibi, MultiHeadAttention, RelativeBias, Rotary
from selfattn.layers import FeedForward, TransformerBlock
from selfattn.models.build import build
from selfattn.models.families import PRESETS, get_preset

POSITIONS = {"none": None, "rotary": Rotary(4), "alibi": Alibi(2), "t5": RelativeBias(2)}
NORMALIZERS = ["softmax1", "softmax_sink", "sparsemax", "entmax15", "sigmoid"]
few_positions = [name if name == "rotary" else pytest.param(name, marks=pytest.mark.slow) for name in POSITIONS]


def layer_of(part):
    settings = {"position": POSITIONS[part]} if part in POSITIONS else {"normalize": part}
    layer = MultiHeadAttention(8, num_heads=2, **settings).eval()
    with torch.no_grad():
        for parameter in layer.normalize.parameters():
            parameter += torch.tensor([0.5, -0.7])
    return layer


class Causal(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x, causal=True).output


@pytest.mark.parametrize("part", [*few_positions, *NORMALIZERS])
def test_a_layer_compiles_to_one_graph_for_any_length(part):
    torch.compiler.reset()
    layer = layer_of(part)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    for length in (3, 5):
        x, mask = torch.randn(2, length, 8), torch.rand(2, 1, 1, length) < 0.6
        torch.testing.assert_close(compiled(x, causal=True).output, layer(x, causal=True).output)
        torch.testing.assert_close(compiled(x, mask=mask).output, layer(x, mask=mask).output)


def test_a_block_compiles_to_one_graph():
    torch.compiler.reset()
    block = TransformerBlock(8, self_attn=MultiHeadAttention(8, num_heads=2), feed_forward=FeedForward(8, 5)).eval()
    compiled, x = torch.compile(block, fullgraph=True, backend="eager"), torch.randn(2, 3, 8)
    for mode in (torch.enable_grad(), torch.no_grad(), torch.inference_mode()):
        with mode:
            torch.testing.assert_close(compiled(x, causal=True).x, block(x, causal=True).x)


@pytest.mark.parametrize("position", few_positions)
def test_a_layer_is_exported_for_any_length(position):
    model, dynamic = Causal(layer_of(position)), {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    program = torch.export.export(model, (torch.randn(2, 5, 8),), dynamic_shapes=(dynamic,)).module()
    for sizes in ((3, 7), (5, 11)):
        x = torch.randn(*sizes, 8)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS.names())
@torch._dynamo.config.patch(allow_rnn=True)  # pytest's monkeypatch would leave this option hidden afterwards
def test_a_model_compiles_to_one_graph(name):
    torch.compiler.reset()
    model = build(shrink(get_preset(name).config), vocab_size=11).eval()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    for s, t in ((3, 2), (5, 4)):
        source, target = torch.randint(3, 11, (2, s)), torch.randint(3, 11, (2, t))
        mask = torch.arange(s) < torch.tensor([[s], [2]])
        actual = compiled(source, target, source_mask=mask)
        torch.testing.assert_close(actual, model(source, target, source_mask=mask), rtol=1e-4, atol=1e-5)


def assert_like_autograd(module, inputs, **options):
    """The gradients of ``torch.func`` are those of autograd."""
    weights = dict(module.named_parameters())

    def loss(weights):
        output = torch.func.functional_call(module, weights, inputs, options)
        return getattr(output, "output", output).square().sum()

    expected = torch.autograd.grad(loss(weights), list(weights.values()), materialize_grads=True)
    for gradient, other in zip(torch.func.grad(loss)(weights).values(), expected, strict=True):
        torch.testing.assert_close(gradient, other)


@pytest.mark.parametrize("part", [*POSITIONS, *NORMALIZERS])
def test_torch_func(part):
    layer = layer_of(part)
    x, mask = torch.randn(3, 5, 8), torch.rand(3, 1, 5, 5) < 0.6
    rows = torch.func.vmap(lambda x, mask: layer(x[None], mask=mask[None]).output[0])(x, mask)
    torch.testing.assert_close(rows, layer(x, mask=mask).output)
    assert_like_autograd(layer, (x,), mask=mask)


@pytest.mark.parametrize("name", ["transformer", "rnn-attention", "bahdanau-gru"])
def test_a_model_under_torch_func(name):
    model = build(shrink(get_preset(name).config), vocab_size=11).eval()
    source, target = torch.randint(3, 11, (3, 5)), torch.randint(3, 11, (3, 4))
    mask = torch.arange(5) < torch.tensor([[5], [3], [2]])
    assert_like_autograd(model, (source, target), source_mask=mask)
    if name == "transformer":  # torch has no rule for its recurrent kernels
        rows = torch.func.vmap(lambda s, t, m: model(s[None], t[None], source_mask=m[None])[0])(source, target, mask)
        torch.testing.assert_close(rows, model(source, target, source_mask=mask), rtol=1e-4, atol=1e-5)
