"""PyTorch's own modules with the same weights: outputs, weights and gradients, the same state dict there and back.

Attention, blocks and decoder-only models are held against them, in float64.
"""

import copy
import math
from functools import partial
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune
from zoo import stack

from selfattn.attention import Alibi, MultiHeadAttention, Sinusoidal, causal_mask, key_mask, make_score
from selfattn.convert.torch_modules import attention_from_torch, attention_to_torch, block_from_torch, block_to_torch
from selfattn.integrations.torch import MultiheadAttention
from selfattn.layers import FeedForward, TransformerBlock
from selfattn.models.build import build
from selfattn.models.families import DecoderOnlyConfig

DIM, HEADS, FFN = 6, 3, 11
PADDING = torch.tensor([[True] * 5 + [False] * 2, [True] * 7])
# PyTorch says so whenever its encoder cannot take the nested-tensor path, which is not asked for here.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")

LAYERS = list(product((True, False), ("relu", "gelu", F.silu), (True, False)))
layers = pytest.mark.parametrize(("norm_first", "activation", "bias"), LAYERS)


def settings(norm_first, activation, bias):
    sizes = {"d_model": DIM, "nhead": HEADS, "dim_feedforward": FFN, "dropout": 0.0, "layer_norm_eps": 1e-3}
    kind = {"activation": activation, "norm_first": norm_first, "bias": bias}
    return sizes | kind | {"batch_first": True, "dtype": torch.float64}


def randomised(module):
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return module


def draw(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def close(actual, expected):
    assert actual is not None
    assert expected is not None
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-10)


def assert_same_state(actual, expected):
    """Bit for bit, names, dtypes and devices too."""
    ours, theirs = actual.state_dict(), expected.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype
        assert torch.equal(ours[name], tensor), name


def assert_same_gradients(ours, theirs, to_torch):
    """A conversion only moves numbers: it moves gradients as it moves weights."""
    holder = copy.deepcopy(ours)
    for slot, parameter in zip(holder.parameters(), ours.parameters(), strict=True):
        slot.data = parameter.grad
    moved = dict(to_torch(holder).named_parameters())
    expected = dict(theirs.named_parameters())
    assert moved.keys() == expected.keys()
    for name, parameter in expected.items():
        close(moved[name].detach(), parameter.grad)


# Both senses, side by side: ours True = may attend; theirs True = may not. Key masks are [b j], others [i j].
WINDOW, CAUSAL = torch.ones(5, 7, dtype=torch.bool).triu(-1), causal_mask(5, 7)
PER_HEAD = torch.arange(2 * HEADS * 5 * 7).reshape(2, HEADS, 5, 7) % 3 != 1
MASKS = [
    (None, {}),
    (key_mask(PADDING), {"key_padding_mask": ~PADDING}),
    (WINDOW, {"attn_mask": ~WINDOW}),
    (PER_HEAD, {"attn_mask": ~PER_HEAD.flatten(0, 1)}),
    (key_mask(PADDING) & CAUSAL, {"key_padding_mask": ~PADDING, "attn_mask": ~CAUSAL}),
]


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("context_dim", [None, 5])
def test_attention(context_dim, bias, need_weights):
    settings = {"bias": bias, "kdim": context_dim, "vdim": context_dim, "batch_first": True, "dtype": torch.float64}
    theirs = randomised(nn.MultiheadAttention(DIM, HEADS, **settings))
    ours = attention_from_torch(theirs)
    assert_same_state(attention_to_torch(ours), theirs)
    assert_same_state(attention_from_torch(attention_to_torch(ours)), ours)
    for our_mask, their_masks in MASKS:
        x, their_x = draw(2, 5, DIM), draw(2, 5, DIM)
        context, their_context = (draw(2, 7, context_dim or DIM, seed=2) for _ in range(2))
        output, weights = ours(x, context, mask=our_mask, need_weights=need_weights)
        expected, expected_weights = theirs(
            their_x, their_context, their_context, **their_masks, average_attn_weights=False
        )
        close(output, expected)
        if need_weights:
            close(weights, expected_weights)
        for module, result in ((ours, output), (theirs, expected)):
            module.zero_grad()
            (result * draw(2, 5, DIM, seed=9).detach()).sum().backward()
        close(x.grad, their_x.grad)
        close(context.grad, their_context.grad)
        assert_same_gradients(ours, theirs, attention_to_torch)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
@layers
def test_layers(norm_first, activation, bias, kind):
    made = nn.TransformerEncoderLayer if kind == "encoder" else nn.TransformerDecoderLayer
    theirs = randomised(made(**settings(norm_first, activation, bias)))
    ours = block_from_torch(theirs)
    back = block_to_torch(ours)
    assert_same_state(back, theirs)
    assert_same_state(block_from_torch(back), ours)
    x, their_x = draw(2, 7, DIM), draw(2, 7, DIM)
    memory, their_memory = draw(2, 7, DIM, seed=2), draw(2, 7, DIM, seed=2)
    future = nn.Transformer.generate_square_subsequent_mask(7).isinf()

    def read(layer):
        if kind == "encoder":
            return layer(their_x, src_key_padding_mask=~PADDING)[PADDING]
        return layer(their_x, their_memory, tgt_mask=future, memory_key_padding_mask=~PADDING)

    if kind == "encoder":
        actual = ours(x, mask=key_mask(PADDING)).x[PADDING]
    else:
        actual = ours(x, causal=True, memory=ours.project_memory(memory), memory_mask=key_mask(PADDING)).x
    expected = read(theirs)
    close(actual, expected)
    close(read(back), expected)
    for output in (actual, expected):
        (output * draw(*output.shape, seed=9).detach()).sum().backward()
    close(x.grad, their_x.grad)
    if kind == "decoder":
        close(memory.grad, their_memory.grad)
    assert_same_gradients(ours, theirs, block_to_torch)


def test_what_is_no_weight_comes_along():
    """Dropouts, epsilon, dtype, mode; and no random number is drawn."""
    theirs = nn.TransformerDecoderLayer(DIM, HEADS, FFN, dropout=0.25, layer_norm_eps=0.5, dtype=torch.bfloat16).eval()
    theirs.self_attn.dropout, theirs.dropout.p = 0.125, 0.375
    state = torch.get_rng_state()
    block = block_from_torch(theirs)
    back = block_to_torch(block)
    assert torch.equal(torch.get_rng_state(), state)
    assert block.self_attn.dropout == back.self_attn.dropout == 0.125
    assert block.cross_attn.dropout == back.multihead_attn.dropout == 0.25
    assert block.feed_forward.dropout.p == back.dropout.p == 0.375
    assert block.dropout.p == back.dropout1.p == back.dropout2.p == back.dropout3.p == 0.25
    for norm in (block.self_attn_norm, block.cross_attn_norm, block.feed_forward_norm, back.norm1, back.norm3):
        assert isinstance(norm, nn.LayerNorm)
        assert norm.eps == 0.5
    for module in (block, back):
        assert {parameter.dtype for parameter in module.parameters()} == {torch.bfloat16}
        assert not any(part.training for part in module.modules())


OtherAttention = type("OtherAttention", (nn.MultiheadAttention,), {})
SquaredReLU = type("SquaredReLU", (nn.ReLU,), {"forward": lambda self, x: x.relu().square()})


def attention(**settings):
    return MultiHeadAttention(DIM, **({"num_heads": 2} | settings))


def block(**settings):
    return TransformerBlock(DIM, **({"self_attn": attention(), "feed_forward": FeedForward(DIM, FFN)} | settings))


def nothing(*arguments):
    """Be a hook."""


def tie(module, first, second):
    module.set_submodule(second, module.get_submodule(first))


# How a module is made that can be converted, and by what.
MADE = {
    "theirs": (lambda: nn.MultiheadAttention(DIM, HEADS), [MultiheadAttention.from_torch, attention_from_torch]),
    "their layer": (lambda: nn.TransformerEncoderLayer(DIM, HEADS, FFN), [block_from_torch]),
    "ours": (attention, [attention_to_torch]),
    "our block": (block, [block_to_torch]),
}
HOOKS = {
    "forward_pre_hook": "forward pre-hook", "forward_hook": "forward hook",
    "full_backward_pre_hook": "backward pre-hook", "full_backward_hook": "backward hook",
    "state_dict_pre_hook": "state-dict pre-hook", "state_dict_post_hook": "state-dict hook",
    "load_state_dict_pre_hook": "load-state-dict pre-hook", "load_state_dict_post_hook": "load-state-dict post-hook",
}  # fmt: skip
# What is done to it, or what stands in its place.
CHANGES = [
    *(("theirs", lambda module, name=name: getattr(module, f"register_{name}")(nothing),
       rf"MultiheadAttention has a {shown} \(nothing\)") for name, shown in HOOKS.items()),
    ("theirs", lambda module: prune.random_unstructured(module, "in_proj_weight", 0.5), "prune.remove"),
    ("theirs", lambda module: nn.utils.parametrizations.weight_norm(module, "in_proj_weight"),
     "parametrised in_proj_weight; .*remove_parametrizations"),
    ("theirs", lambda module: nn.utils.spectral_norm(module.out_proj),
     r"out_proj \(NonDynamicallyQuantizableLinear\) has a forward pre-hook of SpectralNorm"),
    ("theirs", lambda module: setattr(module, "forward", nothing), "the forward of MultiheadAttention was replaced"),
    ("theirs", lambda module: module.out_proj.register_forward_hook(nothing),
     r"out_proj .* forward hook \(nothing\)"),
    ("theirs", lambda module: module.register_parameter("in_proj_weight", None),
     "parameters are not those .* in_proj_weight"),
    ("theirs", lambda module: module.register_buffer("extra", torch.ones(1)), "has extra, which would be lost"),
    ("theirs", lambda module: module.add_module("adapter", nn.Linear(1, 1)), "has adapter, which would be lost"),
    ("theirs", lambda module: setattr(module, "out_proj", nn.Identity()), "out_proj: expected Linear itself, got Iden"),
    ("theirs", lambda module: setattr(module, "__class__", OtherAttention), "MultiheadAttention itself, got Other"),
    ("their layer", lambda layer: nn.TransformerEncoderLayer(DIM, HEADS, activation=F.elu), "known: relu, gelu, silu"),
    ("their layer", lambda layer: setattr(layer, "activation", SquaredReLU()), "SquaredReLU.. has no counterpart"),
    ("their layer", lambda layer: setattr(layer, "dropout1", nn.AlphaDropout(0.1)), "Dropout itself, got AlphaDropout"),
    ("their layer", lambda layer: setattr(layer, "dropout2", nn.Dropout(0.5)), r"one probability, got \[0.1, 0.5\]"),
    ("their layer", lambda layer: setattr(layer, "_sa_block", nothing), "the _sa_block of .* was replaced on the mod"),
    ("their layer", lambda layer: setattr(layer, "adapter", nn.Linear(1, 1)), "has adapter, which would be lost"),
    ("their layer", lambda layer: tie(layer, "norm1", "norm2"), "norm1.weight and norm2.weight are one"),
    ("their layer", lambda layer: layer.norm1.eval(), "norm1 alone is in evaluation mode"),
    ("their layer", lambda layer: layer.norm1.register_forward_hook(nothing),
     r"block_from_torch: norm1 \(LayerNorm\) has a forward hook"),
    ("ours", lambda ours: attention(num_kv_heads=1), "cannot hold 1 key-value heads for 2 heads"),
    ("ours", lambda ours: attention(score="general"), "cannot hold the score General"),
    ("ours", lambda ours: attention(position=Alibi(2)), r"cannot hold positions \(Alibi\)"),
    ("ours", lambda ours: tie(ours, "k_proj", "v_proj"), "k_proj.weight and v_proj.weight are one"),
    ("our block", lambda ours: block(cross_attn=attention(context_dim=5)), "cannot hold a memory of another width"),
    ("our block", lambda ours: block(feed_forward=FeedForward(DIM, FFN, activation="swiglu")), "cannot hold swiglu"),
    ("our block", lambda ours: block(norm="rms"), "self_attn_norm: expected LayerNorm itself, got RMSNorm"),
    ("our block", lambda ours: prune.random_unstructured(ours.feed_forward.fc1, "weight", 0.5),
     r"block_to_torch: feed_forward.fc1 \(Linear\) has .*prune.remove"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "change", "message"), CHANGES, ids=[row[2] for row in CHANGES])
@pytest.mark.filterwarnings("ignore:.torch.nn.utils.spectral_norm")
def test_what_cannot_be_converted_is_refused_by_name(made, change, message):
    make, conversions = MADE[made]
    for convert in conversions:
        module = make()
        convert(module)
        changed = change(module)
        module = changed if type(changed) is type(module) else module
        with pytest.raises((TypeError, ValueError), match=message):
            convert(module)


def test_keys_of_their_own_and_two_widths_are_refused():
    for settings, message in (({"add_bias_kv": True}, "add_bias_kv and add_zero"), ({"kdim": 5, "vdim": 7}, "differ")):
        with pytest.raises(ValueError, match=message):
            attention_from_torch(nn.MultiheadAttention(DIM, HEADS, **settings))


def test_a_copy_is_frozen_where_its_original_is_and_loses_no_hook_of_a_gradient():
    theirs = nn.MultiheadAttention(DIM, HEADS)
    theirs.in_proj_weight.requires_grad_(False)
    ours = attention_from_torch(theirs)
    assert [ours.q_proj.weight.requires_grad, ours.q_proj.bias.requires_grad] == [False, True]
    assert not attention_to_torch(ours).in_proj_weight.requires_grad
    ours.q_proj.weight.requires_grad_(True)
    with pytest.raises(ValueError, match="some are frozen"):
        attention_to_torch(ours)
    theirs.in_proj_bias.register_hook(nothing)
    with pytest.raises(ValueError, match="in_proj_bias has a hook on its gradient"):
        attention_from_torch(theirs)


def test_the_module_of_our_own_keeps_its_score_and_position():
    module = MultiheadAttention(DIM, HEADS, score=make_score("additive", 2, 2), position=Alibi(HEADS))
    copied = MultiheadAttention.from_torch(module)
    assert (copied.score, copied.position) == (module.score, module.position)


# --- blocks and decoder-only models against formulas ------------------------------------------------------------------

VOCAB = 19


TEXTS = torch.tensor([[True] * 5 + [False] * 2, [True] * 7, [True] * 2 + [False] * 5])


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("prefix", [False, True])
@torch.no_grad()
def test_decoder_only_is_an_encoder_with_a_mask(norm_first, prefix):
    """One sentence at a time, joined by hand and without padding, through ``nn.TransformerEncoderLayer``."""
    sizes = {"dim": DIM, "num_heads": HEADS, "ffn_dim": FFN}
    config = DecoderOnlyConfig(stack=stack(**sizes, norm_first=norm_first), bidirectional_prefix=prefix)
    model = randomised(build(config, vocab_size=VOCAB, pad_id=0, seed=0).double())
    layers = [block_to_torch(block).double().eval() for block in model.layers]
    sines, generator = Sinusoidal(DIM), torch.Generator().manual_seed(3)
    source = torch.randint(3, VOCAB, (3, 7), generator=generator).masked_fill(~TEXTS, 0)
    target = torch.randint(1, VOCAB, (3, 5), generator=generator)
    logits = model(source, target, source_mask=TEXTS)
    for row, length in enumerate(TEXTS.sum(dim=1).tolist()):
        text = torch.cat([source[row, :length], target[row]])[None]
        hidden_from = torch.ones(length + 5, length + 5, dtype=torch.bool).triu(1)
        if prefix:
            hidden_from[:length, :length] = False
        hidden = model.embed.tokens.weight[text] * math.sqrt(DIM) + sines(torch.arange(text.shape[1]))
        for layer in layers:
            hidden = layer(hidden, src_mask=hidden_from)
        hidden = model.norm(hidden) if norm_first else hidden
        expected = F.linear(hidden, model.output.weight, model.output.bias)[0, length:]
        torch.testing.assert_close(logits[row], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_block_by_formula(norm_first, cross):
    """The residual steps written out, with the norm and the activation that PyTorch's layers do not have."""
    block = TransformerBlock(
        DIM,
        self_attn=MultiHeadAttention(DIM, num_heads=HEADS, num_kv_heads=1),
        cross_attn=MultiHeadAttention(DIM, 5, num_heads=HEADS) if cross else None,
        feed_forward=FeedForward(DIM, FFN, activation="swiglu"),
        norm="rms",
        norm_first=norm_first,
    )
    randomised(block.double())
    x, memory = draw(2, 5, DIM), draw(2, 7, 5, seed=2)

    def rms(x, norm):
        return x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() * norm.weight

    def swiglu(h):
        fc1, gate, fc2 = (partial(F.linear, weight=x.weight, bias=x.bias) for x in (inner.fc1, inner.gate, inner.fc2))
        return fc2(fc1(h) / (1 + torch.exp(-fc1(h))) * gate(h))

    inner = block.feed_forward
    steps = [(lambda h: block.self_attn(h, causal=True).output, block.self_attn_norm)]
    if cross:
        steps.append((lambda h: block.cross_attn(h, memory).output, block.cross_attn_norm))
    steps.append((swiglu, block.feed_forward_norm))
    expected = x
    for part, norm in steps:
        expected = expected + part(rms(expected, norm)) if norm_first else rms(expected + part(expected), norm)
    actual = block(x, causal=True, memory=block.project_memory(memory) if cross else None).x
    close(actual, expected)
