"""Weights from and to PyTorch's own modules: the same outputs and gradients, the same state dict there and back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.attention import key_mask
from selfattn.convert.torch_modules import (
    attention_from_torch,
    attention_to_torch,
    block_from_torch,
    block_to_torch,
    transformer_from_torch,
    transformer_to_torch,
)
from selfattn.layers import TokenEmbedding
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.transformer_config import TransformerConfig

DIM, HEADS, FFN, VOCAB = 6, 3, 11, 13
PADDING = torch.tensor([[True] * 5 + [False] * 2, [True] * 7])
# PyTorch says so whenever its encoder cannot take the nested-tensor path, which is not asked for here.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")

LAYERS = [
    (norm_first, activation, bias)
    for norm_first in (True, False)
    for activation in ("relu", "gelu", F.silu)
    for bias in (True, False)
]
layers = pytest.mark.parametrize(("norm_first", "activation", "bias"), LAYERS)


def settings(norm_first: bool, activation: Any, bias: bool) -> dict[str, Any]:
    return {
        "d_model": DIM,
        "nhead": HEADS,
        "dim_feedforward": FFN,
        "dropout": 0.0,
        "activation": activation,
        "norm_first": norm_first,
        "bias": bias,
        "layer_norm_eps": 1e-3,
        "batch_first": True,
        "dtype": torch.float64,
    }


def randomised(module: nn.Module) -> Any:
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return module


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def close(actual: Tensor | None, expected: Tensor | None) -> None:
    assert actual is not None
    assert expected is not None
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-10)


def assert_same_state(actual: nn.Module, expected: nn.Module) -> None:
    """Bit for bit, names, dtypes and devices too."""
    ours, theirs = actual.state_dict(), expected.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype
        assert torch.equal(ours[name], tensor), name


def assert_same_gradients(ours: nn.Module, theirs: nn.Module, to_torch: Callable[[Any], nn.Module]) -> None:
    """A conversion only moves numbers: it moves gradients as it moves weights."""
    holder = copy.deepcopy(ours)
    for slot, parameter in zip(holder.parameters(), ours.parameters(), strict=True):
        assert parameter.grad is not None
        slot.data = parameter.grad
    moved = dict(to_torch(holder).named_parameters())
    expected = dict(theirs.named_parameters())
    assert moved.keys() == expected.keys()
    for name, parameter in expected.items():
        close(moved[name].detach(), parameter.grad)


def backward(*outputs: Tensor) -> None:
    for output in outputs:
        (output * draw(*output.shape, seed=9).detach()).sum().backward()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("context_dim", [None, 5])
def test_attention(bias: bool, context_dim: int | None) -> None:
    theirs = randomised(
        nn.MultiheadAttention(
            DIM, HEADS, bias=bias, kdim=context_dim, vdim=context_dim, batch_first=True, dtype=torch.float64
        )
    )
    ours = attention_from_torch(theirs)
    x, their_x = draw(2, 3, DIM), draw(2, 3, DIM)
    context, their_context = (draw(2, 7, context_dim or DIM, seed=2) for _ in range(2))
    output, weights = ours(x, context, mask=key_mask(PADDING), need_weights=True)
    expected, their_weights = theirs(
        their_x, their_context, their_context, key_padding_mask=~PADDING, average_attn_weights=False
    )
    close(output, expected)
    close(weights, their_weights)
    backward(output, expected)
    close(x.grad, their_x.grad)
    close(context.grad, their_context.grad)
    assert_same_gradients(ours, theirs, attention_to_torch)
    assert_same_state(attention_to_torch(ours), theirs)
    assert_same_state(attention_from_torch(attention_to_torch(ours)), ours)


@layers
def test_encoder_layer(norm_first: bool, activation: Any, bias: bool) -> None:
    theirs = randomised(nn.TransformerEncoderLayer(**settings(norm_first, activation, bias)))
    ours = block_from_torch(theirs)
    x, their_x = draw(2, 7, DIM), draw(2, 7, DIM)
    actual = ours(x, mask=key_mask(PADDING)).x[PADDING]
    expected = theirs(their_x, src_key_padding_mask=~PADDING)[PADDING]
    close(actual, expected)
    backward(actual, expected)
    close(x.grad, their_x.grad)
    assert_same_gradients(ours, theirs, block_to_torch)
    back = block_to_torch(ours)
    assert_same_state(back, theirs)
    assert_same_state(block_from_torch(back), ours)
    close(back(their_x, src_key_padding_mask=~PADDING)[PADDING], expected)


@layers
def test_decoder_layer(norm_first: bool, activation: Any, bias: bool) -> None:
    theirs = randomised(nn.TransformerDecoderLayer(**settings(norm_first, activation, bias)))
    ours = block_from_torch(theirs)
    x, their_x = draw(2, 3, DIM), draw(2, 3, DIM)
    memory, their_memory = draw(2, 7, DIM, seed=2), draw(2, 7, DIM, seed=2)
    actual = ours(x, causal=True, memory=ours.project_memory(memory), memory_mask=key_mask(PADDING)).x
    masks = {"tgt_mask": nn.Transformer.generate_square_subsequent_mask(3).isinf(), "memory_key_padding_mask": ~PADDING}
    expected = theirs(their_x, their_memory, **masks)
    close(actual, expected)
    backward(actual, expected)
    close(x.grad, their_x.grad)
    close(memory.grad, their_memory.grad)
    assert_same_gradients(ours, theirs, block_to_torch)
    back = block_to_torch(ours)
    assert_same_state(back, theirs)
    assert_same_state(block_from_torch(back), ours)
    close(back(their_x, their_memory, **masks), expected)


def between(module: nn.Transformer) -> tuple[Any, TokenEmbedding, TokenEmbedding, nn.Linear]:
    """Our model around PyTorch's, with embeddings and an output layer."""
    source, target = (TokenEmbedding(randomised(nn.Embedding(VOCAB, DIM).double()), scale=True) for _ in range(2))
    output = nn.Linear(DIM, VOCAB, dtype=torch.float64)
    return transformer_from_torch(module, source=source, target=target, output=output), source, target, output


def ids(*shape: int) -> Tensor:
    return torch.randint(1, VOCAB, shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_transformer(norm_first: bool, bias: bool) -> None:
    theirs = randomised(
        nn.Transformer(num_encoder_layers=2, num_decoder_layers=3, **settings(norm_first, "gelu", bias))
    )
    ours, source, target, output = between(theirs)
    assert ours.decoder.output is output
    assert ours.encoder.embed is source
    assert ours.decoder.embed is target
    assert_same_state(transformer_to_torch(ours), theirs)
    texts, prefixes = ids(2, 7), ids(2, 3)
    actual = ours(texts, prefixes, source_mask=PADDING)
    hidden = theirs(
        source(texts).masked_fill(~PADDING[..., None], 0.0),
        target(prefixes),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(3).isinf(),
        src_key_padding_mask=~PADDING,
        memory_key_padding_mask=~PADDING,
    )
    close(actual, output(hidden))
    backward(actual)
    gradients = [parameter.grad for parameter in (*source.parameters(), *target.parameters(), *output.parameters())]
    for part in (source, target, output):
        part.zero_grad()
    backward(output(hidden))
    again = [parameter.grad for parameter in (*source.parameters(), *target.parameters(), *output.parameters())]
    for first, second in zip(gradients, again, strict=True):
        close(first, second)
    assert_same_gradients(ours, theirs, transformer_to_torch)


@pytest.mark.parametrize("norm_first", [True, False])
@torch.no_grad()
def test_a_model_of_ours_to_torch(norm_first: bool) -> None:
    """One that PyTorch's constructor would not make: stacks of two depths, a last norm only where there is one."""
    stack = TransformerConfig(dim=DIM, num_heads=HEADS, ffn_dim=FFN, norm_first=norm_first, num_layers=2)
    config = EncoderDecoderConfig(encoder=stack, decoder=TransformerConfig(dim=DIM, num_heads=2, norm_first=norm_first))
    model: Any = randomised(build(config, vocab_size=VOCAB, pad_id=0, seed=0).double()).eval()
    theirs = transformer_to_torch(model)
    assert (theirs.encoder.norm is not None) == norm_first
    assert (theirs.encoder.num_layers, theirs.decoder.num_layers, theirs.nhead) == (2, 1, 2)
    texts, prefixes = ids(2, 7), ids(2, 3)
    hidden = theirs(
        model.encoder.embed(texts),
        model.decoder.embed(prefixes),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(3).isinf(),
    )
    everything = torch.ones_like(texts, dtype=torch.bool)
    close(model(texts, prefixes, source_mask=everything), model.decoder.output(hidden))
    back = transformer_from_torch(
        theirs, source=model.encoder.embed, target=model.decoder.embed, output=model.decoder.output
    )
    assert_same_state(back, model)


def test_what_is_no_weight_comes_along() -> None:
    """Dropouts, epsilon, dtype, mode; and no random number is drawn."""
    theirs = nn.TransformerDecoderLayer(DIM, HEADS, FFN, dropout=0.25, layer_norm_eps=0.5, dtype=torch.bfloat16).eval()
    theirs.self_attn.dropout, theirs.dropout.p = 0.125, 0.375
    state = torch.get_rng_state()
    block = block_from_torch(theirs)
    back = block_to_torch(block)
    assert torch.equal(torch.get_rng_state(), state)
    assert block.self_attn.dropout == back.self_attn.dropout == 0.125
    assert block.cross_attn is not None
    assert block.cross_attn.dropout == back.multihead_attn.dropout == 0.25
    assert block.feed_forward.dropout.p == back.dropout.p == 0.375
    assert block.dropout.p == back.dropout1.p == back.dropout2.p == back.dropout3.p == 0.25
    for norm in (block.self_attn_norm, block.cross_attn_norm, block.feed_forward_norm, back.norm1, back.norm3):
        assert isinstance(norm, nn.LayerNorm)
        assert norm.eps == 0.5
    for module in (block, back):
        assert {parameter.dtype for parameter in module.parameters()} == {torch.bfloat16}
        assert not any(part.training for part in module.modules())
