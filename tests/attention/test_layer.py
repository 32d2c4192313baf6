"""A layer: its steps lead to its output, projections can be replaced, rows may share a context, gates join heads."""

from dataclasses import replace

import pytest
import torch
from third_party import plugins
from torch import nn

from selfattn.attention import (
    Alibi,
    DeltaAttention,
    LinearAttention,
    MultiHeadAttention,
    RelativeBias,
    Rotary,
    attention_steps,
    key_mask,
    padding_mask,
)
from selfattn.models.build import build
from selfattn.models.inside import trace_model
from selfattn.registry import ATTENTIONS

__all__ = ["plugins"]


def test_what_replaces_a_projection_is_called():
    """Such as an adapter, which has no weight of its own name."""
    layer = MultiHeadAttention(12, 7, num_heads=3)
    x, context = torch.randn(2, 5, 12), torch.randn(2, 11, 7)
    expected = layer(x, context).output
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        setattr(layer, name, nn.Sequential(getattr(layer, name)))
    for mode in (torch.enable_grad(), torch.inference_mode()):
        with mode:
            assert torch.equal(layer(x, context).output, expected)


def test_rows_that_share_keys_on_purpose_are_as_if_each_had_its_own(close):
    layer = MultiHeadAttention(12, 7, num_heads=3)
    x, context = torch.randn(6, 5, 12), torch.randn(2, 11, 7)
    mask = key_mask(padding_mask(torch.tensor([11, 4]), 11))
    rows = torch.tensor([0, 0, 0, 1, 1, 1])
    bias = torch.randn(3, 1, 11)
    keys = replace(layer.project_context(context), shared_by=3)
    shared = layer(x, keys, mask=mask, bias=bias, need_weights=True)
    apart = layer(x, context[rows], mask=mask[rows], bias=bias, need_weights=True)
    close(shared.output, apart.output)
    close(shared.weights, apart.weights)


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("shared_by", [1, 3])
def test_what_join_makes_of_the_heads_is_what_is_projected(close, shared_by):
    layer = ATTENTIONS["gated"](12, 7, num_heads=3, num_kv_heads=1)
    x, context = torch.randn(2 * shared_by, 5, 12), torch.randn(2, 11, 7)
    keys = replace(layer.project_context(context), shared_by=shared_by)
    steps = layer(x, context.repeat_interleave(shared_by, dim=0), need_weights=True)
    value = keys.value.repeat_interleave(shared_by, dim=0)
    heads = (steps.weights @ value).transpose(1, 2).flatten(2)  # [b i (h c)]
    expected = layer.out_proj(layer.gate(x).sigmoid() * heads)
    close(layer(x, keys).output, expected)


POSITIONS = {"none": None, "rotary": Rotary(4), "alibi": Alibi(4), "t5": RelativeBias(4)}


def assert_leads_to_its_weights(steps, allowed):
    groups = steps.heads.shape[1] // steps.value.shape[1]
    scores = steps.scores.masked_fill(~allowed, -torch.inf)
    torch.testing.assert_close(scores.softmax(dim=-1), steps.weights)
    torch.testing.assert_close(steps.weights @ steps.value.repeat_interleave(groups, dim=1), steps.heads)


@pytest.mark.parametrize("position", POSITIONS.values(), ids=list(POSITIONS))
@pytest.mark.parametrize("num_kv_heads", [4, 2])
def test_scores_lead_to_weights_and_these_to_the_output(position, num_kv_heads):
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, num_heads=4, num_kv_heads=num_kv_heads, position=position)
    x = torch.randn(3, 5, 16)
    steps = attention_steps(layer, x, causal=True)
    assert_leads_to_its_weights(steps, torch.ones(5, 5, dtype=torch.bool).tril())
    output = layer.out_proj(steps.heads.transpose(1, 2).flatten(-2))
    torch.testing.assert_close(output, steps.output)
    assert torch.equal(steps.output, layer(x, causal=True, need_weights=True).output)
    places = torch.tensor([1, 4, 5, 9, 20])
    moved = attention_steps(layer, x, positions=places if position is not None else None)
    expected = layer(x, positions=places if position is not None else None, need_weights=True)
    assert torch.equal(moved.output, expected.output)
    value = ", ".join(f"{number:.3f}" for number in steps.value[1, 3 * num_kv_heads // 4, 2].tolist())
    assert steps.table(4, head=3, row=1).splitlines()[4].endswith(f"[{value}]")


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general", "additive", "concat", "location"])
def test_every_score_shows_its_steps_and_what_is_hidden_is_not_summed(score):
    layer = MultiHeadAttention(8, num_heads=1, score=score, project=False)
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 7, 8)
    memory[:, 6] = torch.nan
    allowed = torch.arange(7) < 6
    steps = attention_steps(layer, x, memory, mask=allowed)
    assert_leads_to_its_weights(replace(steps, value=steps.value.nan_to_num()), allowed)
    assert steps.weights[..., 6].eq(0).all()


@pytest.mark.parametrize("kind", [LinearAttention, DeltaAttention])
def test_steps_of_layers_with_a_state_lead_to_their_output(kind):
    """Those of the delta rule are of its corrected values, and padding is not written."""
    layer = kind(8, num_heads=2)
    mask = key_mask(torch.tensor([[True, True, False, True]]))
    steps = attention_steps(layer, torch.randn(1, 4, 8), mask=mask)
    torch.testing.assert_close(steps.weights @ steps.value, steps.heads)
    torch.testing.assert_close(layer.out_proj(steps.heads.transpose(1, 2).flatten(-2)), steps.output)


@pytest.mark.parametrize("name", ["luong-input-feeding", "bahdanau-gru", "transformer", "decoder-only"])
def test_the_steps_of_a_model_lead_to_the_weights_of_its_maps(name):
    """Also where a decoder calls its attention once for each token."""
    model = build(name, vocab_size=12, seed=0).eval()
    source, target = torch.tensor([[5, 6, 7, 8, 2]]), torch.tensor([[1, 9, 8]])
    trace = trace_model(model, source[0], target[0])
    layer = [name for name in trace.names if name.endswith(("cross_attn", "self_attn"))][-1]
    steps = trace.attention(layer)
    with torch.inference_mode():
        maps = model.attention_maps(source, target, source_mask=source > 0)
    weights = steps.weights[..., :5] if name == "decoder-only" else steps.weights
    torch.testing.assert_close(weights, maps.cross[-1])
    assert steps.table(2).count("\n") == steps.weights.shape[-1] + 2
