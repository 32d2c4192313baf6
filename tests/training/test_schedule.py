"""The learning rate by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfattn.training.config import ScheduleName
from selfattn.training.optimizer import lr_factor

SCHEDULES: tuple[ScheduleName, ...] = ("constant", "linear", "cosine", "inverse_sqrt", "one_cycle")


def factors(schedule: ScheduleName, total: int, warmup: int) -> list[float]:
    return [lr_factor(schedule, step, total_steps=total, warmup_steps=warmup) for step in range(1, total + 1)]


def test_values_by_hand() -> None:
    assert factors("constant", 4, 2) == [0.5, 1.0, 1.0, 1.0]
    assert factors("linear", 5, 2) == [0.5, 1.0, 0.75, 0.5, 0.25]
    assert factors("linear", 4, 0) == pytest.approx([0.8, 0.6, 0.4, 0.2])
    assert factors("cosine", 4, 1) == pytest.approx([1.0, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2])
    assert factors("inverse_sqrt", 9, 1) == pytest.approx([1 / math.sqrt(k) for k in range(1, 10)])
    assert factors("inverse_sqrt", 16, 4)[-1] == 0.5


@pytest.mark.parametrize("warmup", [2, 3, 7])
def test_one_cycle_is_that_of_torch(warmup: int) -> None:
    total = 11
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    peer = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1.0, total_steps=total, pct_start=warmup / total, cycle_momentum=False
    )
    expected = []
    for _ in range(total):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(expected) < total:
            peer.step()
    assert factors("one_cycle", total, warmup) == pytest.approx(expected)


def test_one_cycle_by_hand() -> None:
    assert factors("one_cycle", 5, 3) == pytest.approx([0.04, 0.52, 1.0, (1 + 4e-6) / 2, 4e-6])
    assert factors("one_cycle", 1, 0) == [1.0]


def test_without_warm_up_inverse_sqrt_begins_at_the_peak() -> None:
    assert factors("inverse_sqrt", 4, 0) == pytest.approx([1.0, 1 / math.sqrt(2), 1 / math.sqrt(3), 0.5])


def test_beyond_the_last_step_it_stays_at_the_last() -> None:
    assert lr_factor("linear", 99, total_steps=5, warmup_steps=2) == 0.25


@given(st.sampled_from(SCHEDULES), st.integers(1, 200), st.data())
def test_it_rises_to_one_then_never_rises_and_is_never_zero(
    schedule: ScheduleName, total: int, data: st.DataObject
) -> None:
    warmup = data.draw(st.integers(0, total))
    found = factors(schedule, total, warmup)
    rise, fall = found[:warmup], found[max(warmup - 1, 0) :]
    assert all(0 < factor <= 1 for factor in found)
    assert rise == sorted(rise)
    assert fall == sorted(fall, reverse=True)
    if warmup:
        assert found[warmup - 1] == 1.0
