"""Weights from and to PyTorch's own modules: the same outputs and gradients, the same state dict there and back.

Blocks and decoder-only models are held against PyTorch's layers and against formulas, in float64.
"""

import copy
import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune
from zoo import stack

from selfattn.attention import Alibi, MultiHeadAttention, key_mask, make_score
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


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("context_dim", [None, 5])
def test_attention(bias, context_dim):
    """Outputs and gradients of what comes back: tests/parity/test_attention.py."""
    settings = {"bias": bias, "kdim": context_dim, "vdim": context_dim, "batch_first": True, "dtype": torch.float64}
    theirs = randomised(nn.MultiheadAttention(DIM, HEADS, **settings))
    ours = attention_from_torch(theirs)
    assert_same_state(attention_to_torch(ours), theirs)
    assert_same_state(attention_from_torch(attention_to_torch(ours)), ours)


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
            output = layer(their_x, src_key_padding_mask=~PADDING)[PADDING]
        else:
            output = layer(their_x, their_memory, tgt_mask=future, memory_key_padding_mask=~PADDING)
        return output

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


def encoder_layer(**changes):
    layer = nn.TransformerEncoderLayer(DIM, HEADS, FFN)
    for name, value in changes.items():
        setattr(layer, name, value)
    return layer


def tied(module, first, second):
    module.set_submodule(second, module.get_submodule(first))
    return module


ERRORS = [
    (lambda: attention_from_torch(nn.MultiheadAttention(DIM, HEADS, add_bias_kv=True)), "add_bias_kv and add_zero"),
    (lambda: attention_from_torch(nn.MultiheadAttention(DIM, HEADS, kdim=5, vdim=7)), "kdim=5 and vdim=7 differ"),
    (lambda: attention_from_torch(OtherAttention(DIM, HEADS)), "MultiheadAttention itself, got OtherAttention"),
    (lambda: block_from_torch(nn.TransformerEncoderLayer(DIM, HEADS, activation=F.elu)), "known: relu, gelu, silu"),
    (lambda: block_from_torch(encoder_layer(activation=SquaredReLU())), "SquaredReLU.. has no counterpart"),
    (lambda: block_from_torch(encoder_layer(dropout1=nn.AlphaDropout(0.1))), "Dropout itself, got AlphaDropout"),
    (lambda: block_from_torch(encoder_layer(_sa_block=nothing)), "the _sa_block of .* was replaced on the module"),
    (lambda: block_from_torch(encoder_layer(adapter=nn.Linear(1, 1))), "has adapter, which would be lost"),
    (lambda: block_from_torch(tied(encoder_layer(), "norm1", "norm2")), "norm1.weight and norm2.weight are one"),
    (
        lambda: block_from_torch(encoder_layer(norm1=nn.LayerNorm(DIM).eval())),
        "norm1 alone is in evaluation mode",
    ),
    (lambda: block_from_torch(encoder_layer(dropout2=nn.Dropout(0.5))), r"with one probability, got \[0.1, 0.5\]"),
]


def attention(**settings):
    return MultiHeadAttention(DIM, **({"num_heads": 2} | settings))


def block(**settings):
    return TransformerBlock(DIM, **({"self_attn": attention(), "feed_forward": FeedForward(DIM, FFN)} | settings))


ERRORS += [
    (lambda: attention_to_torch(attention(num_kv_heads=1)), "cannot hold 1 key-value heads for 2 heads"),
    (lambda: attention_to_torch(attention(score="general")), "cannot hold the score General"),
    (lambda: attention_to_torch(attention(position=Alibi(2))), r"cannot hold positions \(Alibi\)"),
    (lambda: block_to_torch(block(cross_attn=attention(context_dim=5))), "cannot hold a memory of another width"),
    (lambda: block_to_torch(block(feed_forward=FeedForward(DIM, FFN, activation="swiglu"))), "cannot hold swiglu"),
    (lambda: attention_to_torch(tied(attention(), "k_proj", "v_proj")), "k_proj.weight and v_proj.weight are one"),
    (lambda: block_to_torch(block(norm="rms")), "self_attn_norm: expected LayerNorm itself, got RMSNorm"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[row[1] for row in ERRORS])
def test_what_cannot_come_from_torch_or_go_there(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


# --- what acts on a module besides its class and parameters -----------------------------------------------------------


def nothing(*arguments):
    """Be a hook."""


CHANGES = [
    (lambda module: prune.random_unstructured(module, "in_proj_weight", 0.5), "prune.remove"),
    (lambda module: nn.utils.parametrizations.weight_norm(module, "in_proj_weight"),
     "parametrised in_proj_weight; .*remove_parametrizations"),
    (lambda module: nn.utils.spectral_norm(module.out_proj),
     r"out_proj \(NonDynamicallyQuantizableLinear\) has a forward pre-hook of SpectralNorm"),
    (lambda module: setattr(module, "forward", nothing), "the forward of MultiheadAttention was replaced"),
    (lambda module: module.register_forward_pre_hook(nothing), r"forward pre-hook \(nothing\)"),
    (lambda module: module.register_forward_hook(nothing), r"forward hook \(nothing\)"),
    (lambda module: module.out_proj.register_forward_hook(nothing), r"out_proj .* forward hook \(nothing\)"),
    (lambda module: module.register_full_backward_pre_hook(nothing), r"backward pre-hook \(nothing\)"),
    (lambda module: module.register_full_backward_hook(nothing), r"backward hook \(nothing\)"),
    (lambda module: module.register_state_dict_post_hook(nothing), r"state-dict hook \(nothing\)"),
    (lambda module: module.register_state_dict_pre_hook(nothing), r"state-dict pre-hook \(nothing\)"),
    (lambda module: module.register_load_state_dict_pre_hook(nothing), r"load-state-dict pre-hook \(nothing\)"),
    (lambda module: module.register_load_state_dict_post_hook(nothing), r"load-state-dict post-hook \(nothing\)"),
    (lambda module: module.register_parameter("in_proj_weight", None), "parameters are not those .* in_proj_weight"),
    (lambda module: module.register_buffer("extra", torch.ones(1)), "has extra, which would be lost"),
    (lambda module: module.add_module("adapter", nn.Linear(1, 1)), "has adapter, which would be lost"),
    (lambda module: setattr(module, "out_proj", nn.Identity()), "out_proj: expected Linear itself, got Identity"),
    (lambda module: setattr(module, "__class__", OtherAttention), "expected MultiheadAttention itself"),
]  # fmt: skip


@pytest.mark.parametrize("convert", [MultiheadAttention.from_torch, attention_from_torch])
@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[row[1] for row in CHANGES])
@pytest.mark.filterwarnings("ignore:.torch.nn.utils.spectral_norm")
def test_what_acts_on_a_foreign_module_is_refused_by_name(convert, change, message):
    module = nn.MultiheadAttention(DIM, HEADS)
    convert(module)
    change(module)
    with pytest.raises((TypeError, ValueError), match=message):
        convert(module)


def test_what_acts_on_a_part_of_a_layer_is_refused_by_name():
    layer = encoder_layer()
    layer.norm1.register_forward_hook(nothing)
    with pytest.raises(ValueError, match=r"block_from_torch: norm1 \(LayerNorm\) has a forward hook"):
        block_from_torch(layer)
    ours = block()
    prune.random_unstructured(ours.feed_forward.fc1, "weight", 0.5)
    with pytest.raises(ValueError, match=r"block_to_torch: feed_forward.fc1 \(Linear\) has .*prune.remove"):
        block_to_torch(ours)
    prune.remove(ours.feed_forward.fc1, "weight")
    block_to_torch(ours)


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


def sinusoids(length):
    """Vaswani et al. 2017, section 3.5, number by number."""
    table = torch.zeros(length, DIM, dtype=torch.float64)
    for position in range(length):
        for k in range(DIM // 2):
            angle = position / 10000 ** (2 * k / DIM)
            table[position, 2 * k], table[position, 2 * k + 1] = math.sin(angle), math.cos(angle)
    return table


TEXTS = torch.tensor([[True] * 5 + [False] * 2, [True] * 7, [True] * 2 + [False] * 5])


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("prefix", [False, True])
@torch.no_grad()
def test_decoder_only_is_an_encoder_with_a_mask(norm_first, activation, prefix):
    """One sentence at a time, joined by hand and without padding, through ``nn.TransformerEncoder``."""
    sizes = {"dim": DIM, "num_heads": HEADS, "ffn_dim": FFN}
    kind = stack(**sizes, norm_first=norm_first, activation=activation)
    config = DecoderOnlyConfig(stack=kind, bidirectional_prefix=prefix)
    model = randomised(build(config, vocab_size=VOCAB, pad_id=0, seed=0).double())
    layers = [block_to_torch(block).double().eval() for block in model.layers]
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(3, VOCAB, (3, 7), generator=generator).masked_fill(~TEXTS, 0)
    target = torch.randint(1, VOCAB, (3, 5), generator=generator)
    logits = model(source, target, source_mask=TEXTS)
    for row, length in enumerate(TEXTS.sum(dim=1).tolist()):
        text = torch.cat([source[row, :length], target[row]])[None]
        hidden_from = torch.ones(length + 5, length + 5, dtype=torch.bool).triu(1)
        if prefix:
            hidden_from[:length, :length] = False
        hidden = model.embed.tokens.weight[text] * math.sqrt(DIM) + sinusoids(text.shape[1])
        for layer in layers:
            hidden = layer(hidden, src_mask=hidden_from)
        hidden = model.norm(hidden) if norm_first else hidden
        expected = F.linear(hidden, model.output.weight, model.output.bias)[0, length:]
        torch.testing.assert_close(logits[row], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "swiglu"])
@torch.no_grad()
def test_feed_forward_by_formula(activation):
    """Unit by unit: max(0, z); z times the normal distribution function of z, or its logistic; that times the gate."""
    block = randomised(FeedForward(3, 5, activation=activation).double())

    def linear(layer, x):
        return layer.weight @ x + layer.bias

    x = draw(2, 4, 3)
    expected = torch.zeros(2, 4, 3, dtype=torch.float64)
    for b in range(2):
        for i in range(4):
            inner = []
            for k, z in enumerate(linear(block.fc1, x[b, i]).tolist()):
                if activation == "relu":
                    inner.append(max(0.0, z))
                elif activation == "gelu":
                    inner.append(z * (1 + math.erf(z / math.sqrt(2))) / 2)
                else:
                    gate = float(linear(block.gate, x[b, i])[k]) if activation == "swiglu" else 1
                    inner.append(z / (1 + math.exp(-z)) * gate)
            expected[b, i] = linear(block.fc2, torch.tensor(inner, dtype=torch.float64))
    close(block(x), expected)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_block_by_formula(norm_first, cross):
    """The residual steps written out, with the norms and activations that PyTorch's layers do not have."""
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

    steps = [(lambda h: block.self_attn(h, causal=True).output, block.self_attn_norm)]
    if cross:
        steps.append((lambda h: block.cross_attn(h, memory).output, block.cross_attn_norm))
    steps.append((block.feed_forward, block.feed_forward_norm))
    expected = x
    for part, norm in steps:
        expected = expected + part(rms(expected, norm)) if norm_first else rms(expected + part(expected), norm)
    actual = block(x, causal=True, memory=block.project_memory(memory) if cross else None).x
    close(actual, expected)
