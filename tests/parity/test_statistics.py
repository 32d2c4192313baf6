"""Statistics against published numbers and other programs: equal, or the difference stated (docs/statistics.md)."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from selfattn import score_table
from selfattn.evaluation.design import Spread, power
from selfattn.evaluation.significance import RunScores, improvement, interquartile_mean, wilson
from selfattn.evaluation.variances import average_covariance, holm, sign_flip_p, t_quantile, t_tail, variances

SEEDS = pytest.mark.parametrize("seed", range(10))


def statsmodels(part):
    return pytest.importorskip(f"statsmodels.{part}", reason="needs statsmodels: pip install '.[test]'")


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
    assert t_tail(0.04380032 / 0.02075, 15.26) == pytest.approx(0.0517, abs=5e-5)
    # A training of one model has no partner: the variance between runs counts in full, and nothing is decided.
    parts = variances(AREAS, van_dyke(), CASES)
    assert parts.seeds == pytest.approx((0.00308263 + 0.00130460) / READERS, rel=1e-5)  # their MS(R) by technique
    test = RunScores(dict(zip("ab", AREAS, strict=True)), van_dyke(), CASES).pair("a", "b")
    assert 0.0517 < test.p < 0.3


def table_of(*systems):
    """A table of the scores ``[s i]`` of systems a, b, ..."""
    rows = []
    for name, scores in zip("abcdefgh", systems, strict=False):
        rows += [(name, run, item, scores[run, item]) for run, item in product(*map(range, scores.shape))]
    return score_table(dict(zip(("system", "run", "item", "score"), map(list, zip(*rows, strict=True)), strict=True)))


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


@SEEDS
@pytest.mark.parametrize("runs", [1, 4])
def test_p_values_of_several_systems_are_corrected_by_holm(seed, runs):
    right = np.random.default_rng(seed).random((5, runs, 40)) < np.array([0.3, 0.5, 0.5, 0.7, 0.9])[:, None, None]
    pairs = table_of(*right).pairs
    assert len(pairs) == 10
    corrected = statsmodels("stats.multitest").multipletests([test.p for test in pairs], method="holm")[1]
    assert [test.p_holm for test in pairs] == pytest.approx(corrected.tolist())


@SEEDS
def test_one_run_each_is_mcnemars_exact_test(seed):
    first, second = np.random.default_rng(seed).random((2, 1, 60)) < np.array([0.8, 0.6])[:, None, None]
    counts = [[int((a & b).sum()) for b in (second, ~second)] for a in (first, ~first)]
    theirs = statsmodels("stats.contingency_tables").mcnemar(counts, exact=True)
    assert table_of(first, second).pairs[0].p == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize(("right", "items"), [(1, 50), (3, 10), (95, 100), (600, 2000)])
def test_one_run_of_right_and_wrong_has_wilsons_interval_of_slightly_fewer_items(right, items):
    """Student's t stands in place of the normal distribution, and n - 1 in place of n."""
    estimate = table_of(np.arange(items)[None] < right).estimates["a"]
    fewer = (items - 1) * (t_quantile(math.inf) / t_quantile(items - 1)) ** 2
    theirs = statsmodels("stats.proportion").proportion_confint(right / items * fewer, fewer, method="wilson")
    assert (estimate.low, estimate.high) == pytest.approx(theirs)


@SEEDS
def test_without_spread_over_items_test_interval_and_margins_are_those_of_welch(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(0.3, 0.2, 4), rng.normal(0.0, 0.6, 7)
    (test,) = table_of(*(np.repeat(runs[:, None], 8, axis=1) for runs in (first, second))).pairs
    theirs = statsmodels("stats.weightstats").CompareMeans.from_data(first, second)
    assert (test.low, test.high) == pytest.approx(theirs.tconfint_diff(usevar="unequal"))
    assert test.p == pytest.approx(theirs.ttest_ind(usevar="unequal")[1])
    for margin in (0.05, 0.3, 0.8, 1.2, 2.0):  # two one-sided tests at 2.5 % each
        tost = statsmodels("stats.weightstats").ttost_ind(first, second, -margin, margin, usevar="unequal")[0]
        assert (test.beside(margin) == "equivalent") == (tost <= 0.025)


@SEEDS
def test_the_variance_over_clusters_is_that_of_a_regression_on_a_constant(seed):
    rng = np.random.default_rng(seed)
    clusters = np.unique(rng.integers(0, 12, 50), return_inverse=True)[1]
    scores = rng.normal(size=(1, 50)) + rng.normal(size=clusters.max() + 1)[clusters]
    constant = statsmodels("regression.linear_model").OLS(scores[0], np.ones(50))
    fitted = constant.fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert average_covariance(scores, clusters) == pytest.approx(fitted.cov_params())


@pytest.mark.parametrize("difference", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("runs", "behind"), [(3, 0.09), (5, 0.04), (10, 0.02), (20, 0.02)])
def test_power_without_spread_over_items_is_welchs(difference, runs, behind):
    """It is simulated 4,000 times. statsmodels knows the power of Student's test, which is higher with few runs."""
    ours = power(Spread(runs=1.0, single=0.0, common=0.0, freedom=8, items=100), difference, runs, 100)
    assert -behind < ours - statsmodels("stats.power").TTestIndPower().power(difference, runs, 0.05) < 0.02
    first, second = np.random.default_rng(0).normal(size=(2, runs, 4000)) + np.array([difference, 0.0])[:, None, None]
    told_apart = stats.ttest_ind(first, second, equal_var=False)
    better = (told_apart.pvalue < 0.05) & (told_apart.statistic > 0)
    assert ours == pytest.approx(better.mean(), abs=0.03)  # three standard errors
