"""Law 9: compiled, exported, and under torch.func, everything gives the same numbers."""

import pytest
import torch
from torch import nn
from zoo import shrink

from selfattn.attention import (
    Alibi,
    DeltaAttention,
    LinearAttention,
    MultiHeadAttention,
    RelativeBias,
    Retention,
    Rotary,
    make_normalizer,
)
from selfattn.layers import FeedForward, TransformerBlock
from selfattn.models.build import build
from selfattn.models.families import PRESETS, get_preset

POSITIONS = {"none": None, "rotary": Rotary(4), "alibi": Alibi(2), "t5": RelativeBias(2)}
NORMALIZERS = ["softmax1", "softmax_sink", "sparsemax", "entmax15", "sigmoid"]
WITH_A_STATE = {
    "linear": lambda: LinearAttention(8, num_heads=2),
    "linear grouped": lambda: LinearAttention(8, num_heads=2, num_kv_heads=1),
    "retention": lambda: LinearAttention(8, num_heads=2, position=Retention(2)),
    "alibi": lambda: LinearAttention(8, num_heads=2, position=Alibi(2)),
    "delta": lambda: DeltaAttention(8, num_heads=2),
    "delta grouped": lambda: DeltaAttention(8, num_heads=2, num_kv_heads=1),
}


def few(names, *chosen):
    """All names; those that are not chosen are slow."""
    return [name if name in chosen else pytest.param(name, marks=pytest.mark.slow) for name in names]


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


def assert_compiles(function, *lengths, make):
    """One graph for each length, or for any."""
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    for length in lengths:
        inputs = make(length)
        torch.testing.assert_close(compiled(*inputs), function(*inputs))


@pytest.mark.parametrize("part", few([*POSITIONS, *NORMALIZERS], "rotary"))
def test_a_layer_compiles_to_one_graph_for_any_length(part):
    layer = layer_of(part)

    def both(x, mask):
        return layer(x, causal=True).output, layer(x, mask=mask).output

    assert_compiles(both, 3, 5, make=lambda j: (torch.randn(2, j, 8), torch.rand(2, 1, 1, j) < 0.6))


def test_normalizers_compile_to_one_graph_for_any_length():
    parts = [make_normalizer(name, 2) for name in NORMALIZERS]
    assert_compiles(lambda scores: [part(scores) for part in parts], 5, 7, make=lambda j: (torch.randn(2, 2, 3, j),))


@pytest.mark.parametrize("kind", few(WITH_A_STATE, "retention", "delta grouped"))
def test_a_layer_with_a_state_compiles_to_one_graph_for_any_length(kind):
    layer = WITH_A_STATE[kind]().eval()

    def advanced(x):
        return layer.advance(x, None, causal=True)[0].output

    assert_compiles(advanced, 5, 4, make=lambda i: (torch.randn(3, i, 8),))


def test_a_block_compiles_to_one_graph():
    torch.compiler.reset()
    attention = MultiHeadAttention(8, num_heads=2, normalize="softmax1")  # the kernel is given a key of zeros
    block = TransformerBlock(8, self_attn=attention, feed_forward=FeedForward(8, 5)).eval()
    compiled, x = torch.compile(block, fullgraph=True, backend="eager"), torch.randn(2, 3, 8)
    for mode in (torch.enable_grad(), torch.inference_mode()):
        with mode:
            torch.testing.assert_close(compiled(x, causal=True).x, block(x, causal=True).x)


@pytest.mark.parametrize("position", few(POSITIONS, "rotary"))
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
