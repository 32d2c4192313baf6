"""The mean run of a model, stuck runs included, and what may be said of two models that may get stuck.

Good runs show how good a model is where it trains. How often it gets stuck, few runs cannot show: with five good runs,
half of all trainings may fail. So two questions are answered apart: which model is better where it trains, and which
has the better mean run. docs/statistics.md has the simulation. Letters: `s` seeds, `r` runs of all models together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from selfattn.evaluation.metrics.metric import Array
from selfattn.evaluation.statistics.significance import MIN_SEEDS, RunScores, choose_word
from selfattn.evaluation.statistics.variances import ALPHA
from selfattn.results.quality import PairTest

MeanRunWord = Literal[
    "better", "worse", "better where it trains", "worse where it trains", "no difference seen", "too few seeds to tell"
]
_STUCK = 0.5  # of the best run's score


def clopper_pearson(count: int, total: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the exact interval of a share (Clopper and Pearson 1934).

    Args:
        count: how many of the total.
        total: at least 1.
        alpha: probability that the interval misses the share; default 0.05.

    Example:
        >>> low, high = clopper_pearson(0, 5)
        >>> low, round(high, 3), round(1 - 0.025 ** (1 / 5), 3)
        (0.0, 0.522, 0.522)
    """
    low = 0.0 if count == 0 else float(special.betaincinv(count, total - count + 1, alpha / 2))
    high = 1.0 if count == total else float(special.betaincinv(count + 1, total - count, 1 - alpha / 2))
    return low, high


def stuck_runs(scores: Array) -> npt.NDArray[np.bool_]:
    """Return which runs ``[s]`` are stuck: those that score below half of the model's best run.

    Example:
        >>> stuck_runs(np.array([0.97, 0.1, 0.96])).tolist()
        [False, True, False]
    """
    return np.asarray(scores < _STUCK * scores.max())


@dataclass(frozen=True)
class MeanRun:
    """The expected score of a further training of a model, stuck ones included.

    Attributes:
        mean: of all runs.
        low: lower end of the 95 % interval.
        high: upper end.
        good: mean of the runs that are not stuck.
        runs: how many there are.
        stuck: how many of them are stuck.
        most_stuck: largest share of stuck trainings that these runs allow (Clopper and Pearson 1934, 97.5 %).
    """

    mean: float
    low: float
    high: float
    good: float
    runs: int
    stuck: int
    most_stuck: float


@dataclass(frozen=True)
class MeanRunTest:
    """What may be said of the mean runs of two models.

    Attributes:
        models: the mean run of each, by name.
        difference: of the means of all runs, the first minus the second.
        low: lower end of its 95 % interval.
        high: upper end.
        where_it_trains: the test of the runs that are not stuck.
        word: verdict on the first. "better" and "worse" are about the mean run.
    """

    models: Mapping[str, MeanRun]
    difference: float
    low: float
    high: float
    where_it_trains: PairTest
    word: MeanRunWord


def compare_mean_runs(scores: RunScores, first: str, second: str, *, floor: float = 0.0) -> MeanRunTest:
    r"""Compare the mean runs of two models of which some runs may be stuck.

    A model's mean run is :math:`m = (1 - \pi) g + \pi s` with the share :math:`\pi` of stuck runs, the mean
    :math:`g` of the good ones and the mean :math:`s` of the stuck ones. The interval of m joins that of g with the
    exact one of :math:`\pi`; for its lower end further stuck runs score ``floor``:

    .. math:: m - \sqrt{((1 - \hat\pi)(g - g_l))^2 + ((\pi_u - \hat\pi)(g - f))^2}, \quad
        m + \sqrt{((1 - \hat\pi)(g_u - g))^2 + ((\hat\pi - \pi_l)(g - s))^2}

    The interval of the difference follows from those of both models (Zou and Donner 2008).

    The first rule that holds decides:

    1. Fewer than three good runs of one model: "too few seeds to tell".
    2. The interval of the difference excludes 0, and the good runs are different in the same direction, in points and
       in log-odds: "better" or "worse".
    3. Only the good runs are different: "better where it trains" or "worse where it trains". It is open which model
       has the better mean run.
    4. Otherwise the word for the good runs: "no difference seen" or "too few seeds to tell".

    Args:
        scores: of all runs; higher is better.
        first: name of a model.
        second: name of the other.
        floor: the lowest score that a stuck run may have; default 0.

    Raises:
        ValueError: lower scores are better, so that half of the best score means nothing.

    Example:
        >>> from selfattn.evaluation.statistics.significance import score_runs
        >>> answers = np.random.default_rng(0).random((2, 5, 2000)) < [[[0.97]], [[0.93]]]
        >>> test = compare_mean_runs(score_runs({"a": answers[0], "b": answers[1]}), "a", "b")
        >>> test.word, round(test.models["a"].most_stuck, 2)
        ('better where it trains', 0.52)
    """
    if scores.better != "higher":
        raise ValueError(f"{scores.metric}: lower is better; stuck runs are told by half of the best score")
    stuck = {name: stuck_runs(scores.runs[name]) for name in (first, second)}
    good = without(scores, stuck)
    estimates = good.estimates()
    models = {}
    for name, is_stuck in stuck.items():
        runs = scores.runs[name]
        count = int(is_stuck.sum())
        share = count / len(runs)
        least, most = clopper_pearson(count, len(runs))
        centre = estimates[name]
        mean = float(runs.mean())
        stuck_mean = float(runs[is_stuck].mean()) if count else floor
        good_low = centre.mean if centre.low is None else centre.low
        good_high = centre.mean if centre.high is None else centre.high
        below = math.hypot((1 - share) * (centre.mean - good_low), (most - share) * (centre.mean - floor))
        above = math.hypot((1 - share) * (good_high - centre.mean), (share - least) * (centre.mean - stuck_mean))
        low = max(floor, mean - below)
        high = min(scores.bounds[1], mean + above)
        models[name] = MeanRun(mean, low, high, centre.mean, len(runs), count, most)
    a = models[first]
    b = models[second]
    difference = a.mean - b.mean
    low = difference - math.hypot(a.mean - a.low, b.high - b.mean)
    high = difference + math.hypot(a.high - a.mean, b.mean - b.low)
    pair = good.pair(first, second)
    fewest = min(len(good.runs[name]) for name in models)
    test = replace(pair, word=choose_word(pair, fewest))
    return MeanRunTest(models, difference, low, high, test, _word(test, low, high, fewest))


def _word(test: PairTest, low: float, high: float, fewest: int) -> MeanRunWord:
    """Return the verdict on the mean run from the test of the good runs and the interval of the difference."""
    if fewest < MIN_SEEDS:
        return "too few seeds to tell"
    odds = test.odds
    if test.word == "better" and (odds is None or odds.low > 0):
        return "better" if low > 0 else "better where it trains"
    if test.word == "worse" and (odds is None or odds.high < 0):
        return "worse" if high < 0 else "worse where it trains"
    return "too few seeds to tell" if test.separated else "no difference seen"


def without(scores: RunScores, left_out: Mapping[str, npt.NDArray[np.bool_]]) -> RunScores:
    """Return the scores of some models without some of their runs; other models are left out.

    Args:
        scores: of all models.
        left_out: for each model ``[s]``, True for a run to leave out.

    Example:
        >>> from selfattn.evaluation.statistics.significance import score_runs
        >>> scores = score_runs({"a": [[1.0, 1.0], [0.0, 0.0]], "b": [[1.0, 0.0]]})
        >>> without(scores, {"a": np.array([False, True])}).runs["a"].tolist()
        [1.0]
    """
    keep = [~left_out.get(name, np.ones(len(runs), dtype=np.bool_)) for name, runs in scores.runs.items()]
    places = np.flatnonzero(np.concatenate(keep))
    runs = {name: scores.runs[name][~is_left_out] for name, is_left_out in left_out.items()}
    ordered = {name: runs[name] for name in scores.runs if name in runs}
    right = None
    if scores.right is not None:
        right = {name: scores.right[name][~left_out[name]] for name in ordered}
    return replace(scores, runs=ordered, right=right, covariance=scores.covariance[np.ix_(places, places)])
