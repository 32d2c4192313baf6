"""Intervals and tests of models, of tunings and of failed trainings: figures by hand, references, words, and traps."""

import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from selfattn.evaluation.significance import RunScores, by_tuning, choose_word, estimate, score_counts, score_runs
from selfattn.evaluation.translation_metrics import Chrf
from selfattn.evaluation.variances import (
    average_covariance,
    corpus_covariance,
    fisher_p,
    holm,
    to_log_odds,
)
from selfattn.results.quality import PairTest

T2, Z = 4.302653, 1.959964  # 95 %: two degrees of freedom, and the normal distribution


def simulated(*accuracies, seeds=5, items=997, seed=0):
    """Models named a, b, ...; the ease of an item is the same for all."""
    generator = np.random.default_rng(seed)
    ease = generator.normal(size=items)
    logits = [math.log(accuracy / (1 - accuracy)) for accuracy in accuracies]
    chances = [1 / (1 + np.exp(-(logit + ease))) for logit in logits]
    return {name: generator.random((seeds, items)) < chance for name, chance in zip("abcdef", chances, strict=False)}


def test_half_width_by_hand():
    # Runs 1, 2, 3: variance 1. Items deviate by -1 and 1 in every run: variance over items 2 / (2 x 1) = 1.
    score = estimate([[0.0, 2.0], [1.0, 3.0], [2.0, 4.0]])
    assert (score.mean, score.runs, score.over) == (2.0, (1.0, 2.0, 3.0), "seeds and items")
    over_items = 12.7062  # t of one degree of freedom, times 1: with two items they alone say less than both
    assert over_items > math.sqrt(T2**2 * 1 / 3 + Z**2 * 1)
    assert score.high - score.mean == pytest.approx(over_items, abs=1e-3)
    many = estimate(np.array([[0.0, 2.0], [1.0, 3.0], [2.0, 4.0]]).repeat(500, axis=1))
    assert many.high - many.mean == pytest.approx(math.sqrt(T2**2 / 3 + Z**2 / 999), abs=1e-5)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_plain_sample_has_wilsons_interval(copies):
    """Runs that are copies have no variance between them, so that one run's interval over items is left."""
    score = estimate([np.arange(2000) % 10 < 3] * copies)
    expected = stats.binomtest(600, 2000).proportion_ci(method="wilson")
    assert (score.low, score.high) == pytest.approx((expected.low, expected.high), rel=2e-3)
    assert score.over == ("items" if copies == 1 else "seeds and items")


# Covariances under resampling of the items


def average(sums):
    """The average over items, as a corpus score: the sum of values over the number of items."""
    return sums[:, 0] / sums[:, 1]


def test_one_item_has_no_covariance_and_a_score_that_is_not_finite_is_refused():
    assert not average_covariance(np.array([[1.0], [0.0]])).any()
    assert not corpus_covariance(np.array([[[1.0, 1.0]], [[0.0, 1.0]]]), average, resamples=7).any()
    statistics = np.array([[[1.0, 0.0], [1.0, 1.0]]])  # half of the characters' counts are 0
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="nan or infinite for some draw"):
        corpus_covariance(statistics, average)


def test_log_odds_by_hand():
    # 1 of 2 and 2 of 2 right, half an item added to each cell: 1.5 to 1.5 and 2.5 to 0.5; the slopes are 4 and 36 / 5.
    (first, second), covariance = to_log_odds([np.array([0.5]), np.array([1.0])], np.array([[0.25, 0.1], [0.1, 0]]), 2)
    assert (first[0], second[0]) == (0, pytest.approx(math.log(5)))
    assert covariance == pytest.approx(np.array([[16 * (0.25 + 1 / 8), 4 * 7.2 * 0.1], [4 * 7.2 * 0.1, 7.2**2 / 8]]))


def test_shares_are_tested_on_the_log_odds_of_their_runs():
    """Items that all runs of both models answer alike are no luck: Welch's test of the runs' log-odds is left."""
    right = [[600, 720, 650], [800, 870, 850, 900]]
    scores = {name: np.arange(1000) < np.array([counts]).T for name, counts in zip("ab", right, strict=True)}
    pair = score_runs(scores)
    pair = dataclasses.replace(pair, covariance=np.zeros((7, 7))).pair("a", "b")
    logits = [np.log((np.array(counts) + 0.5) / (1000.5 - np.array(counts))) for counts in right]
    expected = stats.ttest_ind(*logits, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert (pair.p, pair.odds.difference) == pytest.approx((expected.pvalue, logits[0].mean() - logits[1].mean()))
    assert (pair.odds.low, pair.odds.high) == pytest.approx((interval.low, interval.high), rel=1e-6)
    # In points: both models' runs moved in log-odds until they are as far apart as the ends say.
    moved = (interval.high - pair.odds.difference) / 2
    ends = [1 / (1 + np.exp(-y - move)) for y, move in zip(logits, (moved, -moved), strict=True)]
    assert pair.high == pytest.approx(ends[0].mean() - ends[1].mean(), abs=1e-3)
    assert pair.low < pair.difference < pair.high < 0


def test_a_mean_that_disagrees_with_the_log_odds_decides_nothing():
    """One run that fails moves the mean share; all the other runs speak for the same model in log-odds."""
    shares = {"a": [0.9999] * 7 + [0.8], "b": [0.99, 0.991, 0.992, 0.989, 0.99, 0.99, 0.991, 0.99]}
    scores = {name: np.arange(20_000) < 20_000 * np.array([runs]).T for name, runs in shares.items()}
    pair = score_runs(scores).comparison().pairs[0]
    assert pair.difference < 0 < pair.odds.low
    assert pair.p < 0.05
    assert pair.word == "not told apart"


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("right", [0, 1])
def test_all_right_and_all_wrong_runs_are_no_certainty(seeds, right):
    same = np.full((seeds, 200), right)
    pair = score_runs({"a": same, "b": same}).comparison().between("a", "b")
    assert (pair.difference, pair.p, pair.word) == (0.0, 1.0, "not told apart")
    # Each run has 1 / 200.5 + 1 / 0.5, about, of variance (Gart and Zweifel 1967).
    assert pair.odds.high == -pair.odds.low == pytest.approx(1.971957 * math.sqrt(2 * 2 / seeds), rel=0.01)
    assert 0.002 < pair.high == -pair.low < 0.05
    far = score_runs({"a": same, "b": 1 - same}).comparison().pairs[0]
    assert (far.difference, far.p < 1e-9) == (1.0 if right else -1.0, True)
    assert far.word == ("not told apart" if seeds == 1 else "better" if right else "worse")


def test_rounding_is_no_difference():
    # The sum of the same scores in another order: 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 to the last digit.
    first, second = np.array([[0.1, 0.2, 0.3]] * 3), np.array([[0.3, 0.2, 0.1]] * 3)
    assert first.mean() != second.mean()
    pair = score_runs({"a": first, "b": second}).comparison().between("a", "b")
    assert (pair.difference, pair.p_items, pair.p) == (0.0, 1.0, 1.0)


def test_further_models_cost_the_primary_contrast_nothing():
    """A difference that a test of its own shows is drowned by pairs of four more models, unless it was primary."""
    generator = np.random.default_rng(3)
    scores = {name: generator.random((3, 400)) < share for name, share in (("a", 0.9), ("b", 0.83))}
    more = scores | {f"side{k}": generator.random((3, 400)) < 0.5 for k in range(4)}
    alone, drowned = score_runs(scores).comparison().between("a", "b"), score_runs(more).comparison().between("a", "b")
    assert alone.word == "better" != drowned.word
    assert alone.p < 0.05 < drowned.p_holm
    comparison = score_runs(more).comparison(primary=("b", "a"))
    assert comparison.between("a", "b") == dataclasses.replace(alone, primary=True)
    rest = [pair for pair in comparison.pairs if not pair.primary]
    assert [pair.p_holm for pair in rest] == holm([pair.p for pair in rest])
    assert not any(pair.primary for pair in score_runs(more).comparison(primary=("a", "nobody")).pairs)


@pytest.mark.parametrize(
    ("low", "high", "p", "seeds", "apart", "word"),
    [
        (0.1, 0.2, 1e-9, 1, True, "not told apart"),
        (-0.1, 0.2, 0.9, 2, False, "not told apart"),
        (0.1, 0.2, 0.049, 3, False, "better"),
        (-0.2, -0.1, 0.049, 3, True, "worse"),
        (0.1, 0.2, 0.05, 3, False, "not told apart"),
        (0.0, 0.2, 0.01, 3, False, "not told apart"),
        (0.1, 0.2, 0.2, 3, True, "not told apart"),
        (-0.1, 0.2, 0.2, 5, False, "not told apart"),
    ],
)
def test_the_rule(low, high, p, seeds, apart, word):
    pair = PairTest("a", "b", "m", (low + high) / 2, low, high, p, p, "better", separated=apart, seeds=seeds)
    assert choose_word(pair) == word
    turned = {"better": "worse", "worse": "better"}
    assert choose_word(dataclasses.replace(pair, better="lower")) == turned.get(word, word)


@pytest.mark.parametrize(
    ("low", "high", "word", "said"),
    [
        (-0.5, 0.9, "not told apart", "equivalent"),
        (0.1, 0.9, "better", "equivalent"),
        (-0.5, 1.1, "not told apart", "cannot tell"),
        (0.5, 1.5, "better", "perhaps less"),
        (1.1, 1.5, "better", "more"),
    ],
)
def test_a_difference_beside_a_margin(low, high, word, said):
    pair = PairTest("a", "b", "m", (low + high) / 2, low, high, 0.01, 0.01, word, seeds=3)
    assert pair.beside(1.0) == pair.swapped().beside(1.0) == said
    assert dataclasses.replace(pair, seeds=2).beside(1.0) == "cannot tell"


def test_intervals_stay_within_what_a_metric_can_be():
    outputs = {"a": [["x", "x", "x"], ["x", "x", "x"], ["", "", "x"]]}
    score = score_counts(Chrf().count_runs(outputs, ["x", "x", "x"]), Chrf()).estimates()["a"]
    assert (score.high, score.low < score.mean) == (100.0, True)


COPIES = 9
LABELS = np.repeat(np.arange(80), COPIES).tolist()
RIGHT = np.repeat(np.random.default_rng(0).random((2, 1, 80)) < np.array([0.9, 0.8])[:, None, None], 3, axis=1)
RIGHT[:, 0, 0] ^= True  # runs that differ in one item


def width(comparison):
    score = comparison.estimates["a"]
    return score.high - score.low


@pytest.mark.parametrize("seeds", [1, 3])
def test_copies_of_items_add_nothing(seeds):
    """Nine copies of each of 80 items pass for 720 items unless they are known to be copies."""
    few = {"a": RIGHT[0][:seeds], "b": RIGHT[1][:seeds]}
    many = {name: np.repeat(values, COPIES, axis=1) for name, values in few.items()}
    plain, unaware = (score_runs(scores).comparison() for scores in (few, many))
    aware = score_runs(many, clusters=LABELS).comparison()
    assert width(unaware) < 0.75 * width(plain)
    assert width(aware) == pytest.approx(width(plain), rel=1e-9)
    assert unaware.pairs[0].p_items < plain.pairs[0].p_items / 10
    assert aware.pairs[0].p_items == pytest.approx(plain.pairs[0].p_items, rel=1e-9)
    assert (aware.pairs[0].low, aware.pairs[0].high) == pytest.approx((plain.pairs[0].low, plain.pairs[0].high))
    perfect = [score_runs({"a": np.ones((seeds, items))}, labels) for items, labels in ((720, LABELS), (80, None))]
    assert width(perfect[0].comparison()) == width(perfect[1].comparison())
    assert score_runs(few, clusters=range(80)).comparison() == plain


@pytest.mark.parametrize(
    "scores", [{}, {"a": [1, 0]}, {"a": np.ones((3, 0))}, {"a": [[1.0, math.nan]]}, {"a": [[1, 0]], "b": [[1, 0, 1]]}]
)
def test_bad_scores_are_refused(scores):
    with pytest.raises(ValueError, match=r"expected \[seeds, items\] of finite numbers, the same items"):
        score_runs(scores)


# Runs that share the luck of a tuning, and trainings that fail: by hand and against SciPy


def runs_of(**scores):
    """Scores of runs on so many items that these add nothing."""
    arrays = {name: np.array(values) for name, values in scores.items()}
    count = sum(map(len, scores.values()))
    return RunScores(arrays, np.zeros((count, count)), 10**6, bounds=(0.0, 1.0))


def test_tunings_are_the_units_of_welchs_test():
    first, second = [0.9, 0.92, 0.8, 0.84, 0.95, 0.95], [0.7, 0.72, 0.81, 0.79, 0.6, 0.7]
    pair = by_tuning(runs_of(a=first, b=second), {"a": "xxyyzz", "b": "112233"}).pair("a", "b")
    expected = stats.ttest_ind([0.91, 0.82, 0.95], [0.71, 0.8, 0.65], equal_var=False)
    assert (pair.p, pair.difference) == (pytest.approx(expected.pvalue), pytest.approx(0.52 / 3))
    assert (pair.low, pair.high) == pytest.approx(tuple(expected.confidence_interval()))
    (few,) = by_tuning(runs_of(a=first[:4], b=second[:4]), {"a": "xxyy", "b": "1122"}).comparison().pairs
    assert few.word == "not told apart"  # four runs, two tunings
    for labels in ("xxxxyy", "xxxxxx", "xxyyz"):
        with pytest.raises(ValueError, match="a: expected at least two tunings with as many runs each"):
            by_tuning(runs_of(a=first), {"a": labels})
    runs = by_tuning(runs_of(a=[0.9, 0.91, 0.0, 0.9, 0.92, 0.9], b=[0.8] * 6), {"a": "xxyyzz", "b": "xxyyzz"})
    flags = [False, False, True, False, False, False]  # where runs failed tunings stay the units
    assert runs.without({"a": np.array(flags)}).units("a").tolist() == pytest.approx([0.905, 0.9, 0.91])
    assert failing(runs, a=flags).pair("a", "b").seeds == 3


def failing(scores, **failed):
    return replace(scores, failed={name: np.array(flags) for name, flags in failed.items()})


@pytest.mark.parametrize("counts", [((3, 3), (0, 3)), ((5, 5), (1, 5)), ((2, 4), (1, 6)), ((0, 3), (0, 3))])
def test_fishers_test_is_scipys(counts):
    table = [[count, total - count] for count, total in counts]
    assert fisher_p(*counts) == pytest.approx(stats.fisher_exact(table).pvalue)


def test_failed_runs_count_in_the_mean_and_neither_side_alone_makes_a_difference():
    bad = [0.95, 0.96, 0.0, 0.95, 0.96]
    good = [0.90, 0.91, 0.90, 0.89, 0.90]
    flags = [False, False, True, False, False]
    scores = failing(runs_of(a=bad, b=good), a=flags)
    pair = scores.comparison().between("a", "b")
    assert scores.comparison().estimates["a"].mean == pytest.approx(0.764)
    assert (pair.word, pair.seeds, pair.difference) == ("not told apart", 4, pytest.approx(-0.136))
    without = runs_of(a=[run for run in bad if run], b=good).comparison().between("a", "b")
    assert without.word == "better"  # of the runs that did not fail
    assert pair.p >= max(without.p, runs_of(a=bad, b=good).comparison().between("a", "b").p)
    often = runs_of(a=[0.90 + 0.001 * run for run in range(12)], b=[0.90] * 3 + [0.91] * 3 + [0.0] * 6)
    assert often.comparison().between("a", "b").word == "better"
    assert failing(often, b=[False] * 6 + [True] * 6).comparison().between("a", "b").word == "not told apart"


def test_a_model_all_of_whose_trainings_failed_is_worse_if_enough_were_made():
    for count, word in ((3, "not told apart"), (5, "worse")):
        scores = runs_of(a=[0.001 * run for run in range(count)], b=[0.9 + 0.001 * run for run in range(count)])
        assert failing(scores, a=[True] * count).comparison().between("a", "b").word == word
    both = failing(runs_of(a=[0.0, 0.01, 0.0], b=[0.0, 0.0, 0.02]), a=[True] * 3, b=[True] * 3)
    assert both.comparison().between("a", "b").word == "not told apart"
