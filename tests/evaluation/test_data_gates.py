"""The gates on the data and on what a fresh model can learn, by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selfattn.data.examples import Example
from selfattn.data.pairs import Pair
from selfattn.evaluation.gates import overfitting as module
from selfattn.evaluation.gates.overfitting import overfitting
from selfattn.evaluation.gates.overlap import overlap


def pairs(*texts: str) -> list[Pair]:
    return [Pair(*text.split("=")) for text in texts]


@pytest.mark.parametrize(
    ("train", "share", "reason"),
    [
        ("", 0.0, "0 are in the training data word for word, 0 when case is ignored; of the targets 0"),
        ("A=9", 0.25, "0 are in the training data word for word, 1 when case is ignored; of the targets 0"),
        ("b=9", 0.5, "2 are in the training data word for word, 2 when case is ignored; of the targets 0"),
        ("b=9 b=9 B=1", 0.5, "2 are in the training data word for word, 2 when case is ignored; of the targets 3"),
        ("x=2", 0.0, "0 are in the training data word for word, 0 when case is ignored; of the targets 1"),
    ],
)  # fmt: skip
def test_repeats_are_counted_and_case_is_ignored(train: str, share: float, reason: str) -> None:
    test = pairs("a=1", "b=1", "b=1", "c=2")
    for limit in (0.25, 0.5):
        gate = overlap(iter(pairs(*train.split())), test, limit=limit)
        assert (gate.name, gate.value, gate.limit, gate.passed) == ("overlap", share, limit, share <= limit)
        assert gate.reason == f"of 4 test sources {reason}"


def test_one_in_a_hundred_is_allowed_by_default() -> None:
    test = [Pair(str(number), "x") for number in range(200)]
    assert overlap(test[:2], test).passed
    assert not overlap(test[:3], test).passed
    with pytest.raises(ValueError, match="at least one test pair"):
        overlap(test, [])


class Clock:
    """A model with one weight, and what the gate does with it, step by step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, losses: Sequence[float], known: Sequence[int]) -> None:
        self.weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.losses, self.known = losses, iter(known)
        self.step, self.now = 0, 1000.0
        self.looks: list[int] = []
        self.rates: list[list[float]] = []
        self.gradients: list[float] = []
        self.batches: list[Any] = []
        self.dropped: list[float] = []
        monkeypatch.setattr(module, "batch_loss", self.loss)
        monkeypatch.setattr(module, "greedy", self.greedy)
        monkeypatch.setattr(module, "make_optimizer", self.optimizer)
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.now)

    def train(self) -> Clock:
        return self

    def parameters(self) -> Iterator[nn.Parameter]:
        return iter([self.weight])

    def loss(self, _: object, batch: Any) -> Tensor:
        assert torch.is_grad_enabled()
        self.batches.append(batch)
        self.dropped.append(torch.rand(()).item())
        loss = self.losses[min(self.step, len(self.losses) - 1)]
        self.step, self.now = self.step + 1, self.now + 1.0
        return 5.0 * (self.weight - self.weight.detach()) + loss

    def optimizer(self, _: object, config: Any) -> Any:
        self.config = config
        groups = [{"lr": math.nan}, {"lr": math.nan}]

        def step() -> None:
            self.rates.append([group["lr"] for group in groups])
            assert self.weight.grad is not None
            self.gradients.append(self.weight.grad.item())

        def zero_grad(set_to_none: bool = False) -> None:
            assert set_to_none
            self.weight.grad = None

        return SimpleNamespace(param_groups=groups, step=step, zero_grad=zero_grad)

    def greedy(self, _: object, source: Tensor, mask: Tensor, *, bos_id: int, eos_id: int, max_length: int) -> Any:
        self.looks.append(self.step)
        assert (bos_id, eos_id, max_length) == (1, 2, 3)
        right = next(self.known)
        return [
            SimpleNamespace(finished=place != right + 1, ids=[7, 7] if place < right or place == right + 1 else [8])
            for place in range(len(source))
        ]


EXAMPLES = [Example([source, 2], [7, 7, 2]) for source in range(3, 13)]


def gate_of(clock: Clock, examples: Sequence[Example] = EXAMPLES, **given: Any) -> Any:
    return overfitting(lambda: clock, examples, pad_id=0, bos_id=1, eos_id=2, **given)  # type: ignore[arg-type]


def test_it_looks_every_twenty_steps_once_the_loss_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends where all is known."""
    clock = Clock(monkeypatch, [0.5] * 39 + [0.1] * 20 + [0.09], [3, 9, 10])
    gate = gate_of(clock)
    assert clock.looks == [60, 80, 100]
    assert (gate.name, gate.passed, gate.value, gate.limit) == ("overfitting", True, 1.0, 0.98)
    assert gate.reason == (
        "a fresh model writes 10 of 10 pairs after 100 steps in 100 seconds, at a loss of 0.09 nats a token"
    )


def test_the_rate_rises_for_twenty_steps_and_gradients_are_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, [9.0], [0])
    gate_of(clock, lr=0.4, steps=25)
    expected = [0.4 * min(1.0, step / 20) for step in range(1, 26)]
    assert [rates[0] for rates in clock.rates] == [rates[1] for rates in clock.rates] == pytest.approx(expected)
    assert (clock.config.lr, clock.config.weight_decay) == (0.4, 0.0)
    assert clock.gradients == pytest.approx([1.0] * 25, abs=1e-5)  # 5 before


@pytest.mark.parametrize(
    ("given", "losses", "steps"),
    [
        ({"steps": 7}, [9.0], 7),
        ({}, [9.0], 1500),  # however long they take: the clock of this test moves a second a step
        ({}, [9.0, 9.0, math.nan], 3),
        ({}, [math.inf], 1),
    ],
)
def test_it_ends_with_the_steps_or_a_loss_that_is_no_number(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], losses: list[float], steps: int
) -> None:
    clock = Clock(monkeypatch, losses, [4])
    gate = gate_of(clock, **given)
    assert (clock.step, clock.looks, gate.passed, gate.value) == (steps, [steps], False, 0.4)
    assert f"writes 4 of 10 pairs after {steps} steps in {steps} seconds, at a loss of " in gate.reason


def test_a_seed_decides_what_is_dropped_and_the_rate_is_three_thousandths(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = []
    for number, seed in enumerate(({}, {"seed": 0}, {"seed": 1})):
        torch.manual_seed(number)
        before, clock = torch.get_rng_state(), Clock(monkeypatch, [9.0], [0])
        gate_of(clock, steps=20, **seed)
        assert torch.equal(torch.get_rng_state(), before)
        assert clock.rates[-1] == [0.003, 0.003]
        dropped.append(clock.dropped)
    assert dropped[0] == dropped[1] != dropped[2]


@pytest.mark.parametrize(("known", "limit", "passed"), [(9, 0.9, True), (9, 0.91, False), (0, 0.0, True)])
def test_the_share_is_held_against_the_limit(
    monkeypatch: pytest.MonkeyPatch, known: int, limit: float, passed: bool
) -> None:
    gate = gate_of(Clock(monkeypatch, [9.0], [known]), steps=1, limit=limit)
    assert (gate.passed, gate.value, gate.limit) == (passed, known / 10, limit)


def test_the_first_64_sources_are_learnt_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, [9.0], [0])
    many = [Example([3 + place // 2, 2], [7 + place % 2, 7, 2]) for place in range(200)]
    gate = gate_of(clock, many, steps=1)
    assert "0 of 64 pairs" in gate.reason
    assert clock.batches[0].source[:, 0].tolist() == [*range(3, 67)]
    assert clock.batches[0].target_out.tolist() == [[7, 7, 2]] * 64  # the first target of each
    assert clock.batches[0].target_in.tolist() == [[1, 7, 7]] * 64
    with pytest.raises(ValueError, match="at least one example"):
        gate_of(clock, [])
