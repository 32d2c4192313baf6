"""Our blocks and models against PyTorch's own Transformer with copied weights: outputs and gradients, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention, key_mask
from selfattn.layers import FeedForward, TransformerBlock, make_norm
from selfattn.models.build import build
from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.transformer_config import TransformerConfig

Close = Callable[[Tensor, Tensor], None]  # the fixture of tests/conftest.py

DIM, HEADS, FFN, LAYERS, VOCAB = 12, 3, 17, 2, 19
STYLES = [(norm_first, activation) for norm_first in (True, False) for activation in ("relu", "gelu")]
styles = pytest.mark.parametrize(("norm_first", "activation"), STYLES)
# PyTorch says so whenever its encoder cannot take the nested-tensor path, which we do not ask for.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")


def randomised(module: nn.Module) -> Any:
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return module


def theirs_for_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> list[tuple[Any, Any]]:
    """Pairs of (our tensors joined, theirs), of values or of gradients: a pair of functions of a getter."""
    return [
        (
            lambda get: torch.cat([get(p.weight) for p in (ours.q_proj, ours.k_proj, ours.v_proj)]),
            theirs.in_proj_weight,
        ),
        (lambda get: torch.cat([get(p.bias) for p in (ours.q_proj, ours.k_proj, ours.v_proj)]), theirs.in_proj_bias),
        *same(ours.out_proj, theirs.out_proj),
    ]


def same(ours: Any, theirs: Any) -> list[tuple[Any, Any]]:
    return [
        (lambda get: get(ours.weight), theirs.weight),
        (lambda get: get(ours.bias), theirs.bias),
    ]


def theirs_for_block(ours: Any, theirs: Any) -> list[tuple[Any, Any]]:
    cross = ours.cross_attn is not None
    pairs = theirs_for_attention(ours.self_attn, theirs.self_attn)
    pairs += same(ours.self_attn_norm, theirs.norm1)
    pairs += same(ours.feed_forward.fc1, theirs.linear1) + same(ours.feed_forward.fc2, theirs.linear2)
    pairs += same(ours.feed_forward_norm, theirs.norm3 if cross else theirs.norm2)
    if cross:
        pairs += theirs_for_attention(ours.cross_attn, theirs.multihead_attn) + same(ours.cross_attn_norm, theirs.norm2)
    return pairs


def copy_over(pairs: list[tuple[Any, Any]]) -> None:
    with torch.no_grad():
        for joined, parameter in pairs:
            parameter.copy_(joined(lambda tensor: tensor))


def assert_same_gradients(close: Close, pairs: list[tuple[Any, Any]]) -> None:
    for joined, parameter in pairs:
        assert parameter.grad is not None
        close(joined(lambda tensor: tensor.grad), parameter.grad)


def our_blocks(norm_first: bool, activation: Any, *, cross: bool) -> list[TransformerBlock]:
    blocks = [
        TransformerBlock(
            DIM,
            self_attn=MultiHeadAttention(DIM, num_heads=HEADS),
            cross_attn=MultiHeadAttention(DIM, num_heads=HEADS) if cross else None,
            feed_forward=FeedForward(DIM, FFN, activation=activation),
            norm_first=norm_first,
        )
        for _ in range(LAYERS)
    ]
    return list(randomised(nn.ModuleList(blocks).double()))


def settings(norm_first: bool, activation: str) -> dict[str, Any]:
    return {
        "d_model": DIM,
        "nhead": HEADS,
        "dim_feedforward": FFN,
        "activation": activation,
        "norm_first": norm_first,
        "dropout": 0.0,
        "batch_first": True,
        "dtype": torch.float64,
    }


def draw(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


PADDING = torch.tensor([[True] * 5 + [False] * 2, [True] * 7, [True] * 2 + [False] * 5])


@styles
@pytest.mark.parametrize("causal", [False, True])
def test_encoder_layers(close: Close, norm_first: bool, activation: str, causal: bool) -> None:
    blocks = our_blocks(norm_first, activation, cross=False)
    layer = nn.TransformerEncoderLayer(**settings(norm_first, activation))
    torch_encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    pairs = [
        pair
        for ours, theirs in zip(blocks, torch_encoder.layers, strict=True)
        for pair in theirs_for_block(ours, theirs)
    ]
    copy_over(pairs)
    x, their_x = (draw(3, 7, DIM).requires_grad_() for _ in range(2))
    future = nn.Transformer.generate_square_subsequent_mask(7).isinf() if causal else None
    expected = torch_encoder(their_x, mask=future, src_key_padding_mask=~PADDING)
    actual = x
    for block in blocks:
        actual = block(actual, mask=key_mask(PADDING), causal=causal).x
    close(actual[PADDING], expected[PADDING])
    weights = draw(int(PADDING.sum()), DIM, seed=2)
    (actual[PADDING] * weights).sum().backward()
    (expected[PADDING] * weights).sum().backward()
    assert_same_gradients(close, pairs)
    close(x.grad, their_x.grad)


@styles
def test_decoder_layers(close: Close, norm_first: bool, activation: str) -> None:
    blocks = our_blocks(norm_first, activation, cross=True)
    torch_decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**settings(norm_first, activation)), LAYERS)
    pairs = [
        pair
        for ours, theirs in zip(blocks, torch_decoder.layers, strict=True)
        for pair in theirs_for_block(ours, theirs)
    ]
    copy_over(pairs)
    x, their_x = (draw(3, 5, DIM).requires_grad_() for _ in range(2))
    memory, their_memory = (draw(3, 7, DIM, seed=2).requires_grad_() for _ in range(2))
    future = nn.Transformer.generate_square_subsequent_mask(5).isinf()
    expected = torch_decoder(their_x, their_memory, tgt_mask=future, memory_key_padding_mask=~PADDING)
    actual = x
    for block in blocks:
        memory_keys = block.project_memory(memory)
        actual = block(actual, causal=True, memory=memory_keys, memory_mask=key_mask(PADDING)).x
    close(actual, expected)
    weights = draw(3, 5, DIM, seed=3)
    (actual * weights).sum().backward()
    (expected * weights).sum().backward()
    assert_same_gradients(close, pairs)
    close(x.grad, their_x.grad)
    close(memory.grad, their_memory.grad)
    assert (memory.grad[~PADDING] == 0).all()


def sinusoids(length: int, *, halves: bool = False) -> Tensor:
    """Vaswani et al. 2017, section 3.5, number by number; in halves, all sines come first."""
    table = torch.zeros(length, DIM, dtype=torch.float64)
    for position in range(length):
        for k in range(DIM // 2):
            angle = position / 10000 ** (2 * k / DIM)
            sine, cosine = (k, DIM // 2 + k) if halves else (2 * k, 2 * k + 1)
            table[position, sine], table[position, cosine] = math.sin(angle), math.cos(angle)
    return table


def embedded(table: Tensor, ids: Tensor) -> Tensor:
    return table[ids] * math.sqrt(DIM) + sinusoids(ids.shape[1])


def words() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(3, VOCAB, (3, 7), generator=generator).masked_fill(~PADDING, 0)
    return source, torch.randint(1, VOCAB, (3, 5), generator=generator)


def stack(norm_first: bool, activation: Any, **more: Any) -> TransformerConfig:
    return TransformerConfig(
        dim=DIM, num_heads=HEADS, num_layers=LAYERS, ffn_dim=FFN, activation=activation, norm_first=norm_first, **more
    )


@styles
@torch.no_grad()
def test_the_whole_model_is_nn_transformer(norm_first: bool, activation: str) -> None:
    """Embeddings, scale, positions, both stacks, final norms where pre-norm needs them, output layer."""
    part = stack(norm_first, activation)
    model = randomised(
        build(EncoderDecoderConfig(encoder=part, decoder=part), vocab_size=VOCAB, pad_id=0, seed=0).double()
    )
    theirs = nn.Transformer(num_encoder_layers=LAYERS, num_decoder_layers=LAYERS, **settings(norm_first, activation))
    pairs = []
    for ours, torch_stack in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
        for block, layer in zip(ours.layers, torch_stack.layers, strict=True):
            pairs += theirs_for_block(block, layer)
        if norm_first:
            pairs += same(ours.norm, torch_stack.norm)
        else:
            torch_stack.norm = None  # nn.Transformer has a last norm even where every block ends in one
            assert ours.norm is None
    copy_over(pairs)
    source, target = words()
    hidden = theirs(
        embedded(model.encoder.embed.tokens.weight, source),
        embedded(model.decoder.embed.tokens.weight, target),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(5).isinf(),
        src_key_padding_mask=~PADDING,
        memory_key_padding_mask=~PADDING,
    )
    expected = F.linear(hidden, model.decoder.output.weight, model.decoder.output.bias)
    # Our sines are taken in float32.
    torch.testing.assert_close(model(source, target, source_mask=PADDING), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_embedding_of_a_built_model(layout: Any, scale: bool) -> None:
    part = stack(True, "relu", sinusoid_layout=layout, scale_embedding=scale)
    model: Any = build(EncoderDecoderConfig(encoder=part, decoder=part), vocab_size=VOCAB, pad_id=0, seed=0).double()
    _, ids = words()
    for embed in (model.encoder.embed, model.decoder.embed):
        expected = embed.tokens.weight[ids] * (math.sqrt(DIM) if scale else 1) + sinusoids(5, halves=layout == "halves")
        torch.testing.assert_close(embed(ids), expected, rtol=1e-5, atol=1e-5)


@styles
@pytest.mark.parametrize("prefix", [False, True])
@torch.no_grad()
def test_decoder_only_is_an_encoder_with_a_mask(norm_first: bool, activation: str, prefix: bool) -> None:
    """One sentence at a time, joined by hand and without padding, through ``nn.TransformerEncoder``."""
    config = DecoderOnlyConfig(stack=stack(norm_first, activation), bidirectional_prefix=prefix)
    model = randomised(build(config, vocab_size=VOCAB, pad_id=0, seed=0).double())
    layer = nn.TransformerEncoderLayer(**settings(norm_first, activation))
    norm = nn.LayerNorm(DIM, dtype=torch.float64) if norm_first else None
    theirs = nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False)
    pairs = [
        pair for ours, other in zip(model.layers, theirs.layers, strict=True) for pair in theirs_for_block(ours, other)
    ]
    copy_over(pairs + (same(model.norm, norm) if norm_first else []))
    source, target = words()
    logits = model(source, target, source_mask=PADDING)
    for row, length in enumerate(PADDING.sum(dim=1).tolist()):
        text = torch.cat([source[row, :length], target[row]])[None]
        hidden_from = torch.ones(length + 5, length + 5, dtype=torch.bool).triu(1)
        if prefix:
            hidden_from[:length, :length] = False
        hidden = theirs(embedded(model.embed.tokens.weight, text), mask=hidden_from)
        expected = F.linear(hidden, model.output.weight, model.output.bias)[0, length:]
        torch.testing.assert_close(logits[row], expected, rtol=1e-5, atol=1e-5)


def test_rms_norm_by_hand() -> None:
    """x / sqrt(mean(x^2)): the root mean square of (3, 4, 0, 0) is 5/2."""
    norm: Any = make_norm("rms", 4)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    actual = norm(torch.tensor([[3.0, 4.0, 0.0, 0.0]]))
    torch.testing.assert_close(actual, torch.tensor([[1.2, 3.2, 0.0, 0.0]]), rtol=1e-6, atol=1e-6)


def test_layer_norm_by_hand() -> None:
    """(1, 3) has mean 2 and deviation 1."""
    actual = make_norm("layer", 2)(torch.tensor([[1.0, 3.0]]))
    torch.testing.assert_close(actual, torch.tensor([[-1.0, 1.0]]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "swiglu"])
@torch.no_grad()
def test_feed_forward_by_formula(close: Close, activation: Any, bias: bool) -> None:
    """Unit by unit: max(0, z); z times the normal distribution function of z, or its logistic; that times the gate."""
    block = randomised(FeedForward(3, 5, activation=activation, bias=bias).double())

    def linear(layer: nn.Linear, x: Tensor) -> Tensor:
        return layer.weight @ x + layer.bias if bias else layer.weight @ x

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
def test_block_by_formula(close: Close, norm_first: bool, cross: bool) -> None:
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

    def rms(x: Tensor, norm: Any) -> Tensor:
        return x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() * norm.weight

    steps: list[Any] = [(lambda h: block.self_attn(h, causal=True).output, block.self_attn_norm)]
    if cross:
        steps.append((lambda h: block.cross_attn(h, memory).output, block.cross_attn_norm))
    steps.append((block.feed_forward, block.feed_forward_norm))
    expected = x
    for part, norm in steps:
        expected = expected + part(rms(expected, norm)) if norm_first else rms(expected + part(expected), norm)
    actual = block(x, causal=True, memory=block.project_memory(memory) if cross else None).x
    close(actual, expected)
