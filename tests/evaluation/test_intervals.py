"""Intervals: values by hand where there are any, laws elsewhere, and coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.evaluation.statistics.intervals import bootstrap_mean, bootstrap_share, wilson


def test_the_mean_is_that_of_all_runs() -> None:
    assert bootstrap_share([[True, False, True, True], [True, True, True, True]]).mean == 0.875


def test_it_comes_close_to_the_normal_interval_for_many_items() -> None:
    # p = 0.5, n = 10,000: half a width of 1.96 * sqrt(0.25 / 10,000) = 0.0098.
    interval = bootstrap_share([[True, False] * 5000])
    assert interval.low == pytest.approx(0.5 - 0.0098, abs=0.001)
    assert interval.high == pytest.approx(0.5 + 0.0098, abs=0.001)


def test_wilson_by_hand() -> None:
    # All right: low = n / (n + z^2), with z^2 = 3.8415.
    assert wilson(10, 10) == (pytest.approx(10 / 13.8415, abs=1e-4), 1.0)
    assert wilson(0, 10) == (0.0, pytest.approx(3.8415 / 13.8415, abs=1e-4))
    assert wilson(1, 2) == (pytest.approx(0.0945, abs=1e-4), pytest.approx(0.9055, abs=1e-4))


@pytest.mark.parametrize("answer", [True, False])
def test_certainty_is_never_claimed(answer: bool) -> None:
    interval = bootstrap_share([[answer] * 100])
    assert interval.mean == float(answer)
    assert interval.high - interval.low == pytest.approx(3.8415 / 103.8415, abs=1e-4)


def test_runs_that_fail_on_the_same_items_are_as_unsure_as_one_run() -> None:
    run = [True] * 180 + [False] * 20
    one, same = bootstrap_share([run]), bootstrap_share([run] * 3)
    assert (one.low, one.high) == (same.low, same.high)
    other = bootstrap_share([run, run[::-1]])  # other items: each item's mean varies less
    assert other.high - other.low < one.high - one.low


def test_the_same_seed_gives_the_same_interval_and_the_order_of_items_is_nothing() -> None:
    run = [True] * 50 + [False] * 7
    assert bootstrap_share([run]) == bootstrap_share([run[::-1]])
    assert bootstrap_share([run]) != bootstrap_share([run], seed=1)


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=3))
def test_it_holds_its_mean_and_stays_a_share(runs: list[list[bool]]) -> None:
    interval = bootstrap_share(runs)
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1


def test_it_covers_the_truth_about_as_often_as_it_says() -> None:
    rng, truth, trials = np.random.default_rng(0), 0.9, 300
    covered = 0
    for trial in range(trials):
        interval = bootstrap_share([rng.random(400) < truth], seed=trial, resamples=500)
        covered += interval.low <= truth <= interval.high
    assert 0.91 <= covered / trials <= 0.98


@pytest.mark.parametrize("runs", [[], [[]], [True, False]])
def test_nothing_to_estimate_from_is_refused(runs: list[list[bool]]) -> None:
    with pytest.raises(ValueError, match="at least one run"):
        bootstrap_share(runs)


def test_draws_are_as_many_as_asked_for_from_the_seed_asked_for() -> None:
    right = [[True, False, True, True, False, True, True]]
    once = bootstrap_share(right, resamples=1)
    assert once.mean in (once.low, once.high)  # one draw: it is one end, the mean the other
    scores = np.random.default_rng(0).random((1, 50))
    assert bootstrap_mean(scores) == bootstrap_mean(scores, seed=0, resamples=2000)
    found = [bootstrap_mean(scores, seed=seed, resamples=resamples) for seed in (0, 1) for resamples in (2000, 2001)]
    assert len({(one.low, one.high) for one in found}) == 4
