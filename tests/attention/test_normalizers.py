"""Normalizers by hand, their derivatives, under autocast, and in a layer. Laws and formulas: tests/properties."""

import pytest
import torch
from torch.autograd import forward_ad, gradcheck

from selfattn.attention import (
    MultiHeadAttention,
    Normalizer,
    attend,
    entmax15,
    make_normalizer,
    sigmoid,
    softmax1,
    sparsemax,
)
from selfattn.models.config import config_from_dict, config_to_dict, override
from selfattn.models.families import get_preset
from selfattn.registry import NORMALIZERS

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
def test_gradients_also_the_second(name):
    layer = layer_of(name).double()
    scores = torch.randn(1, 2, 3, 5, dtype=torch.float64)
    scores[..., 4] = -torch.inf
    shown = torch.isfinite(scores)

    def weights(x):
        return layer.normalize(torch.where(shown, x, -torch.inf))

    x = scores.nan_to_num(neginf=0.0).requires_grad_()
    assert gradcheck(weights, [x])
    assert torch.autograd.gradgradcheck(weights, [x])


@every
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # PyTorch's own use of it, in forward mode
def test_derivatives_in_forward_mode(name):
    layer, x = layer_of(name), torch.randn(3, 5, 8)
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, x), causal=True).output).tangent
    _, expected = torch.autograd.functional.jvp(lambda x: layer(x, causal=True, need_weights=True).output, x, x)
    torch.testing.assert_close(moved, expected)


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
