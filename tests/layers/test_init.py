"""First values of weights, also of what is built on the meta device, emptied and filled: parts and every model."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from zoo import VARIANTS

from selfattn.layers import initialise
from selfattn.models.build import build
from selfattn.models.families import PRESETS, DecoderOnlyConfig, EncoderDecoderConfig, TransformerConfig
from selfattn.registry import POSITIONS
from selfattn.streams import generator

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
