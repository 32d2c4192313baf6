"""Student's t, the exact test over items and Holm's correction, against counting by hand and SciPy."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from selfattn.evaluation.statistics.p_values import SMALLEST_P, holm, sign_flip_p, t_quantile, t_tail


def flips(right: int, wrong: int, same: int = 0) -> list[int]:
    """Differences of two models, one of which alone is right on some items, the other on others."""
    return [1] * right + [-1] * wrong + [0] * same


def test_quantiles_are_those_of_a_printed_table_and_undo_the_tail() -> None:
    table = {1: 12.706, 2: 4.303, 3: 3.182, 10: 2.228, 30: 2.042, math.inf: 1.96}  # two-sided 5 %
    assert {df: round(t_quantile(df), 3) for df in table} == table
    for df, tail in product((1, 1.7, 37.5, 1e5, math.inf), (0.9, 1e-6)):
        assert t_tail(t_quantile(df, tail), df) == pytest.approx(tail, rel=1e-9)


def test_mcnemar_by_hand() -> None:
    # Of 2^4 choices of signs, 4 plus and 4 minus are as far from 0 as observed: 2 / 16.
    assert sign_flip_p(flips(4, 0)) == pytest.approx(2 / 16)
    # 3 to 1: all but the 6 of 16 choices with two of each.
    assert sign_flip_p(flips(3, 1)) == pytest.approx(10 / 16)
    assert sign_flip_p(flips(2, 2)) == sign_flip_p(flips(0, 0, 5)) == 1
    assert sign_flip_p(flips(7, 2, 0)) == pytest.approx(sign_flip_p(flips(7, 2, 991)), rel=1e-12)


@pytest.mark.parametrize(("right", "wrong"), [(5, 0), (40, 61), (130, 100), (1499, 1500)])
def test_scipy_agrees_with_mcnemar(right: int, wrong: int) -> None:
    expected = stats.binomtest(right, right + wrong).pvalue
    assert sign_flip_p(flips(right, wrong, 17)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_every_choice_of_signs_is_counted(seed: int) -> None:
    differences = np.random.default_rng(seed).integers(-5, 6, size=11)
    sums = np.array(list(product((-1, 1), repeat=11))) @ differences
    expected = (abs(sums) >= abs(differences.sum())).mean()
    assert sign_flip_p(differences) == pytest.approx(expected, abs=1e-13)


def test_scale_does_not_matter_and_p_stays_in_its_range() -> None:
    assert sign_flip_p([3, 3, 3, -6]) == pytest.approx(sign_flip_p([1, 1, 1, -2]), abs=1e-15)
    assert sign_flip_p(flips(400, 0)) == SMALLEST_P
    for items in range(1, 200, 2):  # of an odd number of items some model is always ahead by at least one
        assert 1 - 1e-12 < sign_flip_p([(-1) ** place for place in range(items)]) <= 1.0


@pytest.mark.parametrize("wrong", [[0.5, 1.0], [[1, 0]], 3])
def test_bad_differences_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"expects \[items\] whole numbers"):
        sign_flip_p(wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_holm_by_hand() -> None:
    # Sorted: 0.005 x 4, 0.01 x 3, 0.03 x 2, and 0.04 x 1 raised to the 0.06 before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.04]) == [0.04]
    assert holm([]) == []
    assert holm([0.5, 0.9, 0.5]) == [1.0, 1.0, 1.0]
