"""A layer: its steps lead to its output, parts can be replaced, rows may share a context; layers with a state."""

import math
from dataclasses import replace

import pytest
import torch
from third_party import plugins
from torch import nn

from selfattn.attention import (
    Alibi,
    AttentionState,
    DeltaAttention,
    LinearAttention,
    MultiHeadAttention,
    RelativeBias,
    Retention,
    Rotary,
    attend,
    attention_steps,
    causal_mask,
    key_mask,
    make_score,
    padding_mask,
    read_on,
)
from selfattn.attention.scores import positive_features
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


# Linear attention and the delta rule: three forms, one function; a loop as in the papers beside them


KINDS = {
    "linear": lambda **more: LinearAttention(6, num_heads=2, **more),
    "linear grouped": lambda **more: LinearAttention(6, num_heads=2, num_kv_heads=1, **more),
    "retention": lambda **more: LinearAttention(6, num_heads=2, position=Retention(2), **more),
    "alibi": lambda **more: LinearAttention(6, num_heads=2, position=Alibi(2), **more),
    "delta": lambda **more: DeltaAttention(6, num_heads=2, **more),
    "delta grouped": lambda **more: DeltaAttention(6, num_heads=2, num_kv_heads=1, **more),
}
every = pytest.mark.parametrize("kind", KINDS)


def layer_of(kind, **more):
    torch.manual_seed(0)
    return KINDS[kind](**more).eval()


def loop(q, k, v, memory, decay, corrects):
    """The recurrence of the papers, token by token."""
    outputs = []
    for t in range(q.shape[2]):
        state = memory if decay is None else decay[:, :, t, None, None].exp() * memory
        written = v[:, :, t] - torch.einsum("bhec,bhe->bhc", state, k[:, :, t]) if corrects else v[:, :, t]
        memory = state + torch.einsum("bhe,bhc->bhec", k[:, :, t], written)
        outputs.append(torch.einsum("bhec,bhe->bhc", memory, q[:, :, t]))
    return torch.stack(outputs, dim=2), memory


@pytest.mark.parametrize(("corrects", "fades"), [(False, False), (True, False), (False, True)])
def test_parallel_chunked_and_recurrent_form_are_the_loop(corrects, fades):
    query, key = torch.nn.functional.normalize(torch.randn(2, 2, 3, 37, 5), dim=-1)
    inputs = [query, key, torch.randn(2, 3, 37, 7), torch.randn(2, 3, 5, 7)]
    decay = -0.3 * torch.rand(2, 3, 37) if fades else None
    expected = loop(*inputs, decay, corrects)
    options = {"decay": decay} | ({"corrects": True} if corrects else {})
    for chunk in (1, 5, 37, 64):
        for actual, tensor in zip(read_on(*inputs, **options, chunk=chunk), expected, strict=True):
            torch.testing.assert_close(actual, tensor, rtol=1e-5, atol=1e-6)


@every
@pytest.mark.parametrize("padded", [False, True])
def test_the_same_weights_as_attention_and_as_an_rnn(kind, padded):
    layer, x = layer_of(kind), torch.randn(3, 70, 6)
    tokens = torch.arange(70) < torch.tensor([[70], [3], [41]])
    mask = key_mask(tokens) if padded else None
    as_attention, weights = layer(x, mask=mask, causal=True, need_weights=True)
    as_rnn, state = layer.advance(x, None, mask=mask, causal=True)
    real = tokens if padded else torch.ones_like(tokens)
    torch.testing.assert_close(as_rnn.output[real], as_attention[real], rtol=1e-5, atol=1e-6)
    assert isinstance(state, AttentionState)
    assert state.position.tolist() == [70] * 3
    assert (weights[..., ~causal_mask(70, 70)] == 0).all()
    assert not padded or (weights.transpose(1, 3)[~tokens] == 0).all()


@every
@pytest.mark.parametrize("causal", [False, True])
def test_a_weight_is_the_derivative_of_an_output_by_a_projected_value(kind, causal):
    layer, x, context = layer_of(kind).double(), torch.randn(3, 5, 6).double(), torch.randn(3, 5, 6).double()
    mask = key_mask(torch.arange(5) < torch.tensor([[5], [2], [4]]))
    values = []
    layer.v_proj.register_forward_hook(lambda module, arguments, output: values.append(output))
    heads = []
    layer.out_proj.register_forward_pre_hook(lambda module, arguments: heads.append(arguments[0]))
    weights = layer(x, context, mask=mask, causal=causal, need_weights=True).weights
    group = 2 // layer.num_kv_heads
    for b, h, i in ((0, 0, 4), (0, 1, 2), (1, 1, 4), (2, 0, 3)):
        output = heads[0][b, i].view(2, 3)[h, 0]
        (derivative,) = torch.autograd.grad(output, values[0], retain_graph=True)
        by_value = derivative[b].view(5, layer.num_kv_heads, 3)[:, h // group, 0]
        torch.testing.assert_close(weights[b, h, i], by_value)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_of_the_delta_rule_in_half_precision(dtype):
    layer, x = layer_of("delta"), torch.randn(2, 5, 6)
    with torch.autocast("cpu", dtype):
        autocast = layer(x, causal=True, need_weights=True).weights
    half = layer.to(dtype)(x.to(dtype), causal=True, need_weights=True).weights
    exact = layer.double()(x.to(dtype).double(), causal=True, need_weights=True).weights
    for weights in (autocast, half):
        torch.testing.assert_close(weights.double(), exact, atol=2e-2, rtol=0)


def test_gradients_are_finite_where_nothing_is_written():
    layer, x = layer_of("delta"), torch.randn(1, 4, 6)
    torch.nn.init.constant_(layer.beta_proj.bias, -1000.0)  # beta is 0
    layer(x, causal=True).output.sum().backward()
    assert all(torch.isfinite(weights.grad).all() for weights in layer.parameters() if weights.grad is not None)


PLACES = {
    "given none": None,
    "padding is not counted": torch.tensor([0, 1, 1, 1, 2, 3, 3, 4]),
    "with leaps": torch.tensor([3, 4, 7, 20, 21, 21, 30, 31]),
    "by row": torch.tensor([[0, 1, 1, 1, 2, 3, 3, 4], [5, 6, 7, 8, 9, 10, 11, 12]]),
}


@every
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("pieces", [[8], [3, 5], [1] * 8])
def test_both_forms_agree_with_padding_between_tokens(kind, places, pieces):
    layer, x, positions = layer_of(kind), torch.randn(2, 8, 6), PLACES[places]
    tokens = torch.tensor([[True, True, False, False, True, True, False, True], [True] * 8])
    expected = layer(x, mask=key_mask(tokens), causal=True, positions=positions).output
    outputs = []
    past = None
    for part in torch.arange(8).split(pieces):
        given = None if positions is None else positions[..., part]
        read, past = layer.advance(x[:, part], past, mask=key_mask(tokens[:, part]), causal=True, positions=given)
        outputs.append(read.output)
    torch.testing.assert_close(torch.cat(outputs, dim=1)[tokens], expected[tokens], rtol=1e-5, atol=1e-6)
    _, whole = layer.advance(x, None, mask=key_mask(tokens), causal=True, positions=positions)
    torch.testing.assert_close(past.memory, whole.memory, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_features_of_low_numbers_do_not_vanish(dtype):
    """Below -17, or -6 in bfloat16, ``elu(x) + 1`` rounds to 0; the scores ``ln exp(q) exp(k)`` are ``q + k``."""
    key = torch.tensor([-22.0, -20.5, -20.25, -19.75, -20.0], dtype=dtype)
    query, value = torch.full((1, 1, 1, 1), -20.0, dtype=dtype), torch.ones(1, 1, 5, 1, dtype=dtype)
    score = make_score("linear", 1, 1)
    weights = attend(query, key.view(1, 1, 5, 1), value, score=score, need_weights=True).weights
    torch.testing.assert_close(weights.flatten(), key.float().softmax(dim=-1).to(dtype))


def test_the_features_and_their_derivative_at_zero():
    x = torch.tensor([-2.0, 0.0, 3.0], dtype=torch.float64, requires_grad=True)
    features = positive_features(x)
    (derivative,) = torch.autograd.grad(features.sum(), x)
    assert features.tolist() == [math.exp(-2), 1.0, 4.0]
    assert derivative.tolist() == [math.exp(-2), 1.0, 1.0]


def test_not_causal_is_the_memory_behind_the_last_key():
    layer, x, context = layer_of("delta"), torch.randn(3, 5, 6), torch.randn(3, 7, 6)
    _, state = layer.advance(context, None, causal=True)
    query = layer.project_query(x)
    expected = layer.out_proj((query @ state.memory).transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, context).output, expected, rtol=1e-5, atol=1e-6)


@every
def test_derivatives_of_both_forms_agree(kind):
    """Of one chunk and the beginning of another."""
    layer, x = layer_of(kind).double(), torch.randn(2, 70, 6, dtype=torch.float64, requires_grad=True)
    weights = [x, *layer.parameters()]
    forms = layer.advance(x, None, causal=True)[0], layer(x, causal=True)
    gradients = [torch.autograd.grad(form.output.square().sum(), weights, allow_unused=True) for form in forms]
    for actual, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@every
def test_a_row_without_tokens_gives_zero_and_finite_gradients(kind):
    layer, x = layer_of(kind, bias=False), torch.randn(2, 4, 6)
    mask = key_mask(torch.tensor([[True] * 4, [False] * 4]))
    for output in (layer.advance(x, None, mask=mask, causal=True)[0].output, layer(x, mask=mask).output):
        assert (output[1] == 0).all()
        gradients = torch.autograd.grad(output.sum(), list(layer.parameters()))
        assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("preset", ["transformer-delta", "decoder-only-delta-hybrid"])
def test_padding_is_zero_in_half_precision_too(preset):
    model = build(preset, vocab_size=20).eval().half()
    source, target = torch.tensor([[5, 6, 2], [7, 2, 0]]), torch.tensor([[1, 4], [1, 4]])
    assert model(source, target, source_mask=source != 0).isfinite().all()


@every
def test_under_torch_func_and_autocast(kind):
    layer, x = layer_of(kind), torch.randn(3, 5, 6)
    rows = torch.func.vmap(lambda x: layer.advance(x[None], None, causal=True)[0].output[0])(x)
    torch.testing.assert_close(rows, layer(x, causal=True).output)
    with torch.autocast("cpu", torch.bfloat16):
        attended, state = layer.advance(x, None, causal=True)
    assert state.memory.dtype == torch.float32
    torch.testing.assert_close(attended.output.float(), layer(x, causal=True).output, rtol=0.1, atol=0.05)
