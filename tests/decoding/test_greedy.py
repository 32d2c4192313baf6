"""Sentences that leave the batch, weights that overflow, joined projections."""

from functools import partial
from typing import Any

import pytest
import torch
from fake_models import Writer
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention, Rotary
from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import greedy, sample
from selfattn.decoding.stepping import evaluating, stepping
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


@pytest.mark.parametrize(
    "decode", [greedy, partial(beam_search, beam_size=3), partial(sample, generator=torch.Generator())]
)
def test_weights_that_overflow_on_an_input_are_named(decode: Any) -> None:
    model = build("transformer", vocab_size=VOCAB)
    torch.nn.init.constant_(model.decoder.output.bias, torch.inf)  # type: ignore[union-attr]  # an encoder-decoder
    source, mask = sources()
    with pytest.raises(DivergedError, match="the weights of this model overflow on this input"):
        decode(model, source, mask, bos_id=BOS, eos_id=2, max_length=3)


# Joined projections compute the same in fewer products, and the model stays as it is


def with_projection(name: str, module: nn.Module) -> MultiHeadAttention:
    attention = MultiHeadAttention(12, num_heads=3)
    setattr(attention, name, module)
    return attention


def block_of(attention: MultiHeadAttention) -> TransformerBlock:
    return TransformerBlock(12, self_attn=attention, feed_forward=FeedForward(12, 5), dropout=0.5)


@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"num_kv_heads": 1, "qk_norm": True, "position": Rotary(4)}])
def test_plain_projections_are_one_product(settings: dict[str, Any]) -> None:
    block = block_of(MultiHeadAttention(12, num_heads=3, **settings))
    model, called = nn.Sequential(nn.ModuleList([block]), block.feed_forward), list[str]()
    for name in ("q_proj", "k_proj", "v_proj"):
        getattr(block.self_attn, name).register_forward_hook(lambda *_, name=name: called.append(name))
    first, second = torch.randn(2, 2, 3, 12)
    with evaluating(model):
        expected = [block(x, causal=True).x for x in (first, second)]
    called.clear()
    before = dict(model.named_modules())
    with stepping(model) as stepper:
        copied = stepper[0][0]  # type: ignore[index]  # a list of blocks
        outputs = [copied(x, causal=True).x for x in (first, second)]
        assert copied.feed_forward is stepper[1] is block.feed_forward
    assert called == []
    torch.testing.assert_close(outputs, expected)
    assert dict(model.named_modules()) == before
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize(
    "attention",
    [
        with_projection("q_proj", nn.Sequential(nn.Linear(12, 12))),
        with_projection("k_proj", nn.Linear(12, 12, bias=False)),
        MultiHeadAttention(12, num_heads=3, project=False),
    ],
    ids=["adapter", "bias", "bare"],
)
def test_others_are_left_alone(attention: MultiHeadAttention) -> None:
    block = block_of(attention)
    with stepping(block) as stepper:
        assert stepper is block
