"""Sentences that leave the batch, weights that overflow."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from fake_models import Writer
from torch import Tensor

from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import greedy, sample
from selfattn.errors import DivergedError
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
