"""Generated tables of scores against statsmodels: equal, or the difference stated (docs/statistics.md)."""

import math

import numpy as np
import pytest
from scipy import stats
from score_tables import table_of

from selfattn.evaluation.design import Spread, power
from selfattn.evaluation.variances import average_covariance, t_quantile

pytest.importorskip("statsmodels", reason="needs statsmodels: pip install '.[test]'")

from statsmodels.regression.linear_model import OLS
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestIndPower
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import CompareMeans, ttost_ind

SEEDS = pytest.mark.parametrize("seed", range(10))


@SEEDS
@pytest.mark.parametrize("runs", [1, 4])
def test_p_values_of_several_systems_are_corrected_by_holm(seed, runs):
    right = np.random.default_rng(seed).random((5, runs, 40)) < np.array([0.3, 0.5, 0.5, 0.7, 0.9])[:, None, None]
    pairs = table_of(*right).pairs
    assert len(pairs) == 10
    corrected = multipletests([test.p for test in pairs], method="holm")[1]
    assert [test.p_holm for test in pairs] == pytest.approx(corrected.tolist())


@SEEDS
def test_one_run_each_is_mcnemars_exact_test(seed):
    first, second = np.random.default_rng(seed).random((2, 1, 60)) < np.array([0.8, 0.6])[:, None, None]
    counts = [[int((a & b).sum()) for b in (second, ~second)] for a in (first, ~first)]
    assert table_of(first, second).pairs[0].p == pytest.approx(mcnemar(counts, exact=True).pvalue)


@pytest.mark.parametrize(("right", "items"), [(1, 50), (3, 10), (95, 100), (600, 2000)])
def test_one_run_of_right_and_wrong_has_wilsons_interval_of_slightly_fewer_items(right, items):
    """Student's t stands in place of the normal distribution, and n - 1 in place of n."""
    estimate = table_of(np.arange(items)[None] < right).estimates["a"]
    fewer = (items - 1) * (t_quantile(math.inf) / t_quantile(items - 1)) ** 2
    theirs = proportion_confint(right / items * fewer, fewer, method="wilson")
    assert (estimate.low, estimate.high) == pytest.approx(theirs)


@SEEDS
def test_without_spread_over_items_test_interval_and_margins_are_those_of_welch(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(0.3, 0.2, 4), rng.normal(0.0, 0.6, 7)
    (test,) = table_of(*(np.repeat(runs[:, None], 8, axis=1) for runs in (first, second))).pairs
    theirs = CompareMeans.from_data(first, second)
    assert (test.low, test.high) == pytest.approx(theirs.tconfint_diff(usevar="unequal"))
    assert test.p == pytest.approx(theirs.ttest_ind(usevar="unequal")[1])
    for margin in (0.05, 0.3, 0.8, 1.2, 2.0):  # two one-sided tests at 2.5 % each
        tost = ttost_ind(first, second, -margin, margin, usevar="unequal")[0]
        assert (test.beside(margin) == "equivalent") == (tost <= 0.025)


@SEEDS
def test_the_variance_over_clusters_is_that_of_a_regression_on_a_constant(seed):
    rng = np.random.default_rng(seed)
    clusters = np.unique(rng.integers(0, 12, 50), return_inverse=True)[1]
    scores = rng.normal(size=(1, 50)) + rng.normal(size=clusters.max() + 1)[clusters]
    fitted = OLS(scores[0], np.ones(50)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert average_covariance(scores, clusters) == pytest.approx(fitted.cov_params())


@pytest.mark.parametrize("difference", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("runs", "behind"), [(3, 0.09), (5, 0.04), (10, 0.02), (20, 0.02)])
def test_power_without_spread_over_items_is_welchs(difference, runs, behind):
    """It is simulated 4,000 times. statsmodels knows the power of Student's test, which is higher with few runs."""
    ours = power(Spread(runs=1.0, single=0.0, common=0.0, freedom=8, items=100), difference, runs, 100)
    assert -behind < ours - TTestIndPower().power(difference, runs, 0.05) < 0.02
    first, second = np.random.default_rng(0).normal(size=(2, runs, 4000)) + np.array([difference, 0.0])[:, None, None]
    told_apart = stats.ttest_ind(first, second, equal_var=False)
    better = (told_apart.pvalue < 0.05) & (told_apart.statistic > 0)
    assert ours == pytest.approx(better.mean(), abs=0.03)  # three standard errors
