"""Statistics against published numbers and other libraries: equal, or the difference stated (docs/statistics.md)."""

import math

import numpy as np
import pytest
from scipy import stats
from score_tables import table_of

from selfattn.evaluation.significance import RunScores, improvement, interquartile_mean, wilson
from selfattn.evaluation.variances import holm, sign_flip_p, t_quantile, t_tail, variances

# Van Dyke et al. (1993): two imaging techniques, five readers, 114 cases; areas under the curve. Analysis by the method
# of Obuchowski and Rockette with the jackknife, as OR-DBM MRMC 2.51 prints it.
READERS, CASES = 5, 114
AREAS = [
    np.array([0.91964573, 0.85877617, 0.90386473, 0.97310789, 0.82979066]),
    np.array([0.94782609, 0.90531401, 0.92173913, 0.99935588, 0.92995169]),
]
ERROR = (0.00101410, 0.00059047)  # of a reader, by technique
COV1, COV3 = 0.00034661, 0.00023903  # same reader, other technique; other reader, other technique
COV2 = (0.00048396, 0.00020419)  # other reader, same technique


def van_dyke():
    """The covariances of the ten areas under resampling of the cases, from the published components."""
    covariance = np.full((2 * READERS, 2 * READERS), COV3)
    for number in range(2):
        own = slice(number * READERS, (number + 1) * READERS)
        covariance[own, own] = COV2[number]
    covariance[np.arange(READERS), READERS + np.arange(READERS)] = COV1
    covariance[READERS + np.arange(READERS), np.arange(READERS)] = COV1
    np.fill_diagonal(covariance, np.repeat(ERROR, READERS))
    return covariance


@pytest.mark.parametrize(
    ("number", "error", "freedom", "half"), [(0, 0.03317360, 12.74, 0.0718), (1, 0.02156637, 12.71, 0.0467)]
)
def test_variances_are_obuchowski_and_rockettes(number, error, freedom, half):
    own = slice(number * READERS, (number + 1) * READERS)
    parts = variances([AREAS[number]], van_dyke()[own, own], CASES)
    assert parts.seeds + parts.common == pytest.approx(error**2, rel=1e-5)
    assert parts.common == pytest.approx(COV2[number], rel=1e-6)
    # Their interval is that of t with Satterthwaite's degrees of freedom, ours adds two squares (Howe): wider with 5.
    satterthwaite = (parts.seeds + parts.common) ** 2 / (parts.seeds**2 / (READERS - 1))
    assert satterthwaite == pytest.approx(freedom, abs=0.01)
    assert t_quantile(satterthwaite) * error == pytest.approx(half, abs=1e-4)
    ours = math.sqrt(t_quantile(READERS - 1) ** 2 * parts.seeds + t_quantile(math.inf) ** 2 * parts.common)
    assert parts.half_width() == pytest.approx(ours)
    assert half < ours < 1.25 * half


def test_the_difference_of_van_dyke_for_these_readers_is_the_published_one():
    test = RunScores(dict(zip("ab", AREAS, strict=True)), van_dyke(), CASES).pair("a", "b")
    parts = variances(AREAS, van_dyke(), CASES)
    assert test.difference == pytest.approx(-0.04380032, abs=1e-8)
    assert math.sqrt(parts.items) == pytest.approx(0.01872, abs=5e-6)
    assert 2 * stats.norm.sf(0.04380032 / math.sqrt(parts.items)) == pytest.approx(0.0193, abs=5e-5)
    # Ours is Student's t over the cases.
    assert test.p_items == pytest.approx(t_tail(0.04380032 / math.sqrt(parts.items), CASES - 1))
    assert test.p_items == pytest.approx(0.0210, abs=5e-4)


def test_readers_that_see_both_techniques_are_paired_and_trainings_are_not():
    """Published for random readers: standard error 0.02075, 15.26 degrees of freedom, p = 0.0517."""
    paired = (AREAS[0] - AREAS[1]).var(ddof=1) / READERS  # 2 MS(T*R) / r
    cov2 = sum(COV2) / 2
    error = math.sqrt(paired + 2 * (cov2 - COV3))
    freedom = (paired + 2 * (cov2 - COV3)) ** 2 / (paired**2 / (READERS - 1))
    assert error == pytest.approx(0.02075, abs=5e-6)
    assert freedom == pytest.approx(15.26, abs=0.01)
    assert t_tail(0.04380032 / error, freedom) == pytest.approx(0.0517, abs=5e-5)
    # A training of one model has no partner: the variance between runs counts in full, and nothing is decided.
    parts = variances(AREAS, van_dyke(), CASES)
    assert parts.seeds == pytest.approx((0.00308263 + 0.00130460) / READERS, rel=1e-5)  # their MS(R) by technique
    test = RunScores(dict(zip("ab", AREAS, strict=True)), van_dyke(), CASES).pair("a", "b")
    assert 0.0517 < test.p < 0.3


def permutation_p(first, second):
    """Exchange the two systems' scores item by item, in all ways or in 9,999."""
    differences = first.mean(axis=0) - second.mean(axis=0)
    test = stats.permutation_test((differences,), np.sum, permutation_type="samples", random_state=0)
    return float(test.pvalue)


@pytest.mark.parametrize("seed", range(5))
def test_the_exact_test_over_items_is_scipys_permutation_test(seed):
    rng = np.random.default_rng(seed)
    differences = rng.integers(-3, 5, 12)
    assert sign_flip_p(differences) == pytest.approx(permutation_p(differences[None], np.zeros((1, 12))))
    first, second = rng.random((3, 12)) < 0.8, rng.random((5, 12)) < 0.4
    assert table_of(first, second).pairs[0].p_items == pytest.approx(permutation_p(first, second))


@pytest.mark.parametrize("seed", range(5))
def test_scores_that_are_numbers_get_students_t_which_is_close_to_a_permutation(seed):
    rng = np.random.default_rng(seed)
    scores = rng.exponential(size=50) + rng.exponential(size=(2, 3, 50)) + np.array([0.15, 0.0])[:, None, None]
    p_items = table_of(*scores).pairs[0].p_items
    assert p_items == pytest.approx(stats.ttest_rel(*scores.mean(axis=1)).pvalue)
    assert p_items == pytest.approx(permutation_p(*scores), abs=0.015)  # three standard errors of the draws


def test_shares_have_wilsons_interval():
    for right, items in ((0, 10), (3, 10), (95, 100), (100, 100)):
        theirs = stats.binomtest(right, items).proportion_ci(method="wilson")
        assert wilson(right / items, items) == pytest.approx((theirs.low, theirs.high))


def test_holms_correction_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # Holm (1979)


@pytest.mark.parametrize("seed", range(5))
def test_interquartile_mean_and_probability_of_improvement_are_rliables(seed):
    """rliable takes SciPy's trimmed mean of all scores, and Mann-Whitney's U of each task over the number of pairs."""
    rng = np.random.default_rng(seed)
    first = [rng.integers(0, 8, 5) / 8 for _ in range(4)]  # with ties
    second = [rng.integers(0, 8, 6) / 8 for _ in range(4)]
    assert interquartile_mean(first) == pytest.approx(stats.trim_mean(np.concatenate(first), 0.25))
    ordered = np.sort(np.concatenate(first))
    assert interquartile_mean(first) == pytest.approx(ordered[5:15].mean())
    shares = [stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)) for a, b in zip(first, second, strict=True)]
    assert improvement(first, second, "higher") == pytest.approx(np.mean(shares))
    assert improvement(first, second, "lower") == pytest.approx(1 - np.mean(shares))
