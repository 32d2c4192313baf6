"""Student's t against closed forms, printed tables and SciPy."""

from __future__ import annotations

import math

import pytest

from selfattn.evaluation.statistics.p_values import f_tail, t_quantile, t_tail

DEGREES = [1, 1.7, 2, 3.3, 8, 37.5, 1999, 1e5]
VALUES = [1e-6, 0.1, 0.7, 1.96, 4.3, 31.0, 1e3]


@pytest.mark.parametrize("t", [-3.0, 0.0, 0.2, 1.0, 7.0])
def test_one_and_two_degrees_have_closed_forms(t: float) -> None:
    assert t_tail(t, 1) == pytest.approx(1 - 2 * math.atan(abs(t)) / math.pi, abs=1e-14)
    assert t_tail(t, 2) == pytest.approx(1 - abs(t) / math.sqrt(2 + t * t), abs=1e-14)


def test_many_degrees_are_the_normal_distribution() -> None:
    assert t_tail(1.959963984540054, math.inf) == pytest.approx(0.05, abs=1e-15)
    assert t_tail(2.5, 999_999.0) == pytest.approx(t_tail(2.5, math.inf), rel=1e-4)
    assert t_quantile(math.inf) == pytest.approx(1.959963984540054, abs=1e-14)


def test_a_printed_table() -> None:
    table = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 10: 2.228, 30: 2.042}  # two-sided 5 %
    assert {df: round(t_quantile(df), 3) for df in table} == table
    assert round(t_quantile(2, 0.01), 3) == 9.925


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("tail", [0.9, 0.05, 1e-6])
def test_quantile_undoes_tail(df: float, tail: float) -> None:
    assert t_tail(t_quantile(df, tail), df) == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("t", VALUES)
def test_scipy_agrees(df: float, t: float) -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the reference here, and no dependency")
    assert t_tail(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=1e-8, abs=1e-300)


def test_tail_falls_with_distance_and_with_degrees() -> None:
    assert t_tail(0, 3) == 1
    assert t_tail(1, 3) > t_tail(2, 3) > t_tail(20, 3) > 0
    assert t_tail(2, 1) > t_tail(2, 2) > t_tail(2, 300) > t_tail(2, math.inf)


def test_the_ends_are_exact() -> None:
    assert [t_tail(t, 5) for t in (0.0, 1e200, -1e200)] == [1.0, 0.0, 0.0]
    assert [f_tail(f, 2, 5) for f in (0.0, 1e308, math.inf)] == [1.0, 0.0, 0.0]
    assert t_tail(2.0, 1e6) == t_tail(2.0, math.inf) != t_tail(2.0, 999_999)
