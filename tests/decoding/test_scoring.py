"""Scores of given targets, on a model whose logits are written by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from selfattn.data.batches import Batch
from selfattn.decoding.scoring import TargetScore, score_targets
from selfattn.models.protocol import Memory, Seq2Seq

EOS = 2


class ByHand(Seq2Seq):
    """Given logits ``[b t v]``; in training mode it gives nonsense."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        raise AssertionError

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        return self.logits * math.nan if self.training else self.logits


# Two sentences: "5 6 7 <eos>" with the target "8 9 <eos>", and "5 <eos>" with the target "8 <eos>".
SOURCE = torch.tensor([[5, 6, 7, EOS], [5, EOS, 0, 0]])
TARGET_IN = torch.tensor([[1, 8, 9], [1, 8, 0]])
TARGET_OUT = torch.tensor([[8, 9, EOS], [8, EOS, 0]])


def score_of(model: Seq2Seq, target_out: Tensor = TARGET_OUT, mask: Tensor = TARGET_OUT != 0) -> Any:
    return score_targets(model, Batch(SOURCE, SOURCE != 0, TARGET_IN, target_out, mask, [0, 1]))


def probabilities() -> Tensor:
    rows = torch.full((2, 3, 11), 0.05)
    rows[0, 0, 8], rows[0, 1, 9], rows[0, 2, EOS] = 0.5, 0.25, 0.125
    rows[1, 0, 8], rows[1, 1, EOS] = 0.25, 0.5
    rows[..., 0] += 1 - rows.sum(dim=-1)
    return rows


def test_scores_by_hand() -> None:
    model = ByHand(probabilities().log() + torch.randn(2, 3, 1)).train()
    scores = score_of(model)
    halvings = torch.tensor([[1.0, 2.0, 3.0], [2.0, 1.0, 0.0]])
    torch.testing.assert_close(scores, -math.log(2) * halvings)
    assert scores.double().sum(dim=-1).tolist() == pytest.approx([-6 * math.log(2), -3 * math.log(2)], abs=1e-5)
    assert model.training


def test_the_mean_of_a_token() -> None:
    assert TargetScore(log_probability=-6.0, tokens=4).per_token == -1.5


def test_what_stands_at_padding_is_not_read() -> None:
    logits = probabilities().log()
    logits[1, 2] = math.nan
    scores = score_of(ByHand(logits), TARGET_OUT.masked_fill(TARGET_OUT == 0, -100))
    assert scores[1, 2] == 0
    assert scores[1].double().sum().item() == pytest.approx(-3 * math.log(2), abs=1e-5)


def test_scores_of_half_precision_are_float32() -> None:
    assert score_of(ByHand(probabilities().log().bfloat16())).dtype == torch.float32
