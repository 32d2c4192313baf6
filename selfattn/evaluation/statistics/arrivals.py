r"""How many training examples models need until they reach a target, and how many times as many as one another.

A training that does not reach the target within the cap needs more than the cap: it is never dropped, and never set to
the cap. The tests use ranks alone (Mann and Whitney 1947; Hodges and Lehmann 1963), so they hold for any distribution,
and an unknown number above the cap has a rank like any other. docs/statistics.md has the simulation.

Letters: `a` runs of the first model, `b` runs of the second.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median

import numpy as np

from selfattn.evaluation.metrics.metric import Array
from selfattn.evaluation.statistics.variances import ALPHA, holm
from selfattn.results.quality import Bound, ModelArrivals, RatioTest, Word

FEWEST_RUNS = 4  # of each model; with three, the smallest p of the test is 0.1


def describe_arrivals(examples: Sequence[int | None], cap: int) -> ModelArrivals:
    """Return the median number of examples of a model's runs, with the range of the runs.

    Args:
        examples: that each run read until it arrived; None where it did not within the cap.
        cap: most examples that a run reads.

    Example:
        >>> describe_arrivals([5600, 4800, None, 5200, 6400], 20_000)
        ModelArrivals(examples=(5600, 4800, None, 5200, 6400), median=5600, low=4800, high=None)
    """
    ranks = [math.inf if count is None else count for count in examples]

    def known(value: float) -> int | None:
        return round(value) if value <= cap else None

    return ModelArrivals(tuple(examples), known(median(ranks)), known(min(ranks)), known(max(ranks)))


def compare_arrivals(
    examples: Mapping[str, Sequence[int | None]], cap: int, primary: tuple[str, str] | None = None
) -> tuple[RatioTest, ...]:
    """Test every pair of models: how many times as many examples the first needs as the second.

    Holm's correction covers all pairs but the primary one, which was named beforehand. A pair is told apart if its
    corrected p is below 0.05 and its interval excludes 1.

    Args:
        examples: for each model what each of its runs read until it arrived; None where it did not.
        cap: most examples that a run reads.
        primary: the two models that the comparison is about; default none.

    Example:
        >>> runs = {"a": [5200, 5600, 4800, 6400, 5300], "b": [15600, 16000, 15200, 16000, 17000]}
        >>> (test,) = compare_arrivals(runs, 20_000)
        >>> round(test.ratio, 2), test.word, round(test.p, 4)
        (0.33, 'better', 0.0079)
    """
    tests = []
    for first, second in combinations(examples, 2):
        test = _ratio(first, second, examples[first], examples[second], cap)
        is_primary = {first, second} == set(primary or ())
        tests.append((test, is_primary))
    corrected = iter(holm([test.p for test, is_primary in tests if not is_primary]))
    judged = []
    for test, is_primary in tests:
        p_holm = test.p if is_primary else next(corrected)
        judged.append(test.judged(p_holm, _word(test, p_holm), primary=is_primary))
    return tuple(judged)


def _word(test: RatioTest, p_holm: float) -> Word:
    """Return the verdict on the first model, which is better if it needs fewer examples."""
    if p_holm < ALPHA and test.high is not None and test.high < 1:
        return "better"
    if p_holm < ALPHA and test.low is not None and test.low > 1:
        return "worse"
    return "not told apart"


def _ratio(first: str, second: str, a: Sequence[int | None], b: Sequence[int | None], cap: int) -> RatioTest:
    r"""Estimate how many times as many examples the first model needs, with its interval and p.

    The estimate is the median of the ratios of all pairs of runs, the interval has the order statistics of these ratios
    as its ends, and p belongs to it: p is below :math:`\alpha` exactly where the interval for it excludes 1. A run that
    did not arrive needs some number above the cap, so a ratio with it is known to lie within two bounds: lower ends
    take the lower ones, upper ends the upper ones.

    Where some runs do not arrive, the runs that do are compared as well, and what is reported holds in both views: the
    wider interval and the larger p. So a model that fails now and then is not called slower for that alone. A model
    that certainly fails in most of its runs is judged by all of them.
    """
    views = [(_censored(a, cap), _censored(b, cap))]
    arrived = [[count for count in runs if count is not None] for runs in (a, b)]
    fails = len(arrived[0]) < len(a) or len(arrived[1]) < len(b)
    if fails and not (mostly_fails(a) or mostly_fails(b)):
        views.append((_censored(arrived[0], cap), _censored(arrived[1], cap)))
    intervals = [_interval(*view) for view in views]
    low, high = min(ends[0] for ends in intervals), max(ends[1] for ends in intervals)
    p = max(_p_value(*view) for view in views)
    least, most = (float(np.median(bounds)) for bounds in _log_ratios(*views[0]))
    estimate = math.exp(next(filter(math.isfinite, (least, most)), 0.0))
    bound: Bound = "unknown"
    if least == most:
        bound = ""
    elif math.isfinite(least):
        bound = "more"
    elif math.isfinite(most):
        bound = "fewer"
    return RatioTest(first, second, estimate, bound, p, p, "not told apart", _end(low), _end(high))


def mostly_fails(examples: Sequence[int | None]) -> bool:
    """Say whether a model certainly misses the target in more than half of its trainings (one-sided, 5 %).

    Example:
        >>> mostly_fails([None] * 5), mostly_fails([None] * 4), mostly_fails([None] * 7 + [9000])
        (True, False, True)
    """
    count = len(examples)
    arrived = sum(one is not None for one in examples)
    return bool(sum(math.comb(count, k) for k in range(arrived + 1)) <= ALPHA * 2**count)


def _end(log_ratio: float) -> float | None:
    """Return an end of an interval as a ratio; None where there is none."""
    return math.exp(log_ratio) if math.isfinite(log_ratio) else None


def _censored(runs: Sequence[int | None], cap: int) -> Array:
    """Return bounds ``[2 r]`` of the logarithms of what runs need: those that did not arrive need more than the cap."""
    above = math.nextafter(cap, math.inf)
    low = [math.log(above if count is None else count) for count in runs]
    high = [math.inf if count is None else math.log(count) for count in runs]
    return np.array([low, high])


def _log_ratios(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the lower and the upper bounds of the log ratios of all pairs of runs, each sorted."""
    low = (a[0][:, None] - b[1]).ravel()  # -inf where b did not arrive
    high = (a[1][:, None] - b[0]).ravel()
    return np.sort(low), np.sort(high)


def _interval(a: Array, b: Array, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the interval of the log ratio, infinite where so few runs allow none."""
    low, high = _log_ratios(a, b)
    tail = np.cumsum(rank_sum_distribution(a.shape[1], b.shape[1]))
    cut = int((tail <= alpha / 2).sum())  # so many ratios may lie outside at either end
    return (float(low[cut - 1]), float(high[len(high) - cut])) if cut else (-math.inf, math.inf)


def _p_value(a: Array, b: Array) -> float:
    """Return the two-sided p of the rank-sum test; a pair of runs that may be equal speaks against a difference."""
    low, high = _log_ratios(a, b)
    tail = np.cumsum(rank_sum_distribution(a.shape[1], b.shape[1]))
    not_more = int((low <= 0).sum())  # pairs in which the first may not need more
    not_fewer = int((high >= 0).sum())
    return min(1.0, 2 * float(tail[min(not_more, not_fewer)]))


def rank_sum_distribution(a: int, b: int) -> Array:
    """Return the probability of each value 0 to a·b of the rank-sum statistic U of equal models.

    U counts the pairs of runs in which the first model's run is the larger (Mann and Whitney 1947). All orders of the
    runs are equally probable.

    Args:
        a: number of runs of the first model.
        b: number of runs of the second.

    Example:
        >>> (rank_sum_distribution(2, 2) * 6).round().tolist()
        [1.0, 1.0, 2.0, 1.0, 1.0]
    """
    # The largest run belongs to the first model, and exceeds all b runs of the second, or it belongs to the second.
    table = {(k, 0): np.ones(1) for k in range(a + 1)} | {(0, k): np.ones(1) for k in range(b + 1)}
    for i in range(1, a + 1):
        for j in range(1, b + 1):
            orders = np.zeros(i * j + 1)
            orders[j:] += table[i - 1, j]
            orders[: i * (j - 1) + 1] += table[i, j - 1]
            table[i, j] = orders
    orders = table[a, b]
    return np.asarray(orders / orders.sum())


def runs_needed(ratio: float, spread: float, *, power: float = 0.8, alpha: float = ALPHA, most: int = 30) -> int | None:
    """Return how many runs of each model show a ratio with some power; None where ``most`` do not.

    Args:
        ratio: true ratio of the examples that two models need, above 1.
        spread: standard deviation of the natural logarithm of the examples over runs.
        power: probability of telling the models apart; default 0.8.
        alpha: level of the test; default 0.05.
        most: largest number that is tried; default 30.

    Example:
        >>> runs_needed(2.0, 0.15), runs_needed(1.3, 0.15)
        (4, 8)
    """
    draws = np.random.default_rng(0).normal(0.0, spread, (2000, 2, most))
    for count in range(FEWEST_RUNS, most + 1):
        more = (draws[:, 0, :count, None] + math.log(ratio) > draws[:, 1, None, :count]).sum((1, 2))
        tail = np.cumsum(rank_sum_distribution(count, count))
        if float((2 * tail[count * count - more] < alpha).mean()) >= power:
            return count
    return None
