"""Variances of a mean over runs, or of a difference of two, from seeds and from test items; distributions and tests.

Every run answers every item, as every reader diagnoses every case in studies of diagnosis (Obuchowski and Rockette
1995). The half-widths of the two parts add as squares (Howe 1974). The covariance of the runs says how their scores
would vary together if other items had been drawn.

Letters: `r` runs (of all models), `i` test items, `k` statistics an item.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from selfattn.evaluation.metrics.metric import Array

ALPHA = 0.05  # of tests
LEVEL = 1 - ALPHA  # of intervals
RESAMPLES = 2000
SMALLEST_P = 1e-12  # smaller probabilities are lost in the rounding of the Fourier transform
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
        item_df: :math:`n - 1`.
    """

    seeds: float | None
    seed_df: float
    common: float
    items: float
    item_df: int

    def half_width(self, alpha: float = ALPHA) -> float:
        """Return half the width of the interval that covers 1 - alpha, default 95 %."""
        over_items = t_quantile(self.item_df, alpha) * math.sqrt(self.items)
        if self.seeds is None:
            return over_items
        t = t_quantile(self.seed_df, alpha)
        z = t_quantile(math.inf, alpha)
        return max(over_items, math.sqrt(t**2 * self.seeds + z**2 * self.common))

    def p_items(self, difference: float) -> float:
        """Return the two-sided p of a difference for these very runs: Student's t over items."""
        deviations = abs(difference) / math.sqrt(self.items) if self.items else math.inf
        return t_tail(deviations, self.item_df) if difference else 1.0

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
    over_items = max(0.0, float(weights @ covariance @ weights))
    item_df = max(1, items - 1)
    if min(map(len, groups)) == 1:
        return Variances(None, math.inf, over_items, over_items, item_df)
    units = [tuning_means(group, labels) for group, labels in zip(groups, tunings, strict=False)]
    from_seeds = [float(group.var(ddof=1)) / len(group) for group in units]
    total = sum(from_seeds)
    squares = sum(v * v / (len(group) - 1) for v, group in zip(from_seeds, units, strict=True))
    return Variances(
        seeds=total,
        seed_df=total * total / squares if squares else math.inf,
        common=max(0.0, over_items - _single_item_luck(groups, covariance)),
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


def _single_item_luck(groups: Sequence[Array], covariance: Array) -> float:
    """The part of the variance from the items that runs of one model do not share, averaged over them."""
    luck = 0.0
    start = 0
    for group in groups:
        count = len(group)
        block = covariance[start : start + count, start : start + count]
        of_runs = float(np.trace(block))
        shared = (float(block.sum()) - of_runs) / (count * (count - 1))
        luck += (of_runs / count - shared) / count
        start += count
    return luck


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
    found = first[0] + second[0]
    ways = [math.comb(first[1], k) * math.comb(second[1], found - k) for k in range(found + 1)]
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
