"""Comparisons of models: figures by hand, references, words, and what must not fool them."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter

import numpy as np
import pytest

from selfattn.codec import decode, encode
from selfattn.evaluation.metrics.exact import CharacterErrorRate, ExactMatch
from selfattn.evaluation.statistics.intervals import bootstrap_share
from selfattn.evaluation.statistics.p_values import holm, sign_flip_p, t_tail
from selfattn.evaluation.statistics.significance import (
    RunScores,
    compare_counts,
    compare_outputs,
    compare_scores,
    estimate,
    word_for,
)
from selfattn.evaluation.statistics.variances import Variances, variances
from selfattn.results.pairs import Comparison, PairTest, Word

T2, Z = 4.302653, 1.959964  # 95 %: two degrees of freedom, and the normal distribution


def simulated(*accuracies: float, seeds: int = 5, items: int = 997, seed: int = 0) -> dict[str, np.ndarray]:
    """Models named a, b, ...; the ease of an item is the same for all."""
    generator = np.random.default_rng(seed)
    ease = generator.normal(size=items)
    logits = [math.log(accuracy / (1 - accuracy)) for accuracy in accuracies]
    chances = [1 / (1 + np.exp(-(logit + ease))) for logit in logits]
    return {name: generator.random((seeds, items)) < chance for name, chance in zip("abcdef", chances, strict=False)}


# Estimates


def test_half_width_by_hand() -> None:
    # Runs 1, 2, 3: variance 1. Items deviate by -1 and 1 in every run: variance over items 2 / (2 x 1) = 1.
    found = estimate([[0.0, 2.0], [1.0, 3.0], [2.0, 4.0]])
    assert (found.mean, found.runs, found.over) == (2.0, (1.0, 2.0, 3.0), "seeds and items")
    over_both = math.sqrt(T2**2 * 1 / 3 + Z**2 * 1)
    over_items = 12.7062  # t of one degree of freedom, times 1: with two items they alone say less than both
    assert over_items > over_both
    assert found.high - found.mean == pytest.approx(over_items, abs=1e-3)
    many = estimate(np.array([[0.0, 2.0], [1.0, 3.0], [2.0, 4.0]]).repeat(500, axis=1))
    assert many.high - many.mean == pytest.approx(math.sqrt(T2**2 / 3 + Z**2 / 999), abs=1e-5)


def test_luck_on_single_items_is_counted_once() -> None:
    # Runs share nothing: the seeds' variance holds all there is, and the items add nothing to it.
    scores = np.random.default_rng(0).normal(size=(3, 20_000))
    found = variances([scores.mean(axis=1)], np.diag(np.full(3, 1 / 20_000)), 20_000)
    assert found.common == 0
    assert found.items == pytest.approx(1 / 60_000)


def test_what_runs_share_is_read_off_their_covariances() -> None:
    # Two groups: 0.9 in the diagonal, 0.5 and 0.4 beside it, 0.1 between the groups.
    covariance = np.full((5, 5), 0.1)
    covariance[:2, :2], covariance[2:, 2:] = 0.5, 0.4
    np.fill_diagonal(covariance, 0.9)
    found = variances([np.array([1.0, 3.0]), np.array([5.0, 5.0, 8.0])], covariance, 7)
    assert found.common == pytest.approx(0.5 + 0.4 - 2 * 0.1)
    assert found.items == pytest.approx((0.9 + 0.5) / 2 + (0.9 + 2 * 0.4) / 3 - 2 * 0.1)
    assert found.seeds == pytest.approx(2 / 2 + 3 / 3)
    assert found.seed_df == pytest.approx(2**2 / (1**2 / 1 + 1**2 / 2))  # Welch 1947


def test_runs_that_score_the_same_are_not_sure() -> None:
    wrong_in = [(0, 1), (2, 3), (4, 5)]  # no luck shared, no variance between runs: both estimates are 0
    runs = np.ones((3, 100))
    for run, places in zip(runs, wrong_in, strict=True):
        run[list(places)] = 0
    found = estimate(runs)
    assert set(found.runs) == {0.98}
    assert 0.93 < found.low < 0.965
    assert 0.985 < found.high < 1


def test_wilsons_form_stays_a_share_and_leans_to_the_middle() -> None:
    runs = np.ones((3, 1000), dtype=bool)
    runs[0, :5], runs[1, :1] = False, False
    found = estimate(runs)
    assert 0 < found.low < found.mean < found.high < 1
    assert found.mean - found.low > 3 * (found.high - found.mean)
    mirrored = estimate(~runs)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - found.high, 1 - found.low))


def test_wilsons_form_is_wilsons_interval_for_a_plain_sample() -> None:
    # Runs that are copies have no variance between them; what is left is one run's interval over items.
    run = np.arange(2000) % 10 < 3
    found = estimate([run, run])
    share, square = 0.3, Z**2
    half = Z * math.sqrt(share * 0.7 / 2000 + square / 4 / 2000**2) / (1 + square / 2000)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=2e-3)
    assert (found.high + found.low) / 2 == pytest.approx((share + square / 4000) / (1 + square / 2000), rel=1e-4)


def test_wilsons_form_is_the_shares_within_their_own_half_width() -> None:
    runs = simulated(0.8, seeds=3, items=30)["a"].astype(float)
    found = estimate(runs)
    half = variances([runs.mean(axis=1)], np.cov(runs) / 30, 30).half_width()
    for end in (found.low, found.high):
        scale = end * (1 - end) / (found.mean * (1 - found.mean))
        assert abs(end - found.mean) == pytest.approx(half * math.sqrt(scale))


@pytest.mark.parametrize("seeds", [1, 3])
def test_all_right_is_no_certainty(seeds: int) -> None:
    found = estimate(np.ones((seeds, 100)))
    assert (found.mean, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(100 / (100 + Z**2))


def test_one_seed_is_over_items_only_and_says_so() -> None:
    run = np.arange(300) % 7 < 5
    found, plain = estimate([run]), bootstrap_share([run])
    assert (found.mean, found.low, found.high) == (plain.mean, plain.low, plain.high)
    assert found.over == "items"
    values = np.random.default_rng(0).normal(size=(1, 41))
    over_items = estimate(values)
    assert over_items.high - over_items.mean == pytest.approx(2.021075 * values.std(ddof=1) / math.sqrt(41), rel=1e-5)


def test_a_hierarchical_bootstrap_converges_to_it() -> None:
    """Draw seeds and items again, with n / (n - 1) for the few seeds: the variance is the sum of the closed forms."""
    runs = simulated(0.8, seeds=4)["a"].astype(float)
    generator = np.random.default_rng(1)
    by_seeds = runs.mean(axis=1)[generator.integers(4, size=(100_000, 4))].mean(axis=1) * math.sqrt(4 / 3)
    places = [generator.integers(997, size=997) for _ in range(5_000)]
    by_items = np.array([runs[:, one].mean() for one in places])
    covariance = np.cov(runs) / 997
    found = variances([runs.mean(axis=1)], covariance, 997)
    assert found.seeds == pytest.approx(by_seeds.var(), rel=0.05)
    assert found.items == pytest.approx(by_items.var(), rel=0.05)


# Pairs


def test_one_seed_is_mcnemars_test() -> None:
    # The first alone right on 9 items, the second on 1: 2 x (1 + 10) / 2^10.
    one = [1] * 9 + [0] + [1] * 50 + [0] * 40
    other = [0] * 9 + [1] + [1] * 50 + [0] * 40
    found = compare_scores({"a": [one], "b": [other]})
    pair = found.between("a", "b")
    assert pair.difference == pytest.approx(0.08)
    assert pair.p == pair.p_items == pytest.approx(22 / 1024)
    assert (found.estimates["a"].over, pair.word) == ("items", "too few seeds to tell")


def test_without_luck_on_items_it_is_welchs_test() -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the reference here, and no dependency")
    one, other = [0.61, 0.67, 0.59], [0.43, 0.31, 0.39, 0.55, 0.47]
    scores = {"a": np.tile(np.array(one)[:, None], 7), "b": np.tile(np.array(other)[:, None], 7)}
    pair = compare_scores(scores).between("a", "b")
    expected = stats.ttest_ind(one, other, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert pair.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert (pair.low, pair.high) == pytest.approx((interval.low, interval.high), rel=1e-6)


def test_with_one_seed_and_any_scores_it_is_the_paired_t_test() -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the reference here, and no dependency")
    one, other = np.random.default_rng(0).normal([[0.3], [0.0]], size=(2, 31))
    pair = compare_scores({"a": [one], "b": [other]}).between("a", "b")
    expected = stats.ttest_rel(one, other)
    assert pair.p == pytest.approx(expected.pvalue, rel=1e-8)
    interval = expected.confidence_interval(0.95)
    assert (pair.low, pair.high) == pytest.approx((interval.low, interval.high), rel=1e-8)


@pytest.mark.parametrize("tail", [0.5, 0.05, 1e-3, 1e-7])
def test_p_is_the_level_at_which_the_interval_touches_zero(tail: float) -> None:
    found = variances(
        [np.array([0.7, 0.8, 0.75]), np.array([0.5, 0.7, 0.6])], np.full((6, 6), 1e-4) + np.eye(6) * 1e-3, 50
    )
    assert found.seeds is not None
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the reference here, and no dependency")
    t, z = stats.t.isf(tail / 2, found.seed_df), stats.norm.isf(tail / 2)
    touching = math.sqrt(t**2 * found.seeds + z**2 * found.common)
    assert found.p_seeds(touching) == pytest.approx(tail, rel=1e-6)


def test_p_is_never_below_that_of_the_items() -> None:
    for seed in range(20):
        scores = simulated(0.9, 0.93, seeds=3, items=101, seed=seed)
        pair = compare_scores(scores).between("a", "b")
        sums = scores["a"].sum(axis=0, dtype=int) - scores["b"].sum(axis=0, dtype=int)
        assert pair.p_items == pytest.approx(sign_flip_p(sums))
        assert pair.p >= pair.p_items


def test_runs_without_spread_leave_the_items_to_decide() -> None:
    found = Variances(seeds=0.0, seed_df=math.inf, common=0.01, items=0.02, item_df=100)
    assert found.p_seeds(0.2) == pytest.approx(0.0455, abs=1e-4)  # two standard deviations
    assert found.p_seeds(0.0) == 1
    # With many degrees of freedom t is z, and both variances are one: 0.4 is again two standard deviations.
    both = Variances(seeds=0.01, seed_df=math.inf, common=0.03, items=0.02, item_df=100)
    assert both.p_seeds(0.4) == pytest.approx(0.0455, abs=1e-4)


@pytest.mark.parametrize("seeds", [1, 3])
def test_no_disagreement_is_no_proof_of_equality(seeds: int) -> None:
    run = np.arange(200) % 5 > 0
    pair = compare_scores({"a": [run] * seeds, "b": [run] * seeds}).between("a", "b")
    assert (pair.difference, pair.p) == (0.0, 1.0)
    # Half an item in each of the four cells: one disagreement in 200.
    assert pair.high == -pair.low == pytest.approx(1.971957 / 200, abs=1e-6)


def test_rounding_is_no_difference() -> None:
    # The sum of the same scores in another order: 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 to the last digit.
    one, other = np.array([[0.1, 0.2, 0.3]] * 3), np.array([[0.3, 0.2, 0.1]] * 3)
    assert one.mean() != other.mean()
    pair = compare_scores({"a": one, "b": other}).between("a", "b")
    assert (pair.difference, pair.p_items, pair.p) == (0.0, 1.0, 1.0)


def test_opposites_stay_within_one() -> None:
    pair = compare_scores({"a": np.ones((3, 11)), "b": np.zeros((3, 11))}).between("a", "b")
    assert (pair.difference, pair.high, pair.word) == (1.0, 1.0, "better")
    assert pair.p == pytest.approx(2 / 2**11)


def test_models_may_have_different_numbers_of_runs() -> None:
    scores = simulated(0.6, 0.9)
    few = compare_scores({"a": scores["a"][:3], "b": scores["b"]})
    assert few.between("a", "b").word == "worse"
    assert few.estimates["b"] == compare_scores(scores).estimates["b"]
    one = compare_scores({"a": scores["a"][:1], "b": scores["b"]}).between("a", "b")
    assert one.word == "too few seeds to tell"


def test_all_pairs_are_corrected_together() -> None:
    found = compare_scores(simulated(0.6, 0.62, 0.9, 0.61, items=499))
    assert " ".join(pair.first + pair.second for pair in found.pairs) == "ab ac ad bc bd cd"
    smallest = min(found.pairs, key=lambda pair: pair.p)
    assert smallest.p_holm == pytest.approx(6 * smallest.p)
    assert all(pair.p <= pair.p_holm <= 1 for pair in found.pairs)
    assert {pair.word for pair in found.pairs if "c" in (pair.first, pair.second)} <= {"better", "worse"}


def test_a_model_alone_has_no_pairs() -> None:
    found = compare_scores({"a": np.ones((3, 5))})
    assert found.pairs == ()
    assert list(found.estimates) == ["a"]


def test_between_reads_a_pair_both_ways() -> None:
    found = compare_scores(simulated(0.6, 0.9))
    there, back = found.between("a", "b"), found.between("b", "a")
    assert (there.word, back.word) == ("worse", "better")
    assert (back.difference, back.low, back.high) == (-there.difference, -there.high, -there.low)
    assert (back.p, back.first, back.turned()) == (there.p, "b", there)
    with pytest.raises(KeyError, match="no pair of 'a' and 'z'"):
        found.between("a", "z")


def test_json_holds_every_figure() -> None:
    found = compare_scores(simulated(0.6, 0.9, seeds=3))
    data = json.loads(json.dumps(encode(found)))
    assert data["estimates"]["a"]["runs"] == list(found.estimates["a"].runs)
    assert data["pairs"][0]["word"] == "worse"
    assert decode(Comparison, data, file="x.json", advice="compare again") == found


# Words


@pytest.mark.parametrize(
    ("low", "high", "p", "seeds", "apart", "word"),
    [
        (0.1, 0.2, 1e-9, 1, True, "too few seeds to tell"),
        (0.1, 0.2, 1e-9, 2, True, "too few seeds to tell"),
        (-0.1, 0.2, 0.9, 2, False, "too few seeds to tell"),
        (0.1, 0.2, 0.049, 3, False, "better"),
        (-0.2, -0.1, 0.049, 3, True, "worse"),
        (0.1, 0.2, 0.05, 3, False, "no difference seen"),
        (0.0, 0.2, 0.01, 3, False, "no difference seen"),
        (0.1, 0.2, 0.2, 3, True, "too few seeds to tell"),
        (-0.1, 0.2, 0.2, 5, True, "too few seeds to tell"),
        (-0.1, 0.2, 0.2, 5, False, "no difference seen"),
    ],
)
def test_the_rule(low: float, high: float, p: float, seeds: int, apart: bool, word: Word) -> None:
    assert word_for(low, high, p, seeds=seeds, apart=apart) == word


def test_two_copies_of_a_model_under_two_names() -> None:
    copy = simulated(0.95)["a"]
    assert compare_scores({"a": copy, "b": copy}).between("a", "b").word == "no difference seen"


@pytest.mark.parametrize("seed", range(10))
def test_two_trainings_of_a_model_under_two_names(seed: int) -> None:
    scores = simulated(0.95, 0.95, seed=seed)  # other runs of the same: as equal as models get
    assert compare_scores(scores).between("a", "b").word == "no difference seen"


def test_one_seed_never_decides() -> None:
    found = compare_scores({"a": np.ones((1, 2000)), "b": np.zeros((1, 2000))})
    assert found.between("a", "b").word == "too few seeds to tell"


def test_a_lucky_run_is_not_a_better_model() -> None:
    # On these items the first is ahead beyond doubt; its runs are too different to say so of the model.
    generator = np.random.default_rng(0)
    first = generator.random((3, 2000)) < np.array([[0.95], [0.75], [0.55]])
    second = generator.random((3, 2000)) < np.array([[0.5], [0.7], [0.9]])
    pair = compare_scores({"a": first, "b": second}).between("a", "b")
    assert pair.p_items < 0.001
    assert pair.p > 0.5
    assert pair.word == "no difference seen"


def test_runs_wholly_apart_are_not_called_alike() -> None:
    generator = np.random.default_rng(0)
    first = generator.random((3, 2000)) < 0.99
    second = generator.random((3, 2000)) < np.array([[0.2], [0.6], [0.9]])
    pair = compare_scores({"a": first, "b": second}).between("a", "b")
    assert pair.p > 0.05
    assert pair.word == pair.turned().word == "too few seeds to tell"
    assert compare_scores({"b": second, "a": first}).between("b", "a").word == "too few seeds to tell"
    # Where the items alone could have done it, more seeds are not what is missing.
    run = np.arange(500) >= 2
    pair = compare_scores({"a": [run] * 3, "b": [np.arange(500) >= 3] * 3}).between("a", "b")
    assert pair.word == "no difference seen"


# Corpus scores


def with_ones(scores: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Counts whose ratio is the mean of the scores."""
    return {name: np.stack([one, np.ones_like(one)], axis=-1) for name, one in scores.items()}


def as_corpus(scores: dict[str, np.ndarray]) -> Comparison:
    return compare_counts(with_ones(scores), CharacterErrorRate(), resamples=20_000)


@pytest.mark.parametrize("seeds", [1, 3])
def test_an_average_as_a_corpus_score_gives_the_same(seeds: int) -> None:
    scores = {name: one + 0.5 for name, one in simulated(0.7, 0.72, seeds=seeds, items=307).items()}
    plain, drawn = compare_scores(scores).between("a", "b"), as_corpus(scores).between("a", "b")
    assert drawn.difference == pytest.approx(plain.difference, rel=1e-12)
    assert (drawn.low, drawn.high) == pytest.approx((plain.low, plain.high), abs=0.02 * (plain.high - plain.low))
    assert drawn.p == pytest.approx(plain.p, abs=0.02)
    flipped = {"better": "worse", "worse": "better"}  # of an error rate less is better
    assert drawn.word == flipped.get(plain.word, plain.word)


def test_a_metric_that_is_a_mean_is_compared_in_closed_form() -> None:
    scores = {name: one.astype(float) for name, one in simulated(0.6, 0.9, seeds=3).items()}
    assert compare_counts(with_ones(scores), ExactMatch()) == compare_scores(scores, "exact_match")


def test_where_less_is_better_the_words_say_so_and_the_figures_stay() -> None:
    more, less = (compare_scores(simulated(0.6, 0.9), better=better) for better in ("higher", "lower"))
    assert more.estimates == less.estimates
    assert (more.pairs[0].word, less.pairs[0].word) == ("worse", "better")
    assert (more.pairs[0].difference, more.pairs[0].p_holm) == (less.pairs[0].difference, less.pairs[0].p_holm)


def test_an_error_rate_is_no_average_over_items() -> None:
    # 9 edits in 90 characters and 5 in 10: 14 in 100, not the average of 0.1 and 0.5.
    found = compare_counts({"a": [[[9, 90], [5, 10]]]}, CharacterErrorRate())
    assert found.estimates["a"].mean == pytest.approx(0.14)


# Bad input


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({}, "at least one model"),
        ({"a": [1, 0]}, r"a: expected \[seeds, items\], at least one of each, got shape \(2,\)"),
        ({"a": np.ones((3, 0))}, r"got shape \(3, 0\)"),
        ({"a": [[1.0, math.nan]]}, "a: expected finite scores"),
        ({"a": [[1, 0]], "b": [[1, 0, 1]]}, r"same items for every model, got \{'a': 2, 'b': 3\}"),
    ],
)
def test_bad_scores_are_refused(scores: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare_scores(scores)  # type: ignore[arg-type]  # wrong on purpose


def test_bad_statistics_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[seeds, items, counts\]"):
        compare_counts({"a": [[1.0, 2.0]]}, ExactMatch())


def test_student_is_what_decides_between_any_scores() -> None:
    scores = np.array([[0.1, 0.4, 0.3, 0.9]])
    pair = compare_scores({"a": scores, "b": np.zeros((1, 4))}).between("a", "b")
    assert pair.p_items == pytest.approx(t_tail(scores.mean() / math.sqrt(scores.var(ddof=1) / 4), 3))


def test_outputs_are_compared_at_the_level_asked_for() -> None:
    right, outputs = ["x"] * 9, {"a": [["x"] * 8 + ["y"]] * 2, "b": [["x"] * 5 + ["y"] * 4] * 2}
    sure, unsure = (compare_outputs(outputs, right, ExactMatch(), level=level).pairs[0] for level in (0.99, 0.5))
    assert sure.high - sure.low > unsure.high - unsure.low
    assert compare_outputs(outputs, right, ExactMatch()) == compare_outputs(outputs, right, ExactMatch(), level=0.95)


def test_side_questions_cost_the_main_one_nothing() -> None:
    """A difference that a test of its own shows is drowned by pairs of four more models, unless it was primary."""
    generator = np.random.default_rng(3)
    scores = {name: generator.random((3, 400)) < share for name, share in (("a", 0.9), ("b", 0.83))}
    more = scores | {f"side{k}": generator.random((3, 400)) < 0.5 for k in range(4)}
    alone = compare_scores(scores).between("a", "b")
    drowned = compare_scores(more).between("a", "b")
    assert alone.word == "better"
    assert alone.p < 0.05 < drowned.p_holm
    assert drowned.word != "better"
    found = compare_scores(more, primary=("b", "a"))
    named = found.between("a", "b")
    assert named == dataclasses.replace(alone, primary=True)
    rest = [pair for pair in found.pairs if not pair.primary]
    assert [pair.p_holm for pair in rest] == holm([pair.p for pair in rest])
    assert len(rest) == 14
    assert not any(pair.primary for pair in compare_scores(more, primary=("a", "nobody")).pairs)


def test_a_difference_of_the_margin_is_seldom_said_to_be_within_it_or_beyond() -> None:
    """Either is wrong in at most 2.5 % of comparisons, and runs of one model vary; of 200 so many by chance."""
    chance, said = np.random.default_rng(0), Counter[str]()
    for _ in range(200):
        ease = chance.normal(0.95, 0.02, 500).clip(0, 1)
        lead = np.array([0.02, 0.0])[:, None] - 0.02 + chance.normal(0, 0.004, (2, 5))
        first, second = chance.random((2, 5, 500)) < ease + lead[..., None]
        said[compare_scores({"first": first, "second": second}).pairs[0].beside(0.02)] += 1
    assert said["equivalent"] <= 10
    assert said["more"] <= 10
    assert said["perhaps less"] > 50


@pytest.mark.parametrize(
    ("first", "second", "p_items", "word"),
    [
        ([0.5, 0.6, 0.7], [0.2, 0.3, 0.4], 0.04, "too few seeds to tell"),  # apart, and not by the luck of the items
        ([0.2, 0.3, 0.4], [0.5, 0.6, 0.7], 0.04, "too few seeds to tell"),
        ([0.5, 0.6, 0.7], [0.2, 0.3, 0.4], 0.05, "no difference seen"),  # perhaps by luck
        ([0.5, 0.6, 0.7], [0.2, 0.3, 0.5], 0.04, "no difference seen"),  # they touch
        ([0.2, 0.3, 0.5], [0.5, 0.6, 0.7], 0.04, "no difference seen"),
    ],
)
def test_runs_are_apart_where_all_of_one_lie_above_all_of_the_other(
    first: list[float], second: list[float], p_items: float, word: Word
) -> None:
    scores = RunScores({"a": np.array(first), "b": np.array(second)}, np.zeros((6, 6)), 100, None)
    pair = PairTest("a", "b", "mean", 0.0, -0.1, 0.1, 0.2, 0.2, "better", p_items)
    found = scores._with_word(pair, 0.6, "higher")
    assert found == dataclasses.replace(pair, p_holm=0.6, word=word)
