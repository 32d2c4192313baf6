"""The mean run of a model, stuck runs included, and what may be said of models that may get stuck.

Good runs show how good a model is where it trains. How often it gets stuck, few runs cannot show: with five good runs,
half of all trainings may fail. So two questions are answered apart: which model is better where it trains, and which
has the better mean run. docs/statistics.md has the simulation. Letters: `s` seeds, `r` runs of all models together.
"""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy import special

from selfattn.evaluation.metrics.metric import Array
from selfattn.evaluation.statistics.significance import MIN_SEEDS, RunScores
from selfattn.evaluation.statistics.variances import ALPHA
from selfattn.results.pair_tests import Comparison, Gap, PairTest, Word
from selfattn.results.quality import Estimate, WhereItTrains

_STUCK = 0.5  # of the best run's score
_FLOOR = 0.0  # the lowest score that a stuck run may have
_UNBOUNDED: dict[Word, Word] = {"better": "better where it trains", "worse": "worse where it trains"}


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


def compare_mean_runs(scores: RunScores, primary: tuple[str, str] | None = None, alpha: float = ALPHA) -> Comparison:
    r"""Estimate every model's mean run, and test every pair of models of which some runs may be stuck.

    A model's mean run is :math:`m = (1 - \pi) g + \pi s` with the share :math:`\pi` of stuck runs, the mean
    :math:`g` of the good ones and the mean :math:`s` of the stuck ones. The interval of m joins that of g with the
    exact one of :math:`\pi`; for its lower end further stuck runs score 0:

    .. math:: m - \sqrt{((1 - \hat\pi)(g - g_l))^2 + ((\pi_u - \hat\pi) g)^2}, \quad
        m + \sqrt{((1 - \hat\pi)(g_u - g))^2 + ((\hat\pi - \pi_l)(g - s))^2}

    The interval of a difference follows from those of both models (Zou and Donner 2008). p and odds are those of the
    good runs (`PairTest.trains`). The first rule that holds decides:

    1. Fewer than three good runs of one model: "too few seeds to tell".
    2. The interval of the difference excludes 0, and the good runs are different in the same direction, in points and
       in log-odds: "better" or "worse".
    3. Only the good runs are different: "better where it trains" or "worse where it trains". It is open which model
       has the better mean run.
    4. Otherwise the word for the good runs: "no difference seen" or "too few seeds to tell".

    Where lower scores are better, a stuck run may score anything: estimates and tests are those of all runs, and say at
    most which model is better where it trains. The same holds for a model with one run.

    Args:
        scores: of all runs.
        primary: see `RunScores.comparison`.
        alpha: see `RunScores.comparison`.

    Example:
        >>> from selfattn.evaluation.statistics.significance import score_runs
        >>> answers = np.random.default_rng(0).random((2, 5, 2000)) < [[[0.97]], [[0.93]]]
        >>> comparison = compare_mean_runs(score_runs({"a": answers[0], "b": answers[1]}))
        >>> comparison.between("a", "b").word, round(comparison.estimates["a"].trains.most_stuck, 2)
        ('better where it trains', 0.52)
    """
    if scores.better == "lower":
        comparison = scores.comparison(primary, alpha)
        pairs = [replace(pair, word=_UNBOUNDED.get(pair.word, pair.word)) for pair in comparison.pairs]
        return replace(comparison, pairs=tuple(pairs))
    estimates = mean_runs(scores)
    at_alpha = estimates if alpha == ALPHA else mean_runs(scores, alpha)
    pairs = []
    for pair in without_stuck(scores).comparison(primary, alpha).pairs:
        of_pair = at_alpha if pair.primary else estimates
        pairs.append(_mean_run_test(pair, of_pair[pair.first], of_pair[pair.second]))
    return Comparison(estimates, tuple(pairs))


def mean_runs(scores: RunScores, alpha: float = ALPHA) -> dict[str, Estimate]:
    """Estimate the mean run of each model, see :func:`compare_mean_runs`.

    Args:
        scores: of all runs; of a metric for which lower is better the estimates are those of the runs seen.
        alpha: probability that an interval misses; default 0.05.

    Example:
        >>> from selfattn.evaluation.statistics.significance import score_runs
        >>> answers = np.random.default_rng(0).random((4, 500)) < [[0.97], [0.98], [0.97], [0.1]]
        >>> estimate = mean_runs(score_runs({"a": answers}))["a"]
        >>> round(estimate.mean, 2), round(estimate.trains.mean, 2), estimate.trains.stuck
        (0.76, 0.97, 1)
    """
    if scores.better == "lower":
        return scores.estimates(alpha)
    estimates = {}
    for name, centre in without_stuck(scores).estimates(alpha).items():
        runs = scores.runs[name]
        is_stuck = stuck_runs(runs)
        if len(runs) == 1 or centre.low is None or centre.high is None:
            estimates[name] = centre
            continue
        count = int(is_stuck.sum())
        share = count / len(runs)
        units = len(scores.units(name))  # tunings, where their runs share their luck
        least, most = clopper_pearson(math.ceil(share * units), units, alpha)
        least = min(least, share)
        mean = float(runs.mean())
        stuck_mean = float(runs[is_stuck].mean()) if count else _FLOOR
        below = math.hypot((1 - share) * (centre.mean - centre.low), (most - share) * (centre.mean - _FLOOR))
        above = math.hypot((1 - share) * (centre.high - centre.mean), (share - least) * (centre.mean - stuck_mean))
        low = max(_FLOOR, mean - below)
        high = min(scores.bounds[1], mean + above)
        trains = WhereItTrains(centre.mean, centre.low, centre.high, count, most)
        estimates[name] = Estimate(mean, low, high, tuple(map(float, runs)), trains)
    return estimates


def _mean_run_test(pair: PairTest, first: Estimate, second: Estimate) -> PairTest:
    """Return the test of two mean runs.

    Args:
        pair: test of the runs that are not stuck.
        first: mean run of its first model.
        second: mean run of its second model.
    """
    if first.trains is None or second.trains is None:
        return replace(pair, word=_UNBOUNDED.get(pair.word, pair.word))
    difference = first.mean - second.mean
    first_below, first_above = _reaches(first)
    second_below, second_above = _reaches(second)
    low = difference - math.hypot(first_below, second_above)
    high = difference + math.hypot(first_above, second_below)
    fewest = min(len(first.runs) - first.trains.stuck, len(second.runs) - second.trains.stuck)
    trains = Gap(pair.difference, pair.low, pair.high)
    word = _word(pair, low, high, fewest)
    return replace(pair, difference=difference, low=low, high=high, trains=trains, word=word)


def _reaches(estimate: Estimate) -> tuple[float, float]:
    """Return how far the interval of a mean goes below and above it."""
    low = estimate.mean if estimate.low is None else estimate.low
    high = estimate.mean if estimate.high is None else estimate.high
    return estimate.mean - low, high - estimate.mean


def _word(test: PairTest, low: float, high: float, fewest: int) -> Word:
    """Return the verdict on the mean run from the test of the good runs and the interval of the difference."""
    if fewest < MIN_SEEDS or test.word == "too few seeds to tell":
        return "too few seeds to tell"
    odds = test.odds
    if test.word == "better" and (odds is None or odds.low > 0):
        return "better" if low > 0 else "better where it trains"
    if test.word == "worse" and (odds is None or odds.high < 0):
        return "worse" if high < 0 else "worse where it trains"
    return "too few seeds to tell" if test.separated else "no difference seen"


def without_stuck(scores: RunScores) -> RunScores:
    """Return the scores of the runs that are not stuck.

    Example:
        >>> from selfattn.evaluation.statistics.significance import score_runs
        >>> without_stuck(score_runs({"a": [[1.0, 1.0], [0.0, 0.0]]})).runs["a"].tolist()
        [1.0]
    """
    keep = {name: ~stuck_runs(runs) for name, runs in scores.runs.items()}
    runs = {name: scores.runs[name][good] for name, good in keep.items()}
    right = {name: items[keep[name]] for name, items in scores.right.items()}
    tunings = {}
    for name, labels in scores.tunings.items():
        tunings[name] = np.unique(labels[keep[name]], return_inverse=True)[1]
    places = np.flatnonzero(np.concatenate(list(keep.values())))
    covariance = scores.covariance[np.ix_(places, places)]
    return replace(scores, runs=runs, right=right, covariance=covariance, tunings=tunings)
