"""The loss by hand."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selfattn.data.batches import Batch
from selfattn.training.loss import batch_loss, divergence, logits_loss, token_loss

TRUE_MASK = torch.tensor([[True, True]])


def test_it_is_minus_the_log_of_the_right_tokens_share() -> None:
    # Shares e / (e + 1) and 1 / (e + 1) of two tokens.
    logits = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    expected = (-math.log(math.e / (math.e + 1)) - math.log(1 / (math.e + 1))) / 2
    assert token_loss(logits, torch.tensor([[0, 1]]), TRUE_MASK).item() == pytest.approx(expected, abs=1e-6)
    assert token_loss(logits, torch.tensor([[0, 0]]), TRUE_MASK).item() == pytest.approx(0.313262, abs=1e-6)


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


def batch_of(mask: list[list[bool]]) -> Batch:
    tokens = torch.ones(len(mask), len(mask[0]), dtype=torch.int64)
    return Batch(tokens, tokens.bool(), tokens, tokens, torch.tensor(mask), [*range(len(mask))])


def test_r_drop_is_half_its_weight_times_the_divergence_of_the_halves() -> None:
    p, q = torch.tensor([0.75, 0.25]).log(), torch.tensor([0.25, 0.75]).log()
    logits = torch.stack([p, q, p, q, p, p])[:, None].expand(6, 2, 2)  # apart in the first two rows of each half
    batch = batch_of([[True, True], [True, False], [True, False]] * 2)
    # Of the right token's negative logs, 8 are counted: five times p's and three times q's.
    plain = -(5 * math.log(0.25) + 3 * math.log(0.75)) / 8
    assert logits_loss(logits, batch, label_smoothing=0.0, r_drop=0.0).item() == pytest.approx(plain, abs=1e-6)
    # The halves are p, q, p and q, p, p: apart by log(3) / 2 at the three real tokens of the first two rows, of four.
    apart = 3 / 4 * math.log(3) / 2
    for weight in (0.5, 4.0):
        found = logits_loss(logits, batch, label_smoothing=0.0, r_drop=weight).item()
        assert found == pytest.approx(plain + weight * apart / 2, abs=1e-6)


def test_a_divergence_in_half_precision_is_computed_in_float32() -> None:
    p, q = torch.tensor([[[2.0, 0.0]]]).bfloat16(), torch.tensor([[[0.0, 2.0]]]).bfloat16()
    found = divergence(p, q, torch.tensor([[True]]))
    assert found.dtype is torch.float32
    assert found.item() == pytest.approx(2 * math.tanh(1), abs=1e-6)
    assert divergence(p.double(), q.double(), torch.tensor([[True]])).dtype is torch.float64


class Told(nn.Module):
    """A model whose states are given; it can be asked for its logits at once, or for what goes before them."""

    def __init__(self, vocabulary: int, *, has_states: bool = True) -> None:
        super().__init__()
        self.states = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(0))
        self.output, self.has_states, self.asked = nn.Linear(2, vocabulary), has_states, list[str]()

    def pre_logits(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(states=self.states, output=self.output, logits=self._logits) if self.has_states else None

    def forward(self, *_: Any, **__: Any) -> Tensor:
        assert not self.has_states, "this would compute everything twice"
        return self._logits()

    def _logits(self) -> Tensor:
        self.asked.append("logits")
        return self.output(self.states)


@pytest.mark.parametrize(
    ("model", "at_once"), [(Told(4095), True), (Told(4096), False), (Told(9, has_states=False), True)]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_a_batch_has_the_loss_of_its_logits_in_either_way(
    model: Told, at_once: bool, smoothing: float, r_drop: float
) -> None:
    """From 4,096 tokens on the logits of a batch are not made all at once."""
    batch = batch_of([[True, True, False], [True, True, True]] * 2)
    expected = logits_loss(model.output(model.states), batch, label_smoothing=smoothing, r_drop=r_drop)
    model.asked.clear()
    found = batch_loss(model, batch, label_smoothing=smoothing, r_drop=r_drop)  # type: ignore[arg-type]
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    assert (model.asked == ["logits"]) == (at_once or r_drop > 0)
    if not smoothing and not r_drop:
        assert batch_loss(model, batch).item() == found.item()  # type: ignore[arg-type]
