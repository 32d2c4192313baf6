"""Blocks and decoder-only models against PyTorch's layers and against formulas, in float64.

The encoder-decoder and its layers are compared in `test_convert_torch.py`.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.convert.torch_modules import block_to_torch
from selfattn.layers import FeedForward, TransformerBlock, make_norm
from selfattn.models.build import build
from selfattn.models.decoder_only.config import DecoderOnlyConfig
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


def draw(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


PADDING = torch.tensor([[True] * 5 + [False] * 2, [True] * 7, [True] * 2 + [False] * 5])


def sinusoids(length: int) -> Tensor:
    """Vaswani et al. 2017, section 3.5, number by number."""
    table = torch.zeros(length, DIM, dtype=torch.float64)
    for position in range(length):
        for k in range(DIM // 2):
            angle = position / 10000 ** (2 * k / DIM)
            table[position, 2 * k], table[position, 2 * k + 1] = math.sin(angle), math.cos(angle)
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
@pytest.mark.parametrize("prefix", [False, True])
@torch.no_grad()
def test_decoder_only_is_an_encoder_with_a_mask(norm_first: bool, activation: str, prefix: bool) -> None:
    """One sentence at a time, joined by hand and without padding, through ``nn.TransformerEncoder``."""
    config = DecoderOnlyConfig(stack=stack(norm_first, activation), bidirectional_prefix=prefix)
    model = randomised(build(config, vocab_size=VOCAB, pad_id=0, seed=0).double())
    layers = [block_to_torch(block).double().eval() for block in model.layers]
    source, target = words()
    logits = model(source, target, source_mask=PADDING)
    for row, length in enumerate(PADDING.sum(dim=1).tolist()):
        text = torch.cat([source[row, :length], target[row]])[None]
        hidden_from = torch.ones(length + 5, length + 5, dtype=torch.bool).triu(1)
        if prefix:
            hidden_from[:length, :length] = False
        hidden = embedded(model.embed.tokens.weight, text)
        for layer in layers:
            hidden = layer(hidden, src_mask=hidden_from)
        hidden = model.norm(hidden) if norm_first else hidden
        expected = F.linear(hidden, model.output.weight, model.output.bias)[0, length:]
        torch.testing.assert_close(logits[row], expected, rtol=1e-5, atol=1e-5)


def test_rms_norm_by_hand() -> None:
    """x / sqrt(mean(x^2)): the root mean square of (3, 4, 0, 0) is 5/2."""
    norm: Any = make_norm("rms", 4)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    actual = norm(torch.tensor([[3.0, 4.0, 0.0, 0.0]]))
    torch.testing.assert_close(actual, torch.tensor([[1.2, 3.2, 0.0, 0.0]]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "swiglu"])
@torch.no_grad()
def test_feed_forward_by_formula(close: Close, activation: Any) -> None:
    """Unit by unit: max(0, z); z times the normal distribution function of z, or its logistic; that times the gate."""
    block = randomised(FeedForward(3, 5, activation=activation).double())

    def linear(layer: nn.Linear, x: Tensor) -> Tensor:
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
