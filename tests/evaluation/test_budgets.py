"""Budgets and examples until a target against references and figures by hand: p-values, crossings, design."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from selfattn.evaluation.design import Design, budget_differences, locate
from selfattn.evaluation.metrics import ExactMatch
from selfattn.evaluation.significance import score_runs
from selfattn.evaluation.variances import (
    SMALLEST_P,
    compare_arrivals,
    describe_arrivals,
    mostly_fails,
    runs_for_ratio,
    sign_flip_p,
    t_quantile,
    t_tail,
)
from selfattn.results.quality import BudgetDifference, Crossing, LogOdds, PairTest

CLEAR = {
    "-": (-3.0, -4.0, -2.0),
    "m": (-1.0, -2.0, 0.5),
    "0": (0.0, -1.0, 1.0),
    "p": (1.0, -0.5, 2.0),
    "+": (3.0, 2.0, 4.0),
}


def differences(signs):
    """At budgets 1, 2, 4, ...: clearly below 0, below it, on it, above it, clearly above."""
    return [BudgetDifference(2.0**k, *CLEAR[sign]) for k, sign in enumerate(signs)]


def right(draws, share):
    """What exact match counts: ``[s i 2]``."""
    return np.stack([draws < share, np.ones_like(draws)], axis=-1)


@pytest.mark.parametrize(
    ("signs", "crossing"),
    [
        ("-+", Crossing("located", (1.0, 2.0), 1)),
        ("-mp+", Crossing("located", (1.0, 8.0), 1)),
        ("--m0++", Crossing("located", (2.0, 16.0), 1)),
        ("+0-", Crossing("located", (1.0, 4.0), 1)),
        ("+0-+", Crossing("located", (4.0, 8.0), 2)),  # two, of which this is the nearest
        ("mp", Crossing("not located")),  # means that cross are no crossing
        ("m+", Crossing("not located")),
        ("--", Crossing("none seen")),
        ("+p0", Crossing("none seen")),
        ("000", Crossing("none seen")),
    ],
)
def test_a_crossing_is_claimed_of_clear_signs_alone(signs, crossing):
    assert locate(differences(signs)) == crossing
    assert locate(differences(signs)[::-1]) == crossing
    turned = [BudgetDifference(cell.budget, -cell.difference, -cell.high, -cell.low) for cell in differences(signs)]
    assert locate(turned) == crossing
    touching = [BudgetDifference(1, -1.0, -2.0, 0.0), BudgetDifference(2, 1.0, 0.0, 2.0)]
    assert locate(touching).kind == "not located"


def test_differences_are_those_of_a_comparison_at_a_stricter_level():
    draws = np.random.default_rng(0).random((2, 2, 5, 500))
    shares = {1.0: (0.7, 0.8), 4.0: (0.9, 0.85)}
    counts = {
        budget: {name: right(draws[k, n], share) for n, (name, share) in enumerate(zip("ab", both, strict=True))}
        for k, (budget, both) in enumerate(shares.items())
    }
    cells = budget_differences(counts, ExactMatch(), ("b", "a"), level=0.9)
    for cell, (budget, models) in zip(cells, counts.items(), strict=True):
        scores = {name: values[..., 0] for name, values in models.items()}
        usual = score_runs(scores).comparison().between("b", "a")
        assert (cell.budget, cell.difference) == (budget, usual.difference)
        assert (cell.low, cell.high) == pytest.approx((usual.low, usual.high))  # 90 % of two is 95 % of each
        strict = score_runs(scores).pair("b", "a", 0.01)
        assert strict.low < cell.low < cell.high < strict.high


def designed(first, second, half, odds=None):
    runs = np.asarray(first), np.asarray(second)
    test = PairTest("a", "b", "m", 0.0, -half, half, 0.5, 0.5, "not told apart", odds=odds)
    return Design.of(test, *runs, items=1000)


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_smallest_difference_is_found_with_its_power(seeds):
    """Where nothing but the seeds varies it is Student's t, whose power SciPy knows."""
    runs = np.linspace(-1.0, 1.0, seeds)
    error = math.sqrt(2 * runs.var(ddof=1) / seeds)
    t = stats.t.ppf(0.975, 2 * seeds - 2)
    smallest = designed(runs, runs, t * error).smallest()
    assert stats.nct.sf(t, 2 * seeds - 2, smallest / error) == pytest.approx(0.8, abs=0.02)


def test_of_more_items_than_one_the_variance_is_what_seeds_do_not_explain():
    runs = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    t, z = 2.306004, 1.959964
    smallest = designed(runs, runs, math.sqrt(t**2 * 1.0 + z**2 * 0.25)).smallest()
    assert smallest == pytest.approx(math.sqrt(t**2 + z**2 / 4) + math.sqrt(0.888890**2 + 0.841621**2 / 4), rel=1e-5)


def test_shares_are_designed_on_log_odds():
    first, second = np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0])  # log-odds of 1,000 items
    shares = [(1001 / (1 + np.exp(-y)) - 0.5) / 1000 for y in (first, second)]
    half = 2.776445 * math.sqrt(2 / 3)
    design = designed(*shares, 0.1, LogOdds(1.0, 1 - half, 1 + half))
    assert design.smallest() == pytest.approx(designed(first, second, half).smallest(), rel=1e-5)
    assert design.in_score(1.0) == pytest.approx(1 / (1 + math.exp(-3)) - 1 / (1 + math.exp(-2)))
    assert designed(first, second, half).in_score(1.0) == 1.0


def test_seeds_do_what_is_asked_of_them_and_one_less_does_not():
    design = designed([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], 2.776 * math.sqrt(2 / 3))
    for difference in (3.0, -1.0, 0.3):
        seeds = design.seeds_needed(difference)
        assert design.smallest(seeds) <= abs(difference)
        assert seeds == 3 or design.smallest(seeds - 1) > abs(difference)
    few = [0.0, 0.001, 0.002]
    assert designed(few, few, 0.5).seeds_needed(0.1) is None  # no seeds make up for items
    assert designed([0.0, 1.0], [0.0, 1.0], 9.0).seeds == 2


def test_more_runs_of_one_model_do_not_stand_for_runs_of_the_other():
    """Both vary alike, so that as many runs of each are needed whether the pilot had 3 and 3 or 3 and 300."""
    few = [-1.0, 0.0, 1.0]
    many = np.array(few).repeat(100) * math.sqrt(299 / 300 * 1.5)  # variance 1, too
    uneven = designed(few, many, 0.0)
    assert uneven.smallest(20) == pytest.approx(designed(few, few, 0.0).smallest(20), rel=1e-6)


# Student's t, the exact test over items and Holm's correction, against counting by hand and SciPy


def flips(right, wrong, same=0):
    """Differences of two models, one of which alone is right on some items, the other on others."""
    return [1] * right + [-1] * wrong + [0] * same


def test_quantiles_are_those_of_a_printed_table_and_undo_the_tail():
    table = {1: 12.706, 2: 4.303, 3: 3.182, 10: 2.228, 30: 2.042, math.inf: 1.96}  # two-sided 5 %
    assert {df: round(t_quantile(df), 3) for df in table} == table
    for df, tail in product((1, 1.7, 37.5, 1e5, math.inf), (0.9, 1e-6)):
        assert t_tail(t_quantile(df, tail), df) == pytest.approx(tail, rel=1e-9)


def test_scale_does_not_matter_and_p_stays_in_its_range():
    assert sign_flip_p([3, 3, 3, -6]) == pytest.approx(sign_flip_p([1, 1, 1, -2]), abs=1e-15)
    assert sign_flip_p(flips(400, 0)) == SMALLEST_P
    assert sign_flip_p(flips(4, 0)) == pytest.approx(2 / 2**4)  # of 16 choices of signs all plus and all minus
    assert sign_flip_p(flips(3, 1)) == pytest.approx(10 / 16)  # all but the 6 choices with two of each
    for items in range(1, 200, 2):  # of an odd number of items some model is always ahead by at least one
        assert 1 - 1e-12 < sign_flip_p([(-1) ** place for place in range(items)]) <= 1.0


# Examples until a target: values that can be checked by hand, parity with SciPy, and properties

CAP = 20_000
RUNS = st.lists(st.one_of(st.none(), st.integers(100, CAP)), min_size=1, max_size=6)


@pytest.mark.parametrize("seed", range(5))
def test_p_is_that_of_scipy_where_all_arrive_and_none_are_equal(seed):
    chance = np.random.default_rng(seed)
    values = chance.permutation(np.arange(1000, 1012)).tolist()
    a, b = values[:5], values[5:]
    (test,) = compare_arrivals({"a": a, "b": b}, CAP)
    assert test.p == pytest.approx(min(1.0, stats.mannwhitneyu(a, b, method="exact").pvalue))


TEN = [100 * k for k in range(10, 20)]


@pytest.mark.parametrize(
    ("a", "b", "word", "p", "ratios"),
    [
        # 1 of 252 orders in either direction; the interval ends at the third ratio from either end.
        ([1000] * 5, [1600, 1700, 1800, 1900, 2000], "better", 2 / math.comb(10, 5), (1 / 2.0, 1 / 1.8, 1 / 1.6)),
        ([1000] * 3, [9000] * 3, "not told apart", 0.1, (None, 1 / 9, None)),  # three runs never decide
        ([None] * 5, [5000] * 5, "worse", 2 / math.comb(10, 5), (4.0, 4.0, None)),  # the cap over what the other needs
        # A run that fails now and then makes no model slower. All runs alone: p = 0.021; those that arrive: 0.17.
        (TEN[:8], [None] * 3 + TEN[4:9], "not told apart", 0.1709, None),
    ],
)
def test_examples_until_a_target_by_hand(a, b, word, p, ratios):
    (test,) = compare_arrivals({"a": a, "b": b}, CAP)
    assert (test.word, test.p) == (word, pytest.approx(p, rel=1e-3))
    if ratios is not None:
        assert (test.low, test.ratio, test.high) == pytest.approx(ratios)
    assert test.bound == ("more" if None in a else "")


def test_a_model_that_fails_mostly_has_no_median():
    assert describe_arrivals([None] * 5, CAP).median is None
    assert [mostly_fails([None] * k + [5000] * (5 - k)) for k in range(6)] == [False] * 5 + [True]


@given(RUNS, RUNS)
@settings(deadline=None)
def test_the_other_side_says_the_reverse_p_and_interval_agree_and_the_unit_of_counting_does_not_matter(a, b):
    (test,) = compare_arrivals({"a": a, "b": b}, CAP)
    (other,) = compare_arrivals({"b": b, "a": a}, CAP)
    swapped = other.swapped()
    assert (swapped.p, swapped.word) == (pytest.approx(test.p), test.word)
    for name in ("low", "high"):
        ours, theirs = getattr(test, name), getattr(swapped, name)
        assert (ours is None and theirs is None) or ours == pytest.approx(theirs)
    excludes = (test.low or 0.0) > 1 or (test.high is not None and test.high < 1)
    assert excludes == (test.p <= 0.05)
    doubled = [[None if count is None else 2 * count for count in runs] for runs in (a, b)]
    (other,) = compare_arrivals({"a": doubled[0], "b": doubled[1]}, 2 * CAP)
    assert (other.p, other.word) == (test.p, test.word)


def test_a_smaller_factor_takes_more_runs():
    assert (runs_for_ratio(2.0, 0.2) or 99) < (runs_for_ratio(1.3, 0.2) or 0)
    assert runs_for_ratio(1.01, 0.2) is None
