"""The learning rate by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.training.config import ScheduleName
from selfattn.training.optimizer import lr_factor

SCHEDULES: tuple[ScheduleName, ...] = ("constant", "linear", "cosine", "inverse_sqrt")


def factors(schedule: ScheduleName, total: int, warmup: int) -> list[float]:
    return [lr_factor(schedule, step, total_steps=total, warmup_steps=warmup) for step in range(1, total + 1)]


def test_values_by_hand() -> None:
    assert factors("constant", 4, 2) == [0.5, 1.0, 1.0, 1.0]
    assert factors("linear", 5, 2) == [0.5, 1.0, 0.75, 0.5, 0.25]
    assert factors("linear", 4, 0) == pytest.approx([0.8, 0.6, 0.4, 0.2])
    assert factors("cosine", 4, 1) == pytest.approx([1.0, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2])
    assert factors("inverse_sqrt", 9, 1) == pytest.approx([1 / math.sqrt(k) for k in range(1, 10)])
    assert factors("inverse_sqrt", 16, 4)[-1] == 0.5


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
