"""Runs that share the luck of a tuning, and runs that get stuck: by hand, against SciPy, and in simulation."""

import importlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from selfattn.evaluation.statistics.mean_run import clopper_pearson, compare_mean_runs, stuck_runs
from selfattn.evaluation.statistics.significance import RunScores, by_tuning, score_runs
from selfattn.results.pair_tests import LogOdds


def runs_of(**scores: list[float]) -> RunScores:
    """Scores of runs on so many items that these add nothing."""
    arrays = {name: np.array(values) for name, values in scores.items()}
    count = sum(map(len, scores.values()))
    return RunScores(arrays, np.zeros((count, count)), 10**6, bounds=(0.0, 1.0))


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).resolve().parents[2])
        yield lambda name: importlib.import_module(f"benchmarks.{name}")


# --- tunings ----------------------------------------------------------------------------------------------------------


def test_tunings_are_the_units_of_welchs_test() -> None:
    first, second = [0.9, 0.92, 0.8, 0.84, 0.95, 0.95], [0.7, 0.72, 0.81, 0.79, 0.6, 0.7]
    pair = by_tuning(runs_of(a=first, b=second), {"a": "xxyyzz", "b": "112233"}).pair("a", "b")
    expected = stats.ttest_ind([0.91, 0.82, 0.95], [0.71, 0.8, 0.65], equal_var=False)
    assert (pair.p, pair.difference) == (pytest.approx(expected.pvalue), pytest.approx(0.52 / 3))
    assert (pair.low, pair.high) == pytest.approx(tuple(expected.confidence_interval()))
    (few,) = by_tuning(runs_of(a=first[:4], b=second[:4]), {"a": "xxyy", "b": "1122"}).comparison().pairs
    assert few.word == "too few seeds to tell"  # four runs, two tunings


def test_a_tuning_for_each_run_changes_nothing() -> None:
    answers = np.random.default_rng(0).random((2, 4, 300)) < [[[0.9]], [[0.8]]]
    scores = score_runs({"a": answers[0], "b": answers[1]})
    assert by_tuning(scores, {"a": range(4), "b": range(4)}).comparison() == scores.comparison()


@pytest.mark.parametrize("labels", ["xxxx", "xxxy", "xxy"])
def test_tunings_have_as_many_runs_each(labels: str) -> None:
    scores = runs_of(a=[0.5, 0.6, 0.7, 0.8])
    with pytest.raises(ValueError, match="a: expected at least two tunings with as many runs each"):
        by_tuning(scores, {"a": labels})


def test_luck_of_tuning_makes_equal_models_differ_unless_tunings_are_the_units(benchmarks: Any) -> None:
    luck = benchmarks("tuning_luck")
    usual = luck.SURFACES["usual: 10"]
    settings = {"runs": 20, "trials": 20, "lead": 0.0, "repeats": 1500, "seed": (0,)}
    today, *_ = luck.PROCEDURES
    assert luck.called_different(today, usual, **settings) > 0.09
    for procedure in luck.PROCEDURES[-3:]:
        for runs in (5, 20):
            assert luck.called_different(procedure, usual, **settings | {"runs": runs}) < 0.065


# --- stuck runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "total"), [(0, 3), (1, 5), (2, 20), (5, 5)])
def test_the_exact_interval_is_scipys(count: int, total: int) -> None:
    expected = stats.binomtest(count, total).proportion_ci(method="exact")
    assert clopper_pearson(count, total) == pytest.approx((expected.low, expected.high))


def test_the_mean_run_by_hand() -> None:
    runs = [0.98, 0.96, 0.97, 0.99, 0.2]
    assert stuck_runs(np.array(runs)).tolist() == [False] * 4 + [True]
    comparison = compare_mean_runs(runs_of(a=runs, b=[0.9, 0.91, 0.92, 0.9, 0.89]))
    model = comparison.estimates["a"]
    assert model.trains
    assert (model.mean, model.trains.mean, model.trains.stuck) == (pytest.approx(0.82), pytest.approx(0.975), 1)
    half = stats.t.ppf(0.975, 3) * np.std(runs[:4], ddof=1) / 2
    least, most = clopper_pearson(1, 5)
    assert model.trains.most_stuck == most
    assert model.low == pytest.approx(0.82 - math.hypot(0.8 * half, (most - 0.2) * 0.975))
    assert model.high == pytest.approx(0.82 + math.hypot(0.8 * half, (0.2 - least) * 0.775))
    test = comparison.between("a", "b")
    assert test.trains
    assert (test.trains.difference, test.difference) == (pytest.approx(0.071), pytest.approx(-0.084))
    assert test.word == "better where it trains"  # its mean run is worse by 8 points, as far as can be seen
    assert test.low < 0 < test.high
    turned = comparison.between("b", "a")
    assert (turned.word, turned.trains and turned.trains.difference) == ("worse where it trains", pytest.approx(-0.071))
    assert test.beside(0.01) == turned.beside(0.01) == "more"  # a margin is about the runs that are not stuck


def test_a_lead_that_failures_cannot_undo_is_a_verdict() -> None:
    answers = np.random.default_rng(0).random((2, 20, 500)) < [[[0.98]], [[0.5]]]
    comparison = compare_mean_runs(score_runs({"a": answers[0], "b": answers[1]}))
    assert comparison.between("a", "b").word == "better"
    assert comparison.between("b", "a").word == "worse"
    reversed_names = compare_mean_runs(score_runs({"b": answers[1], "a": answers[0]}))
    assert reversed_names.between("b", "a").word == "worse"
    few = compare_mean_runs(score_runs({"a": answers[0, :5], "b": answers[1, :5]}))
    assert few.between("a", "b").word == "better where it trains"  # half of all trainings may fail
    few = compare_mean_runs(score_runs({"b": answers[1, :5], "a": answers[0, :5]}))
    assert few.between("b", "a").word == "worse where it trains"


def test_where_lower_is_better_and_with_one_run_nothing_is_said_of_the_mean_run() -> None:
    runs = runs_of(a=[0.1, 0.11, 0.12], b=[0.5, 0.51, 0.52])
    errors = replace(runs, better="lower")
    assert errors.comparison().between("a", "b").word == "better"
    comparison = compare_mean_runs(errors)
    assert comparison.between("a", "b").word == "better where it trains"
    assert comparison.estimates == errors.estimates()
    single = compare_mean_runs(runs_of(a=[0.9], b=[0.5]))
    assert (single.estimates["a"].trains, single.between("a", "b").word) == (None, "too few seeds to tell")


def test_several_models_are_corrected_together_and_a_look_has_its_own_level() -> None:
    answers = np.random.default_rng(1).random((3, 5, 400)) < [[[0.97]], [[0.95]], [[0.93]]]
    scores = score_runs(dict(zip("abc", answers, strict=True)))
    before = scores.comparison(("a", "b"), 0.01)
    after = compare_mean_runs(scores, ("a", "b"), 0.01)
    assert [pair.p_holm for pair in after.pairs] == [pair.p_holm for pair in before.pairs]
    assert [pair.trains and pair.trains.low for pair in after.pairs] == [pair.low for pair in before.pairs]
    wide = after.between("a", "b")
    usual = compare_mean_runs(scores).between("a", "b")
    assert (wide.alpha, usual.alpha) == (0.01, 0.05)
    assert wide.low < usual.low < usual.high < wide.high


def test_tunings_whose_runs_share_their_luck_bound_the_share_of_stuck_ones() -> None:
    runs = runs_of(a=[0.9] * 3 + [0.1] + [0.9] * 4, b=[0.8] * 8)
    clustered = by_tuning(runs, {"a": "wwxxyyzz", "b": "wwxxyyzz"})
    trains = compare_mean_runs(clustered).estimates["a"].trains
    assert trains
    assert trains.most_stuck == clopper_pearson(1, 4)[1] > clopper_pearson(1, 8)[1]


def test_points_and_odds_agree_in_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = runs_of(a=[0.9, 0.91, 0.92], b=[0.5, 0.51, 0.52])
    assert compare_mean_runs(scores).between("a", "b").word == "better where it trains"
    pair = RunScores.pair

    def with_odds(self: RunScores, first: str, second: str, alpha: float) -> Any:
        return replace(pair(self, first, second, alpha), odds=LogOdds(-1.0, -1.5, -0.5), separated=False)

    monkeypatch.setattr(RunScores, "pair", with_odds)
    assert compare_mean_runs(scores).between("a", "b").word == "no difference seen"


def test_a_model_that_gets_stuck_is_not_called_better_and_the_mean_run_is_covered(benchmarks: Any) -> None:
    failing = benchmarks("failing")
    world = failing.WORLDS["97 %, 1 in 10 stuck; 95 %"]
    shares = failing.outcomes(*world, 5, repeats=40, seed=(1,))
    assert shares["wrong today"] > 0.25
    assert shares["covered today"] < 0.6
    assert shares["wrong"] == 0
    assert shares["covered"] >= 0.95
