"""Dropout: the share, the scale, the gradient, the seed."""

import math

import pytest
import torch
from torch import nn

from selfattn.layers.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_share_and_scale(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    count = 200_003  # not a multiple of four
    dropped = Dropout(p)(torch.ones(count, dtype=dtype))
    kept = dropped != 0
    # Within five standard errors of a binomial share.
    assert abs(kept.double().mean().item() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / count)
    scale = torch.tensor(2**16 / (2**16 - round(p * 2**16)), dtype=dtype)
    assert (dropped[kept] == scale).all()
    assert dropped.dtype == dtype


def test_neighbours_are_independent() -> None:
    """All four that share a drawn number fall as often together as chance has it."""
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(100_000, 4)) != 0).double()
    together = kept.T @ kept / len(kept)
    expected = torch.full((4, 4), 0.25, dtype=torch.float64).fill_diagonal_(0.5)
    assert torch.allclose(together, expected, atol=5 * 0.5 / math.sqrt(len(kept)))


def test_the_gradient_is_that_of_what_was_kept() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 7, 3, requires_grad=True)
    dropped = Dropout(0.4)(x)
    dropped.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad != 0, dropped != 0)
    assert torch.allclose(dropped, x * x.grad)


def test_a_seed_decides_and_evaluation_is_the_identity() -> None:
    layer, x = Dropout(0.5), torch.randn(11, 13)
    torch.manual_seed(3)
    first, second = layer(x), layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, second)
    assert layer.eval()(x) is x


def test_the_ends() -> None:
    x = torch.randn(7)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(7))
    assert Dropout(0.3)(torch.ones(0, 3)).shape == (0, 3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Dropout(1.5)
    assert isinstance(Dropout(0.3), nn.Dropout)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """How many numbers were drawn and from where; each 16-bit number comes once."""
    seen = []

    def every(self: torch.Tensor, low: int, high: int) -> torch.Tensor:
        seen.append((self.numel(), low, high))
        return self.copy_(torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.int64)[: self.numel()])

    monkeypatch.setattr(torch.Tensor, "random_", every)
    return seen


@pytest.mark.parametrize(("p", "fallen"), [(2**-16, 1), (3 * 2**-16, 3), (0.25, 2**14), (1 - 2**-16, 2**16 - 1)])
def test_of_all_numbers_that_can_be_drawn_p_fall(p: float, fallen: int, drawn: list[tuple[int, int, int]]) -> None:
    dropped = Dropout(p)(torch.ones(2**16, dtype=torch.float64))
    assert int((dropped == 0).sum()) == fallen
    assert dropped.sum().item() == pytest.approx(2**16)  # the mean is kept
    assert drawn == [(2**14, -(2**63), 2**63 - 1)]


@pytest.mark.parametrize(("count", "draws"), [(1, 1), (4, 1), (5, 2), (8, 2)])
def test_four_elements_share_a_number(count: int, draws: int, drawn: list[tuple[int, int, int]]) -> None:
    Dropout(0.5)(torch.ones(count))
    assert [numel for numel, _, _ in drawn] == [draws]
