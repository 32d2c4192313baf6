"""Runs that share the luck of a tuning, and trainings that fail: by hand and against SciPy."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from selfattn.evaluation.significance import RunScores, by_tuning
from selfattn.evaluation.variances import fisher_p


def runs_of(**scores: list[float]) -> RunScores:
    """Scores of runs on so many items that these add nothing."""
    arrays = {name: np.array(values) for name, values in scores.items()}
    count = sum(map(len, scores.values()))
    return RunScores(arrays, np.zeros((count, count)), 10**6, bounds=(0.0, 1.0))


# --- tunings ----------------------------------------------------------------------------------------------------------


def test_tunings_are_the_units_of_welchs_test() -> None:
    first, second = [0.9, 0.92, 0.8, 0.84, 0.95, 0.95], [0.7, 0.72, 0.81, 0.79, 0.6, 0.7]
    pair = by_tuning(runs_of(a=first, b=second), {"a": "xxyyzz", "b": "112233"}).pair("a", "b")
    expected = stats.ttest_ind([0.91, 0.82, 0.95], [0.71, 0.8, 0.65], equal_var=False)
    assert (pair.p, pair.difference) == (pytest.approx(expected.pvalue), pytest.approx(0.52 / 3))
    assert (pair.low, pair.high) == pytest.approx(tuple(expected.confidence_interval()))
    (few,) = by_tuning(runs_of(a=first[:4], b=second[:4]), {"a": "xxyy", "b": "1122"}).comparison().pairs
    assert few.word == "not told apart"  # four runs, two tunings


@pytest.mark.parametrize("labels", ["xxxx", "xxxy", "xxy"])
def test_tunings_have_as_many_runs_each(labels: str) -> None:
    scores = runs_of(a=[0.5, 0.6, 0.7, 0.8])
    with pytest.raises(ValueError, match="a: expected at least two tunings with as many runs each"):
        by_tuning(scores, {"a": labels})


# --- failed runs ------------------------------------------------------------------------------------------------------


def failing(scores: RunScores, **failed: list[bool]) -> RunScores:
    return replace(scores, failed={name: np.array(flags) for name, flags in failed.items()})


@pytest.mark.parametrize("counts", [((3, 3), (0, 3)), ((5, 5), (1, 5)), ((2, 4), (1, 6)), ((0, 3), (0, 3))])
def test_fishers_test_is_scipys(counts: tuple[tuple[int, int], tuple[int, int]]) -> None:
    table = [[count, total - count] for count, total in counts]
    assert fisher_p(*counts) == pytest.approx(stats.fisher_exact(table).pvalue)


def test_failed_runs_count_in_the_mean_and_neither_side_alone_makes_a_difference() -> None:
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


def test_a_model_all_of_whose_trainings_failed_is_worse_if_enough_were_made() -> None:
    for count, word in ((3, "not told apart"), (5, "worse")):
        scores = runs_of(a=[0.001 * run for run in range(count)], b=[0.9 + 0.001 * run for run in range(count)])
        assert failing(scores, a=[True] * count).comparison().between("a", "b").word == word
    both = failing(runs_of(a=[0.0, 0.01, 0.0], b=[0.0, 0.0, 0.02]), a=[True] * 3, b=[True] * 3)
    assert both.comparison().between("a", "b").word == "not told apart"


def test_tunings_stay_the_units_where_runs_failed() -> None:
    runs = by_tuning(runs_of(a=[0.9, 0.91, 0.0, 0.9, 0.92, 0.9], b=[0.8] * 6), {"a": "xxyyzz", "b": "xxyyzz"})
    flags = np.array([False, False, True, False, False, False])
    others = runs.without({"a": flags})
    assert others.units("a").tolist() == pytest.approx([0.905, 0.9, 0.91])
    assert failing(runs, a=flags.tolist()).pair("a", "b").seeds == 3
