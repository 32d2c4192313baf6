"""What is built on the meta device, emptied and initialised is what is built as usual: parts, and every model."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from zoo import VARIANTS

from selfattn.attention import Alibi, Learned, MultiHeadAttention, RelativeBias, Rotary, Sinusoidal, make_score
from selfattn.attention.positions import Retention
from selfattn.layers import FeedForward, RecurrentStack, TokenEmbedding, TransformerBlock, initialise
from selfattn.layers.transformer import make_norm
from selfattn.models.build import build
from selfattn.registry import POSITIONS, SCORES
from selfattn.streams import generator


def ours(parts: Mapping[str, Any]) -> list[str]:
    """Return the names of the project's own parts; tests of plugins register others."""
    return [name for name, part in parts.items() if part.__module__.startswith("selfattn.")]


PARTS: dict[str, Callable[[], nn.Module]] = {
    **{score: lambda score=score: make_score(score, 4, 4, max_length=7) for score in ours(SCORES)},
    "sinusoidal": lambda: Sinusoidal(8),
    "learned": lambda: Learned(7, 8),
    "rotary": lambda: Rotary(4),
    "alibi": lambda: Alibi(3),
    "retention": lambda: Retention(3),
    "t5": lambda: RelativeBias(3),
    "layer norm": lambda: make_norm("layer", 8),
    "rms norm": lambda: make_norm("rms", 8),
    "swiglu": lambda: FeedForward(8, 12, activation="swiglu"),
    "embedding": lambda: TokenEmbedding(nn.Embedding(7, 8, padding_idx=0), Learned(7, 8), scale=True),
    "lstm": lambda: RecurrentStack(8, hidden_dim=6, cell="lstm", num_layers=2, direction="both", residual=True),
    "attention": lambda: MultiHeadAttention(8, num_heads=2, num_kv_heads=1, position=Alibi(2), qk_norm=True),
    "block": lambda: TransformerBlock(
        8, self_attn=MultiHeadAttention(8, num_heads=2), feed_forward=FeedForward(8, 12), norm="rms"
    ),
}


def tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers by name, those too that no state dict has."""
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))


def filled(make: Callable[[], Any]) -> Any:
    """Build on the meta device and fill; what was not filled is NaN."""
    with torch.device("meta"):
        module = make()
    module.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in tensors(module).values():
            tensor.fill_(torch.nan)
    initialise(module, generator(3, "init"))
    return module


def assert_same(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(actual[name], tensor), name


@pytest.mark.parametrize("part", PARTS)
def test_a_part(part: str) -> None:
    usual = PARTS[part]()
    initialise(usual, generator(3, "init"))
    assert_same(tensors(filled(PARTS[part])), tensors(usual))


def test_every_position_is_among_the_parts() -> None:
    assert {*ours(POSITIONS)} - {"none"} <= PARTS.keys()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_and_its_shared_weights(variant: str) -> None:
    usual, model = (make() for make in (lambda: _build(variant), lambda: filled(lambda: _build(variant))))
    assert_same(tensors(model), tensors(usual))
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in usual.named_parameters()]
    ids, mask = torch.tensor([[5, 6, 2]]), torch.ones(1, 3, dtype=torch.bool)
    model.eval()
    usual.eval()
    assert torch.equal(model(ids, ids, source_mask=mask), usual(ids, ids, source_mask=mask))


def _build(variant: str) -> Any:
    return build(VARIANTS[variant], vocab_size=7, seed=3)
