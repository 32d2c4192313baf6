"""Teacher forcing with a probability: its two ends, its schedule, and its coins."""

from typing import Any

import pytest
import torch

from selfattn.data.batches import Batch, collate
from selfattn.data.pairs import Example
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.presets import PRESETS
from selfattn.models.transformer_config import TransformerConfig
from selfattn.training import step as step_module
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed import Replica
from selfattn.training.loss import sampled_logits, teacher_forcing_probability
from selfattn.training.optimizer import make_optimizer
from selfattn.training.step import Stepper

VOCAB = 13
SOURCE = torch.tensor([[4, 5, 6, 7, 2], [8, 2, 0, 0, 0], [9, 10, 2, 0, 0]])
TARGET = torch.tensor([[1, 5, 7, 9], [1, 6, 2, 0], [1, 11, 12, 4]])
BATCH = Batch(SOURCE, SOURCE > 0, TARGET, TARGET, TARGET > 0, [0, 1, 2])
STACK = TransformerConfig(dim=8, num_heads=2, ffn_dim=11, dropout=0.0)
TINY = EncoderDecoderConfig(encoder=STACK, decoder=STACK)


def logits(model: Any, probability: float, seed: int = 0) -> torch.Tensor:
    coins = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        return sampled_logits(model, BATCH, teacher_forcing=probability, generator=coins)


@pytest.mark.parametrize("name", ["rnn-attention", "transformer", "decoder-only", "rnn-encoder-transformer-decoder"])
def test_probability_1_is_forward_and_0_reads_its_own_guesses(name: str) -> None:
    model = build(PRESETS[name].config, vocab_size=VOCAB, pad_id=0, seed=3).eval()
    with torch.no_grad():
        torch.testing.assert_close(
            logits(model, 1.0), model(SOURCE, TARGET, source_mask=SOURCE > 0), rtol=1e-4, atol=1e-5
        )
        # Its own guesses, found by reading everything again for every step.
        read = TARGET[:, :1]
        for _ in range(TARGET.shape[1] - 1):
            read = torch.cat([read, model(SOURCE, read, source_mask=SOURCE > 0)[:, -1:].argmax(dim=-1)], dim=1)
        expected = model(SOURCE, read, source_mask=SOURCE > 0)
    torch.testing.assert_close(logits(model, 0.0), expected, rtol=1e-4, atol=1e-5)


def test_the_coins_decide_and_their_seed_decides_the_coins() -> None:
    model = build(TINY, vocab_size=VOCAB, pad_id=0, seed=3).eval()
    assert torch.equal(logits(model, 0.5, seed=1), logits(model, 0.5, seed=1))
    draws = [logits(model, 0.5, seed=seed) for seed in range(9)]
    assert any(not torch.equal(draws[0], other) for other in draws)
    assert all(torch.equal(draws[0][:, 0], other[:, 0]) for other in draws)  # <bos> is always read


def test_a_coin_of_zero_is_no_right_token_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(TINY, vocab_size=VOCAB, pad_id=0, seed=3).eval()
    expected = logits(model, 0.0)
    monkeypatch.setattr(torch, "rand", lambda shape, **_: torch.zeros(shape))
    assert torch.equal(logits(model, 0.0), expected)


def test_the_schedule_by_hand() -> None:
    assert [teacher_forcing_probability(0.75, 0.25, step, total_steps=3) for step in (1, 2, 3, 4)] == [
        0.75,
        0.5,
        0.25,
        0.25,
    ]
    assert [teacher_forcing_probability(0.75, None, step, total_steps=3) for step in (1, 3)] == [0.75, 0.75]
    assert teacher_forcing_probability(0.5, 0.0, 1, total_steps=1) == 0.5
    assert [teacher_forcing_probability(1.0, 1.0, step, total_steps=7) for step in range(1, 8)] == [1.0] * 7


def test_a_step_forces_with_the_probability_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    probabilities: list[float] = []
    real = step_module.sampled_logits

    def recording(*arguments: Any, **options: Any) -> torch.Tensor:
        probabilities.append(options["teacher_forcing"])
        return real(*arguments, **options)

    monkeypatch.setattr(step_module, "sampled_logits", recording)
    model = build(TINY, vocab_size=VOCAB, pad_id=0, seed=0)
    batch = collate([Example([4, 2], [5, 4, 2])] * 3, 0, 1, range(3))
    for end in (1.0, 0.0):
        config = TrainingConfig(teacher_forcing_end=end)
        stepper = Stepper(Replica(model), make_optimizer(model, config), config, torch.Generator())
        for number in range(1, 7):
            stepper.step([batch], number, total_steps=6, epoch=0)
    assert probabilities == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.0])  # nothing is sampled where it is 1
