"""Sentences that leave the batch, weights that overflow, joined projections."""

import copy
import math
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_models import Writer
from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from torch.nn.utils import prune

from selfattn.attention import MultiHeadAttention, Rotary
from selfattn.attention.projections import JoinedLinears
from selfattn.decoding.beam import beam_search
from selfattn.decoding.common import evaluating
from selfattn.decoding.greedy import greedy, sample
from selfattn.errors import DivergedError
from selfattn.layers import FeedForward, TransformerBlock
from selfattn.models.build import build

VOCAB, BOS = 11, 1
LENGTHS = (5, 2, 7, 3, 1)


def sources() -> tuple[Tensor, Tensor]:
    drawn = torch.randint(3, VOCAB, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return drawn.masked_fill(~mask, 0), mask


def test_finished_sentences_leave_the_batch_and_the_order_is_kept() -> None:
    def write(source: Tensor, read: Tensor) -> Tensor:
        """The source's tokens one after the other, then 2."""
        script = torch.nn.functional.pad(source, (0, 1))[:, read.shape[1] - 1]
        return torch.nn.functional.one_hot(torch.where(script == 0, 2, script), VOCAB).float() * 100

    model = Writer(write)
    source = torch.tensor([[5, 6, 7], [8, 0, 0], [0, 0, 0], [9, 10, 0]])
    found = greedy(model, source, source != 0, bos_id=1, eos_id=2, max_length=10)
    assert [one.ids for one in found] == [[5, 6, 7], [8], [], [9, 10]]
    assert [one.finished for one in found] == [True] * 4
    assert [one.score for one in found] == pytest.approx([0.0] * 4, abs=1e-6)
    assert model.rows == [4, 3, 2, 1]


def test_without_scores_the_same_tokens_are_written_and_nothing_is_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("transformer", vocab_size=VOCAB, seed=0)
    source, mask = sources()
    write = partial(greedy, model, source, mask, bos_id=BOS, eos_id=2, max_length=9)
    expected = write()
    monkeypatch.setattr("selfattn.decoding.greedy.chosen_log_probabilities", None)
    found = write(scored=False)
    assert [(one.ids, one.finished) for one in found] == [(one.ids, one.finished) for one in expected]
    assert all(math.isnan(one.score) and math.isnan(one.log_probability) for one in found)


@pytest.mark.parametrize(
    "decode",
    [
        greedy,
        partial(greedy, scored=False),
        partial(beam_search, beam_size=3),
        partial(sample, generator=torch.Generator()),
    ],
)
def test_weights_that_overflow_on_an_input_are_named(decode: Any) -> None:
    model = build("transformer", vocab_size=VOCAB)
    torch.nn.init.constant_(model.decoder.output.bias, torch.inf)  # type: ignore[union-attr]  # an encoder-decoder
    source, mask = sources()
    with pytest.raises(DivergedError, match="the weights of this model overflow on this input"):
        decode(model, source, mask, bos_id=BOS, eos_id=2, max_length=3)


# Projections that lie together in memory are computed as one product in inference mode


def block_of(attention: MultiHeadAttention) -> TransformerBlock:
    return TransformerBlock(12, self_attn=attention, feed_forward=FeedForward(12, 5), dropout=0.5)


@pytest.fixture
def joined_products(monkeypatch: pytest.MonkeyPatch) -> list[JoinedLinears]:
    """The joined projections that were computed as one product so far."""
    products: list[JoinedLinears] = []
    compute = JoinedLinears.__call__

    def count(self: JoinedLinears, x: Tensor) -> tuple[Tensor, ...]:
        products.append(self)
        return compute(self, x)

    monkeypatch.setattr(JoinedLinears, "__call__", count)
    return products


def moved(block: TransformerBlock) -> TransformerBlock:
    """Go the ways by which a layer's weights get other memory."""
    copied = copy.deepcopy(pickle.loads(pickle.dumps(block))).double().float()
    copied.load_state_dict(block.state_dict())
    return copied


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"num_kv_heads": 1, "qk_norm": True, "position": Rotary(4)}])
def test_plain_projections_are_one_product(settings: dict[str, Any], joined_products: list[JoinedLinears]) -> None:
    block = block_of(MultiHeadAttention(12, num_heads=3, **settings))
    x = torch.randn(2, 3, 12)
    for each in (block, moved(block)):
        with evaluating(each), torch.no_grad():
            expected = each(x, causal=True).x
            assert joined_products == []
        with evaluating(each), torch.inference_mode():
            output = each(x, causal=True).x
        torch.testing.assert_close(output, expected)
        assert len(joined_products) == 1
        joined_products.clear()


def test_weights_that_lie_together_are_saved_as_before(tmp_path: Path) -> None:
    layer = MultiHeadAttention(12, num_heads=3)
    save_model(layer, tmp_path / "weights")
    other = MultiHeadAttention(12, num_heads=3)
    load_model(other, tmp_path / "weights")
    for name, tensor in layer.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])
        assert tensor.untyped_storage().nbytes() == tensor.nbytes
    assert layer.share_memory().q_proj.weight.is_shared()


def trained(block: TransformerBlock) -> None:
    block(torch.randn(2, 3, 12)).x.square().sum().backward()
    torch.optim.AdamW(block.parameters(), lr=0.1).step()


def assigned(block: TransformerBlock) -> None:
    others = block_of(MultiHeadAttention(12, num_heads=3)).state_dict()
    block.load_state_dict(others, assign=True)


def cut(block: TransformerBlock) -> None:
    weight = block.self_attn.k_proj.weight
    weight.data = weight.data.T


CHANGES: dict[str, tuple[Callable[[TransformerBlock], Any], int]] = {
    "trained": (trained, 1),
    "assigned": (assigned, 0),
    "assigned and joined": (lambda block: (assigned(block), block.self_attn.join_projections()), 1),
    "other memory": (lambda block: setattr(block.self_attn.v_proj.weight, "data", torch.randn(12, 12)), 0),
    "transposed": (cut, 0),
    "other bias": (lambda block: setattr(block.self_attn.q_proj, "bias", nn.Parameter(torch.randn(12))), 0),
    "no bias": (lambda block: setattr(block.self_attn.q_proj, "bias", None), 0),
    "pruned": (lambda block: prune.random_unstructured(block.self_attn.q_proj, "weight", 0.5), 0),
    "parametrised": (lambda block: nn.utils.parametrizations.weight_norm(block.self_attn.v_proj), 0),
    "hook": (lambda block: block.self_attn.q_proj.register_forward_hook(lambda module, args, y: 2 * y), 0),
    "adapter": (lambda block: setattr(block.self_attn, "q_proj", nn.Sequential(nn.Linear(12, 12))), 0),
    "shared": (lambda block: block.share_memory(), 0),
    "bare": (lambda block: setattr(block, "self_attn", MultiHeadAttention(12, num_heads=3, project=False)), 0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_no_plain_projection_is_computed_apart(change: str, joined_products: list[JoinedLinears]) -> None:
    act, products = CHANGES[change]
    block = block_of(MultiHeadAttention(12, num_heads=3))
    act(block)
    x = torch.randn(2, 3, 12)
    with evaluating(block), torch.no_grad():
        expected = block(x, causal=True).x
    with evaluating(block), torch.inference_mode():
        torch.testing.assert_close(block(x, causal=True).x, expected)
    assert len(joined_products) == products
