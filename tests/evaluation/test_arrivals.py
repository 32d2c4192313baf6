"""Examples until a target: values that can be checked by hand, parity with SciPy, and properties."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from selfattn.evaluation.variances import (
    compare_arrivals,
    describe_arrivals,
    mostly_fails,
    rank_sum_distribution,
    runs_for_ratio,
)

CAP = 20_000
RUNS = st.lists(st.one_of(st.none(), st.integers(100, CAP)), min_size=1, max_size=6)


def test_the_distribution_counts_all_orders_of_the_runs():
    for a, b in ((1, 1), (2, 3), (4, 3), (5, 5)):
        counted = np.zeros(a * b + 1)
        for places in combinations(range(a + b), a):
            others = [place for place in range(a + b) if place not in places]
            counted[sum(place > other for place in places for other in others)] += 1
        np.testing.assert_allclose(rank_sum_distribution(a, b), counted / counted.sum())


@pytest.mark.parametrize("seed", range(5))
def test_p_is_that_of_scipy_where_all_arrive_and_none_are_equal(seed):
    chance = np.random.default_rng(seed)
    values = chance.permutation(np.arange(1000, 1012)).tolist()
    a, b = values[:5], values[5:]
    (test,) = compare_arrivals({"a": a, "b": b}, CAP)
    assert test.p == pytest.approx(min(1.0, stats.mannwhitneyu(a, b, method="exact").pvalue))


def test_five_runs_each_that_do_not_overlap():
    """1 of 252 orders in either direction; the interval ends at the third ratio from either end."""
    (test,) = compare_arrivals({"a": [1000] * 5, "b": [1600, 1700, 1800, 1900, 2000]}, CAP)
    assert test.p == pytest.approx(2 / math.comb(10, 5))
    assert test.word == "better"
    assert (1 / test.high, 1 / test.ratio, 1 / test.low) == pytest.approx((1.6, 1.8, 2.0))
    (test,) = compare_arrivals({"a": [6000, 6100, 6200, 6300, 6400], "b": [5000, 5100, 5200, 5300, 5400]}, CAP)
    assert (test.word, test.low < 1.2) == ("worse", True)


def test_three_runs_never_decide():
    (test,) = compare_arrivals({"a": [1000] * 3, "b": [9000] * 3}, CAP)
    assert (test.word, test.low, test.high, test.p) == ("not told apart", None, None, pytest.approx(0.1))


def test_a_model_that_never_arrives_needs_more_than_the_cap():
    (test,) = compare_arrivals({"a": [None] * 5, "b": [5000] * 5}, CAP)
    assert (test.word, test.bound, test.high) == ("worse", "more", None)
    assert test.ratio == pytest.approx(4.0)
    assert test.low == pytest.approx(4.0)
    assert describe_arrivals([None] * 5, CAP).median is None


def test_a_run_that_fails_now_and_then_makes_no_model_slower():
    a, b = list(range(1000, 1800, 100)), [None, None, None, *range(1400, 1900, 100)]
    (test,) = compare_arrivals({"a": a, "b": b}, CAP)  # all runs alone: p = 0.021; those that arrive: 0.17
    assert (test.word, round(test.p, 2)) == ("not told apart", 0.17)
    assert [mostly_fails([None] * k + [5000] * (5 - k)) for k in range(6)] == [False] * 5 + [True]


@given(RUNS, RUNS)
@settings(deadline=None)
def test_the_other_side_says_the_reverse(a, b):
    (test,) = compare_arrivals({"a": a, "b": b}, CAP)
    (other,) = compare_arrivals({"b": b, "a": a}, CAP)
    swapped = other.swapped()
    assert (swapped.p, swapped.word) == (pytest.approx(test.p), test.word)
    for name in ("low", "high"):
        ours, theirs = getattr(test, name), getattr(swapped, name)
        assert (ours is None and theirs is None) or ours == pytest.approx(theirs)


@given(RUNS, RUNS)
@settings(deadline=None)
def test_p_and_interval_agree_and_the_unit_of_counting_does_not_matter(a, b):
    (test,) = compare_arrivals({"a": a, "b": b}, CAP)
    excludes = (test.low or 0.0) > 1 or (test.high is not None and test.high < 1)
    assert excludes == (test.p <= 0.05)
    doubled = [[None if count is None else 2 * count for count in runs] for runs in (a, b)]
    (other,) = compare_arrivals({"a": doubled[0], "b": doubled[1]}, 2 * CAP)
    assert (other.p, other.word) == (test.p, test.word)


def test_a_smaller_factor_takes_more_runs():
    assert (runs_for_ratio(2.0, 0.2) or 99) < (runs_for_ratio(1.3, 0.2) or 0)
    assert runs_for_ratio(1.01, 0.2) is None
