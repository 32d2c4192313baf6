"""The loss by hand."""

from __future__ import annotations

import math

import pytest
import torch

from selfattn.training.objective.loss import token_loss

TRUE_MASK = torch.tensor([[True, True]])


def test_it_is_minus_the_log_of_the_right_tokens_share() -> None:
    # Shares e / (e + 1) and 1 / (e + 1) of two tokens.
    logits = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    expected = (-math.log(math.e / (math.e + 1)) - math.log(1 / (math.e + 1))) / 2
    assert token_loss(logits, torch.tensor([[0, 1]]), TRUE_MASK).item() == pytest.approx(expected, abs=1e-6)


def test_smoothing_spreads_its_share_over_the_vocabulary() -> None:
    logits = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    right, wrong = math.log(math.e / (math.e + 1)), math.log(1 / (math.e + 1))
    # epsilon 0.2 over 2 tokens: the right one is wanted with 0.8 + 0.1, the other with 0.1.
    loss = token_loss(logits, torch.tensor([[0, 0]]), TRUE_MASK, label_smoothing=0.2).item()
    assert loss == pytest.approx(-(0.9 * right + 0.1 * wrong), abs=1e-6)


def test_padding_is_neither_in_the_sum_nor_in_the_count_nor_in_the_gradient() -> None:
    logits = torch.randn(2, 3, 5, requires_grad=True)
    target = torch.tensor([[1, 2, 0], [4, 0, 0]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    loss = token_loss(logits, target, mask)
    alone = [
        token_loss(logits[b : b + 1, t : t + 1], target[b : b + 1, t : t + 1], torch.tensor([[True]]))
        for b, t in ((0, 0), (0, 1), (1, 0))
    ]
    assert loss.item() == pytest.approx(sum(one.item() for one in alone) / 3, abs=1e-6)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert (gradient[~mask] == 0).all()
    assert (gradient[mask] != 0).all()


def test_nan_in_padding_is_not_felt() -> None:
    logits = torch.zeros(1, 2, 3)
    logits[0, 1] = float("nan")
    assert token_loss(logits, torch.tensor([[1, 0]]), torch.tensor([[True, False]])).item() == pytest.approx(
        math.log(3)
    )


def test_half_precision_is_summed_in_float32() -> None:
    loss = token_loss(torch.zeros(1, 2, 7, dtype=torch.bfloat16), torch.tensor([[1, 0]]), TRUE_MASK)
    assert loss.dtype is torch.float32
    assert loss.item() == pytest.approx(math.log(7), abs=1e-6)
