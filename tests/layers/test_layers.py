"""Layers, dropout and recurrent stacks; first values of weights, also of models that were built without memory."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from zoo import VARIANTS

from selfattn.attention import Learned, MultiHeadAttention, Sinusoidal
from selfattn.layers import FeedForward, RecurrentStack, TokenEmbedding, TransformerBlock, initialise, reverse_padded
from selfattn.layers.transformer import Dropout
from selfattn.models.build import build
from selfattn.models.families import PRESETS, DecoderOnlyConfig, EncoderDecoderConfig, TransformerConfig
from selfattn.registry import POSITIONS
from selfattn.streams import generator


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_feed_forward_drops_inside():
    block = FeedForward(3, 5, dropout=0.5)
    nn.init.zeros_(block.fc2.weight)
    x = torch.ones(2, 7, 3)
    assert torch.equal(block(x), block.fc2.bias.expand(2, 7, 3))  # what comes after fc2 is not dropped
    nn.init.ones_(block.fc2.weight)
    assert not torch.equal(block(x), block(x))
    assert torch.equal(block.eval()(x), block(x))


def test_embedding_scales_and_adds_positions():
    """Rows (1, 2), (3, 4) times sqrt(4), plus the sines of positions 0 and 5."""
    table = nn.Embedding(3, 4)
    with torch.no_grad():
        table.weight.copy_(torch.arange(12.0).reshape(3, 4))
    sines = Sinusoidal(4)
    embed = TokenEmbedding(table, sines, scale=True)
    ids = torch.tensor([[1, 2]])
    torch.testing.assert_close(embed(ids), 2 * table.weight[ids] + sines(torch.tensor([0, 1])))
    places = torch.tensor([[0, 5]])
    torch.testing.assert_close(embed(ids, places), 2 * table.weight[ids] + sines(places))
    assert torch.equal(TokenEmbedding(table)(ids), table.weight[ids])
    assert TokenEmbedding(table, Learned(7, 4)).double()(ids).dtype == torch.float64


@pytest.mark.parametrize("norm_first", [True, False])
def test_dropout_is_on_every_part_and_not_on_the_residual(norm_first):
    """With parts that return nothing there is nothing to drop; with any one of them alive there is."""
    own, cross = (MultiHeadAttention(12, num_heads=3) for _ in range(2))
    settings = {"self_attn": own, "cross_attn": cross, "feed_forward": FeedForward(12, 17), "norm_first": norm_first}
    block = TransformerBlock(12, **settings, dropout=0.5).double()
    x = draw(2, 7, 12)
    memory = block.project_memory(draw(2, 11, 12))
    lasts = [block.self_attn.out_proj, cross.out_proj, block.feed_forward.fc2]

    def is_random():
        return not torch.equal(block(x, memory=memory).x, block(x, memory=memory).x)

    for alive in (None, *lasts):
        for last in lasts:
            nn.init.normal_(last.weight) if last is alive else nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        assert is_random() == (alive is not None)
    block.eval()
    assert not is_random()


# Dropout: the share, the scale, the gradient, the seed


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_seed_decides_what_falls_and_the_rest_is_scaled(p, dtype):
    torch.manual_seed(0)
    count = 200_003  # not a multiple of four
    layer, x = Dropout(p), torch.full((count,), 2.0, dtype=dtype, requires_grad=True)
    dropped = layer(x)
    dropped.sum().backward()
    kept = dropped != 0
    # Within five standard errors of a binomial share.
    assert abs(kept.double().mean().item() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / count)
    scale = torch.tensor(2**16 / (2**16 - round(p * 2**16)), dtype=dtype)
    assert (dropped[kept] == 2 * scale).all()
    assert torch.equal(2 * x.grad, dropped)
    assert dropped.dtype == dtype
    torch.manual_seed(0)
    assert torch.equal(layer(x), dropped)
    assert not torch.equal(layer(x), dropped)
    assert layer.eval()(x) is x


def test_the_ends():
    x = torch.randn(7)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(7))
    assert Dropout(0.3)(torch.ones(0, 3)).shape == (0, 3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Dropout(1.5)
    assert isinstance(Dropout(0.3), nn.Dropout)


@pytest.fixture
def drawn(monkeypatch):
    """How many numbers were drawn and from where; each 16-bit number comes once."""
    seen = []

    def every(self, low, high):
        seen.append((self.numel(), low, high))
        return self.copy_(torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.int64)[: self.numel()])

    monkeypatch.setattr(torch.Tensor, "random_", every)
    return seen


@pytest.mark.parametrize(("p", "fallen"), [(2**-16, 1), (3 * 2**-16, 3), (0.25, 2**14), (1 - 2**-16, 2**16 - 1)])
def test_of_all_numbers_that_can_be_drawn_p_fall(p, fallen, drawn):
    dropped = Dropout(p)(torch.ones(2**16, dtype=torch.float64))
    assert int((dropped == 0).sum()) == fallen
    assert dropped.sum().item() == pytest.approx(2**16)  # the mean is kept
    assert drawn == [(2**14, -(2**63), 2**63 - 1)]


# Recurrent stacks: padding, states, dropout


LENGTHS = [5, 7, 2]
MASK = torch.arange(7) < torch.tensor(LENGTHS)[:, None]


def make(cell, **settings):
    torch.manual_seed(0)
    return RecurrentStack(3, 5, cell=cell, **settings).double()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_outputs_at_padding_are_zero(cell):
    """All else that an encoder reads: tests/parity/test_rnn_formulas.py."""
    outputs, _ = make(cell, num_layers=2, direction="both").read(draw(3, 7, 3), MASK)
    assert ((outputs != 0).any(dim=-1) == MASK).all()


@pytest.mark.parametrize("pieces", [[2, 1, 4], [1] * 7])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_goes_on_from_a_state(close, cell, pieces):
    """Reading 7 tokens is reading some of them, each time from the state that the last left; gradients too."""
    stack = make(cell, num_layers=2)
    x = draw(3, 7, 3)
    results = []
    for sizes in ([7], pieces):
        stack.zero_grad()
        state, read = None, []
        for piece in x.split(sizes, dim=1):
            outputs, state = stack(piece, state)
            read.append(outputs)
        joined = torch.cat(read, dim=1)
        made = [joined, *(part for layer in state for part in layer)]
        sum(part.square().sum() for part in made).backward()
        results.append([*made, *(parameter.grad.clone() for parameter in stack.parameters())])
    for whole, in_pieces in zip(*results, strict=True):
        close(in_pieces, whole)


def test_dropout_is_between_layers_only(close):
    """Not before the first layer, not after the last, and another mask for each layer."""
    x, dropped = draw(3, 7, 3), {"dropout": 0.5}
    torch.manual_seed(0)
    one, deep = make("lstm", **dropped), make("lstm", num_layers=2, **dropped)
    first, read = one(x)[0], one.read(x, MASK)[0]
    one.eval()
    close(first, one(x)[0])
    close(read, one.read(x, MASK)[0])
    for run in (lambda: deep(x)[0], lambda: deep.read(x, MASK)[0]):
        deep.train()
        assert not torch.equal(run(), run())
        assert (run()[MASK] != 0).all()
        deep.eval()
        assert torch.equal(run(), run())


@settings(max_examples=10)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.sampled_from([(), (2,), (3, 2)]))
def test_reversing_keeps_padding_and_undoes_itself(lengths, tail):
    x = draw(len(lengths), 7, *tail)
    reversed_x = reverse_padded(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        assert torch.equal(reversed_x[row, :length], x[row, :length].flip(0))
        assert torch.equal(reversed_x[row, length:], x[row, length:])
    assert torch.equal(reverse_padded(reversed_x, torch.tensor(lengths)), x)


# First values


T5 = TransformerConfig(position="t5", norm="rms", activation="swiglu", qk_norm=True, num_layers=2)
CONFIGS = {name: preset.config for name, preset in PRESETS.items()} | {
    "t5": EncoderDecoderConfig(encoder=T5, decoder=T5, share_embeddings=True, tie_output=True),
    "learned": DecoderOnlyConfig(stack=TransformerConfig(position="learned", score="general"), tie_output=True),
}


def is_uniform(weight, bound):
    """Within the bound, reaching near it, and as wide and as central as a uniform draw of this size has to be."""
    assert weight.abs().max() <= bound
    assert weight.abs().max() > bound * 0.9 ** (200 / weight.numel())
    assert abs(float(weight.mean())) < 5 * bound / math.sqrt(3 * weight.numel())
    if weight.numel() >= 200:
        assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.15)


def is_xavier(weight):
    is_uniform(weight, math.sqrt(6 / sum(weight.shape)))


def check_embedding(module, name, weight):
    rows = weight
    if module.padding_idx is not None:
        assert (weight[module.padding_idx] == 0).all()
        rows = torch.cat([weight[: module.padding_idx], weight[module.padding_idx + 1 :]])
    std = module.embedding_dim**-0.5
    assert float(rows.std()) == pytest.approx(std, rel=5 / math.sqrt(2 * rows.numel()))
    assert abs(float(rows.mean())) < 5 * std / math.sqrt(rows.numel())
    assert (rows != 0).all()


def gates(module, parameter):
    count = 4 if isinstance(module, nn.LSTM) else 3
    assert len(parameter) == count * module.hidden_size
    return parameter.chunk(count)


def check_recurrent(module, name, parameter):
    """The forget gate is the second; PyTorch adds two biases, so one of them holds the 1."""
    for number, gate in enumerate(gates(module, parameter)):
        if name.startswith("weight_ih"):
            is_xavier(gate)
        elif name.startswith("weight_hh"):
            torch.testing.assert_close(gate @ gate.T, torch.eye(len(gate)), rtol=0, atol=1e-5)
        else:
            is_forget = isinstance(module, nn.LSTM) and number == 1 and name.startswith("bias_ih")
            assert (gate == float(is_forget)).all()


def check_norm(module, name, parameter):
    assert (parameter == float(name == "weight")).all()  # zero are the biases, of norms and of linear layers


# One entry for each row of the docstring's table, in its order: the kinds of module, the names, what must hold.
ROWS = [
    ((nn.Linear,), "weight", lambda module, name, weight: is_xavier(weight)),
    ((nn.Linear,), "bias", check_norm),
    ((nn.Embedding,), "weight", check_embedding),
    ((nn.LSTM, nn.GRU), "", check_recurrent),
    ((nn.LayerNorm, nn.RMSNorm), "", check_norm),
]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_has_one_row_and_keeps_it(name):
    model = build(CONFIGS[name], vocab_size=64, pad_id=3, seed=0)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    seen = set()
    for module in model.modules():
        for parameter_name, parameter in module.named_parameters(recurse=False):
            tied = isinstance(module, nn.Linear) and id(parameter) in embeddings
            rows = [
                check
                for kinds, prefix, check in ROWS
                if isinstance(module, kinds) and parameter_name.startswith(prefix)
            ]
            assert len(rows) == 1, f"{type(module).__name__}.{parameter_name}"
            if not tied:
                rows[0](module, parameter_name, parameter.detach())
            seen.add(id(parameter))
    assert seen == {id(parameter) for parameter in model.parameters()}


def test_an_output_before_its_embedding_is_still_an_embedding():
    """The order in which modules were made does not decide."""
    model = nn.ModuleDict({"output": nn.Linear(32, 64), "table": nn.Embedding(64, 32, padding_idx=0)})
    model["output"].weight = model["table"].weight
    initialise(model, torch.Generator().manual_seed(0))
    check_embedding(model["table"], "weight", model["table"].weight.detach())


class Own(nn.Module):
    """A user's module: a parameter by a rule of its own, and modules of the table within."""

    def __init__(self):
        super().__init__()
        self.scale, self.inner, self.norm = nn.Parameter(torch.ones(5)), nn.Linear(40, 40), nn.LayerNorm(3)

    def initialise(self, generator):
        self.scale.copy_(torch.rand(5, generator=generator))


def test_a_rule_of_its_own_is_for_its_own_parameters():
    module = Own()
    before = torch.get_rng_state()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(7.0)
    initialise(module, torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(module.scale.detach(), torch.rand(5, generator=torch.Generator().manual_seed(0)))
    is_xavier(module.inner.weight.detach())
    assert (module.inner.bias == 0).all()
    assert (module.norm.weight == 1).all()


def tensors(module):
    """Return all parameters and buffers by name, those too that no state dict has."""
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))


def filled(make, seed):
    """Build on the meta device and fill; what was not filled is NaN."""
    with torch.device("meta"):
        module = make()
    module.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in tensors(module).values():
            tensor.fill_(torch.nan)
    initialise(module, generator(seed, "init"))
    return module


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_seed_decides_everything_and_nothing_else_does(variant):
    """Also of a model that was built without memory, and what is shared stays so."""
    make = partial(build, VARIANTS[variant], vocab_size=7)
    before = torch.get_rng_state()
    usual = make(seed=3)
    assert torch.equal(torch.get_rng_state(), before)  # dropout, say, does not feel how large the model is
    torch.manual_seed(1)
    model, other = filled(make, 3), tensors(make(seed=4))
    expected = tensors(usual)
    assert tensors(model).keys() == expected.keys()
    for name, tensor in tensors(model).items():
        assert torch.equal(tensor, expected[name]), name
        assert not (isinstance(tensor, nn.Parameter) and tensor.dim() > 1 and torch.equal(tensor, other[name])), name
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in usual.named_parameters()]
    ids, mask = torch.tensor([[5, 6, 2]]), torch.ones(1, 3, dtype=torch.bool)
    assert torch.equal(model.eval()(ids, ids, source_mask=mask), usual.eval()(ids, ids, source_mask=mask))


def test_these_models_have_every_position():
    """The project's own; tests of plugins register others."""
    own = [name for name, part in POSITIONS.items() if part.__module__.startswith("selfattn.")]
    assert [name for name in own if f"position='{name}'" not in str(VARIANTS)] == []
