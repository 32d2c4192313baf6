"""Variances of a mean over runs, or of a difference of two, from seeds and from test items; distributions and tests.

Every run answers every item, as every reader diagnoses every case in studies of diagnosis (Obuchowski and Rockette
1995). The half-widths of the two parts add as squares (Howe 1974). The covariance of the runs says how their scores
would vary together if other items had been drawn.

Letters: `r` runs (of all models), `i` test items, `k` statistics an item.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from selfattn.evaluation.metrics import Array
from selfattn.results.quality import Bound, ModelArrivals, PairOrRatio, RatioTest, Word

ALPHA = 0.05  # of tests
POWER = 0.8  # with which a true difference is to be seen
LEVEL = 1 - ALPHA  # of intervals
RESAMPLES = 2000
SMALLEST_P = 1e-12  # smaller probabilities are lost in the rounding of the Fourier transform
_ROUNDING = 1e-12  # of a variance, relative to those that it is the difference of: less is 0
_LOWEST = -230.0  # logarithm of p = 1e-100
_NORMAL = 1e12  # degrees of freedom that are as good as infinite
_AT_ONCE = 256  # resamples held in memory together

Clusters = npt.NDArray[np.int64]  # the number, from 0 on, of what each item repeats


@dataclass(frozen=True)
class Variances:
    r"""Variances of an estimate, from which its half-width and its p-value follow.

    .. math:: h = \max\left(\sqrt{t_\nu^2 \, v_s + z^2 \, v_c}, \; t_{n-1} \sqrt{v_i}\right)

    :math:`v_s` contains the luck of runs on single items, so :math:`v_c` leaves it out. Both can come out too small
    together, for example if three runs happen to score the same; hence the second term: h is never below that of the
    items alone.

    Attributes:
        seeds: :math:`v_s`, variance from the seeds; None if a model has one run, which cannot show it.
        seed_df: :math:`\nu`, its degrees of freedom (Welch 1947).
        common: :math:`v_c`, variance from the items that all runs of a model share, at least 0.
        items: :math:`v_i`, variance from the items with these very runs.
        item_df: :math:`n - 1`; infinite for a single item, which stands for no choice of items.
    """

    seeds: float | None
    seed_df: float
    common: float
    items: float
    item_df: float

    def half_width(self, alpha: float = ALPHA) -> float:
        """Return half the width of the interval that covers 1 - alpha, default 95 %."""
        over_items = t_quantile(self.item_df, alpha) * math.sqrt(self.items)
        if self.seeds is None:
            return over_items
        t = t_quantile(self.seed_df, alpha)
        z = t_quantile(math.inf, alpha)
        return max(over_items, math.sqrt(t**2 * self.seeds + z**2 * self.common))

    def p_items(self, difference: float) -> float:
        """Return the two-sided p of a difference for these very runs: Student's t over items.

        Where the difference is the same on all n items, t is infinite, even of two items. There p is that of the exact
        test: of the :math:`2^n` ways to swap the answers of the models, two have as large a difference.
        """
        if not difference:
            return 1.0
        if not self.items:
            return float(2**-self.item_df)
        return t_tail(abs(difference) / math.sqrt(self.items), self.item_df)

    def p_seeds(self, difference: float) -> float:
        """Return the level at which the first term of the half-width equals the difference; 0 with one run."""
        seeds = self.seeds
        if seeds is None:
            return 0.0

        def excess(log_p: float) -> float:
            """How far the squared half-width at this level is above the squared difference."""
            p = math.exp(log_p)
            t = special.stdtrit(min(self.seed_df, _NORMAL), p / 2)
            z = special.ndtri(p / 2)
            return float(t * t * seeds + z * z * self.common - difference**2)

        if not difference or excess(_LOWEST) < 0:
            return 0.0 if difference else 1.0
        return math.exp(optimize.brentq(excess, _LOWEST, 0.0))


def tuning_means(scores: Array, tunings: Clusters | None) -> Array:
    """Return the mean score of the runs of each tuning; the scores themselves where tunings are not told.

    Args:
        scores: run scores ``[s]`` of one model.
        tunings: ``[s]`` the number of each run's tuning, from 0, with as many runs for each; None where they are not
            told.

    Example:
        >>> tuning_means(np.array([1.0, 3.0, 5.0, 5.0]), np.array([0, 0, 1, 1])).tolist()
        [2.0, 5.0]
    """
    return scores if tunings is None else cluster_sums(scores, tunings) / np.bincount(tunings)


def variances(
    groups: Sequence[Array], covariance: Array, items: int, tunings: Sequence[Clusters | None] = (None, None)
) -> Variances:
    """Separate the variances of the mean of one group of runs, or of the difference between the means of two.

    Args:
        groups: run scores ``[s]`` of one model, or of two.
        covariance: ``[r r]``, of all these runs in this order under resampling of the items.
        items: how many there are.
        tunings: of the runs of each model, see `tuning_means`: the luck of a tuning is shared by its runs, so that
            tunings are the units; default every run counts by itself.

    Example:
        >>> parts = variances([np.array([0.9, 0.8, 0.7])], np.full((3, 3), 0.0004), items=100)
        >>> round(parts.seeds, 6), parts.seed_df, round(parts.common, 6), round(parts.items, 6)
        (0.003333, 2.0, 0.0004, 0.0004)
    """
    signed = zip(groups, (1.0, -1.0), strict=False)
    weights = np.concatenate([np.full(len(group), sign / len(group)) for group, sign in signed])
    over_items = float(weights @ covariance @ weights)
    if over_items <= _ROUNDING * float(abs(weights) @ np.sqrt(covariance.diagonal())) ** 2:
        over_items = 0.0
    item_df = items - 1 or math.inf
    if min(map(len, groups)) == 1:
        return Variances(None, math.inf, over_items, over_items, item_df)
    units = [tuning_means(group, labels) for group, labels in zip(groups, tunings, strict=False)]
    from_seeds = [float(group.var(ddof=1)) / len(group) for group in units]
    total = sum(from_seeds)
    squares = sum(v * v / (len(group) - 1) for v, group in zip(from_seeds, units, strict=True))
    parts = zip(item_variances(groups, covariance), groups, strict=True)
    of_single_runs = sum(of_run / len(group) for (of_run, _), group in parts)
    return Variances(
        seeds=total,
        seed_df=total * total / squares if squares else math.inf,
        common=max(0.0, over_items - of_single_runs),
        items=over_items,
        item_df=item_df,
    )


def to_log_odds(groups: Sequence[Array], covariance: Array, items: int) -> tuple[list[Array], Array]:
    r"""Convert shares of right answers to log-odds, and their covariances by the delta method.

    Half a right and half a wrong answer are added to every run, so that the log-odds of runs which get all items right,
    or all wrong, are finite (Haldane 1956; Anscombe 1956):

    .. math:: y = \ln \frac{x + 1/2}{n - x + 1/2}, \quad
        \operatorname{cov}(y_r, y_q) = \frac{\operatorname{cov}(x_r, x_q) / n^2 + [r = q] / 2 n^2}
        {\tilde p_r (1 - \tilde p_r) \, \tilde p_q (1 - \tilde p_q)}

    with :math:`\tilde p = (x + 1/2) / (n + 1)`. The half items make the variance of a run that is all right about 2, as
    that of Gart and Zweifel (1967), :math:`1 / (x + 1/2) + 1 / (n - x + 1/2)`.

    Args:
        groups: shares ``[s]`` of the runs of each model.
        covariance: ``[r r]``, of all these runs in this order.
        items: how many there are, n.

    Returns:
        The log-odds ``[s]`` of each model, and their covariances ``[r r]``.

    Example:
        >>> (y,), covariance = to_log_odds([np.array([0.5, 1.0])], np.diag([0.0025, 0.0]), items=100)
        >>> y.round(2).tolist(), covariance.diagonal().round(2).tolist()
        ([0.0, 5.3], [0.04, 2.06])
    """
    smoothed = [(shares * items + 0.5) / (items + 1) for shares in groups]
    slopes = np.concatenate([1 / (shares * (1 - shares)) for shares in smoothed])
    half_items = np.eye(len(slopes)) / (2 * items**2)
    return [special.logit(shares) for shares in smoothed], (covariance + half_items) * np.outer(slopes, slopes)


def cluster_sums(values: Array, clusters: Clusters | None) -> Array:
    """Add up over items that repeat one another.

    Args:
        values: ``[... i]``.
        clusters: ``[i]``; None where no item repeats another.

    Returns:
        ``[... g]``.

    Example:
        >>> cluster_sums(np.array([[1.0, 2.0, 4.0]]), np.array([0, 1, 0])).tolist()
        [[5.0, 2.0]]
    """
    if clusters is None:
        return values
    sums = np.zeros((*values.shape[:-1], int(clusters.max()) + 1))
    np.add.at(sums.T, clusters, values.T)
    return sums


def average_covariance(scores: Array, clusters: Clusters | None = None) -> Array:
    r"""Return the covariances of the runs' average scores under resampling of the items, in closed form.

    All runs answer the same items, so that a hard draw lowers all of them. For averages the bootstrap's covariance is
    known without drawing (Efron and Tibshirani 1993, chapter 5); divided by n - 1 it is unbiased:

    .. math:: \frac{1}{n (n - 1)} \sum_i (x_{ri} - \bar x_r)(x_{qi} - \bar x_q)

    Where items repeat one another, their deviations are added up first, and groups are what is drawn (Liang and Zeger
    1986): of :math:`g` groups, :math:`\frac{g}{g - 1} \frac{1}{n^2}` stands in front of the sum over groups.

    Args:
        scores: ``[r i]``, the score of each run on each item. A single item shows no spread: all zeros.
        clusters: see `cluster_sums`.

    Returns:
        ``[r r]``.

    Example:
        >>> average_covariance(np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])).round(3).tolist()
        [[0.111, 0.056], [0.056, 0.111]]
    """
    count = scores.shape[1]
    deviations = cluster_sums(scores - scores.mean(axis=1, keepdims=True), clusters)
    groups = deviations.shape[1]
    return np.asarray(deviations @ deviations.T / (count * max(1, groups - 1) * (count / groups)))


def corpus_covariance(statistics: Array, score: Callable[[Array], Array], *, resamples: int = RESAMPLES) -> Array:
    """Return the covariances of the runs' corpus scores under resampling of the items, by drawing.

    A corpus score (BLEU, chrF, an error rate) is no average over items but a function of sums over them. The items are
    drawn again with replacement, all runs on the same draw (Efron 1979; Koehn 2004).

    Args:
        statistics: ``[r i k]``: for each run and item, the numbers that are added up over items.
        score: from sums ``[n k]`` to scores ``[n]``.
        resamples: how often to draw, at least 2; default 2000.

    Returns:
        ``[r r]``.

    Raises:
        ValueError: a score that is not finite.

    Example:
        >>> edits_and_characters = np.array([[[1.0, 10.0], [0.0, 10.0], [3.0, 10.0], [0.0, 10.0]]])
        >>> error_rate = lambda sums: sums[:, 0] / sums[:, 1]
        >>> drawn = corpus_covariance(edits_and_characters, error_rate, resamples=5000)
        >>> exact = average_covariance(np.array([[0.1, 0.0, 0.3, 0.0]]))
        >>> bool(abs(drawn / exact - 1) < 0.1)
        True
    """
    runs, items, kinds = statistics.shape
    by_item = statistics.transpose(1, 0, 2).reshape(items, runs * kinds)
    generator = np.random.default_rng(0)
    drawn = np.empty((resamples, runs))
    for start in range(0, resamples, _AT_ONCE):
        number = min(_AT_ONCE, resamples - start)
        places = generator.integers(items, size=(number, items)) + items * np.arange(number)[:, None]
        times = np.bincount(places.ravel(), minlength=number * items).reshape(number, items).astype(np.float64)
        sums = (times @ by_item).reshape(number * runs, kinds)
        drawn[start : start + number] = score(sums).reshape(number, runs)
    if not np.isfinite(drawn).all():
        raise ValueError("the score is nan or infinite for some draw of the items; there may be too few of them")
    # A draw with replacement varies (n - 1) / n as much as a new sample.
    return np.asarray(np.atleast_2d(np.cov(drawn, rowvar=False)) * items / max(1, items - 1))


def item_variances(groups: Sequence[Array], covariance: Array) -> list[tuple[float, float]]:
    """Divide the variance of a run from the items, for each model: what is its run's alone, and what its runs share.

    Args:
        groups: run scores ``[s]`` of each model, two or more.
        covariance: see `variances`.
    """
    parts = []
    start = 0
    for group in groups:
        count = len(group)
        block = covariance[start : start + count, start : start + count]
        of_runs = float(np.trace(block))
        shared = (float(block.sum()) - of_runs) / (count * (count - 1))
        parts.append((of_runs / count - shared, shared))
        start += count
    return parts


def t_tail(t: float, df: float) -> float:
    """Return the two-sided tail probability of Student's t: how probable a value at least as far from 0 as ``t`` is.

    Args:
        t: any value.
        df: degrees of freedom, above 0, not necessarily whole; infinite gives the normal distribution.

    Example:
        >>> round(t_tail(1.0, 1), 12), round(t_tail(1.96, math.inf), 3)  # Cauchy: half lies beyond 1
        (0.5, 0.05)
    """
    return float(2 * (special.ndtr(-abs(t)) if df == math.inf else special.stdtr(df, -abs(t))))


@functools.lru_cache(maxsize=1024)
def t_quantile(df: float, tail: float = 0.05) -> float:
    """Return the value that is exceeded, on either side, with probability ``tail``: the inverse of `t_tail`.

    Args:
        df: degrees of freedom, above 0.
        tail: probability of both sides together, above 0 and below 1; default 0.05.

    Example:
        >>> [round(t_quantile(df), 3) for df in (1, 2, 4, 8, math.inf)]  # any table of t
        [12.706, 4.303, 2.776, 2.306, 1.96]
    """
    return float(-(special.ndtri(tail / 2) if df == math.inf else special.stdtrit(df, tail / 2)))


def sign_flip_p(differences: Sequence[int] | npt.NDArray[np.int64]) -> float:
    r"""Test by exact randomisation whether differences lean to one side: two-sided, items as the unit.

    If the models were interchangeable on every item, each difference might as well have had the other sign. The
    p-value is the share of all :math:`2^n` choices of signs whose sum lies at least as far from 0 as the observed sum
    (Fisher 1935, chapter 3). With differences of -1, 0 and 1 it is McNemar's exact test (McNemar 1947).

    All choices are counted, none is drawn: the characteristic function of the sum is
    :math:`\prod_i \cos(\omega d_i)`, and a Fourier transform turns it into probabilities.

    Args:
        differences: ``[items]``, whole numbers: the score of one model minus that of the other on each item.

    Returns:
        A probability in ``(0, 1]``, at least ``SMALLEST_P``.

    Example:
        >>> round(sign_flip_p([1, 1, 1, 1, 1, 0]), 12)  # 2 of the 32 choices of signs have a sum of 5 or -5
        0.0625
    """
    values = np.asarray(differences)
    values = values[values != 0]
    if not values.sum():
        return 1.0
    values = values // np.gcd.reduce(values)
    sizes, counts = np.unique(np.abs(values), return_counts=True)
    observed = abs(int(values.sum()))
    furthest = int(sizes @ counts)
    length = 1 << (2 * furthest + 1).bit_length()
    angles = 2 * np.pi * np.arange(length // 2 + 1) / length
    characteristic = np.ones_like(angles)
    for size, count in zip(sizes, counts, strict=True):
        characteristic *= np.cos(angles * size) ** count
    probabilities = np.fft.irfft(characteristic, n=length)
    return min(1.0, max(SMALLEST_P, 2 * float(probabilities[observed : furthest + 1].sum())))


def fisher_p(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Test whether two shares differ: Fisher's exact test (1935), two-sided.

    Args:
        first: how many of how many.
        second: the same of the other.

    Example:
        >>> round(fisher_p((3, 3), (0, 3)), 3), round(fisher_p((5, 5), (0, 5)), 3), fisher_p((2, 2), (2, 2))
        (0.1, 0.008, 1.0)
    """
    successes = first[0] + second[0]
    ways = [math.comb(first[1], k) * math.comb(second[1], successes - k) for k in range(successes + 1)]
    return sum(way for way in ways if way <= ways[first[0]]) / sum(ways)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for multiple testing: all tests together raise a false alarm no more often than one (Holm 1979).

    The smallest of ``n`` is multiplied by ``n``, the next by ``n - 1``, and so on; none falls below one before it.

    Args:
        p_values: of all tests of one question, in any order.

    Returns:
        The corrected p-values in the same order, at most 1.

    Example:
        >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03])]  # 3 x 0.01, 2 x 0.03, and 0.04 raised to it
        [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    corrected = np.empty_like(values)
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, values[order] * np.arange(len(values), 0, -1)))
    return [float(p) for p in corrected]


def correct_all(
    tests: Sequence[PairOrRatio], primary: tuple[str, str] | None, choose: Callable[[PairOrRatio], Word]
) -> tuple[PairOrRatio, ...]:
    """Correct the p of tests by :func:`holm`, but that of a pair that was named beforehand, and give each its verdict.

    Args:
        tests: of pairs of models.
        primary: the pair that was named beforehand; None where all are corrected.
        choose: returns the verdict by the corrected p.
    """
    are_primary = [{test.first, test.second} == set(primary or ()) for test in tests]
    corrected = iter(holm([test.p for test, is_primary in zip(tests, are_primary, strict=True) if not is_primary]))
    judged = []
    for test, is_primary in zip(tests, are_primary, strict=True):
        test = replace(test, primary=is_primary, p_holm=test.p if is_primary else next(corrected))
        judged.append(replace(test, word=choose(test)))
    return tuple(judged)


FEWEST_RUNS = 4  # of each model; with three, the smallest p of the test is 0.1
_MOST_RUNS = 30  # that are tried for a ratio


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

    Test and interval assume that the examples of both models have the same distribution, of any shape, but for the
    factor between them. Where those of one model vary much more, equal medians are told apart more often than said.

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
    tests = [_ratio(a, b, examples[a], examples[b], cap) for a, b in combinations(examples, 2)]
    return correct_all(tests, primary, _word)


def _word(test: RatioTest) -> Word:
    """Return the verdict on the first model, which is better if it needs fewer examples."""
    if test.p_holm < ALPHA and test.high is not None and test.high < 1:
        return "better"
    if test.p_holm < ALPHA and test.low is not None and test.low > 1:
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
    lows, highs, p_values = zip(*(_rank_sum_test(*view) for view in views), strict=True)
    p = max(p_values)
    lowest, highest = (float(np.median(bounds)) for bounds in _log_ratios(*views[0]))
    estimate = math.exp(next(filter(math.isfinite, (lowest, highest)), 0.0))
    bound: Bound = "unknown"
    if lowest == highest:
        bound = ""
    elif math.isfinite(lowest):
        bound = "more"
    elif math.isfinite(highest):
        bound = "fewer"
    return RatioTest(first, second, estimate, bound, p, p, "not told apart", _end(min(lows)), _end(max(highs)))


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


def _rank_sum_test(a: Array, b: Array) -> tuple[float, float, float]:
    """Return the ends of the interval of the log ratio, infinite where so few runs allow none, and the two-sided p.

    A pair of runs that may be equal speaks against a difference.
    """
    low, high = _log_ratios(a, b)
    tail = np.cumsum(rank_sum_distribution(a.shape[1], b.shape[1]))
    not_more = int((low <= 0).sum())  # pairs in which the first may not need more
    not_fewer = int((high >= 0).sum())
    p = min(1.0, 2 * float(tail[min(not_more, not_fewer)]))
    cut = int((tail <= ALPHA / 2).sum())  # number of ratios that may lie outside at either end
    if not cut:
        return -math.inf, math.inf, p
    return float(low[cut - 1]), float(high[len(high) - cut]), p


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


def runs_for_ratio(ratio: float, spread: float) -> int | None:
    """Return how many runs of each model show a ratio with a power of 80 %; None where 30 do not.

    Args:
        ratio: true ratio of the examples that two models need, above 1.
        spread: standard deviation of the natural logarithm of the examples over runs.

    Example:
        >>> runs_for_ratio(2.0, 0.15), runs_for_ratio(1.3, 0.15)
        (4, 8)
    """
    draws = np.random.default_rng(0).normal(0.0, spread, (2000, 2, _MOST_RUNS))
    for count in range(FEWEST_RUNS, _MOST_RUNS + 1):
        more = (draws[:, 0, :count, None] + math.log(ratio) > draws[:, 1, None, :count]).sum((1, 2))
        tail = np.cumsum(rank_sum_distribution(count, count))
        if float((2 * tail[count * count - more] < ALPHA).mean()) >= POWER:
            return count
    return None
