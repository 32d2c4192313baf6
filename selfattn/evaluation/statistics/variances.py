"""How far a mean over runs, or a difference of two, may lie from the truth: seeds and items taken together.

Every run answers every item: the two are crossed, as readers and cases are in studies of diagnosis (Obuchowski and
Rockette 1995). Each gives a half-width, and the two add like the sides of a right triangle (Howe 1974). How scores
would vary, and vary together, if other items had been drawn, is a covariance of runs.

Letters: `r` runs (of all models), `i` test items, `k` statistics an item.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from selfattn.evaluation.metrics.metric import Array
from selfattn.evaluation.statistics.p_values import t_quantile, t_tail

ALPHA = 0.05  # of tests
LEVEL = 1 - ALPHA  # of intervals
RESAMPLES = 2000
_AT_ONCE = 256  # resamples held in memory together

Clusters = npt.NDArray[np.int64]  # the number, from 0 on, of what each item repeats


@dataclass(frozen=True)
class Variances:
    r"""Variances of an estimate, from which its half-width and its p-value follow.

    .. math:: h = \max\left(\sqrt{t_\nu^2 \, v_s + z^2 \, v_c}, \; t_{n-1} \sqrt{v_i}\right)

    Where runs differ by nothing but luck on single items, :math:`v_s` contains that luck already; hence :math:`v_c`
    leaves it out. Both are estimates and can come out too small together, as with three runs that happen to score the
    same; hence the second term: over seeds and items, h is never less than over items alone.

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

    def half_width(self, level: float = LEVEL) -> float:
        """Return half the width of the interval of this level, default 95 %."""
        tail = round(1 - level, 12)
        over_items = t_quantile(self.item_df, tail) * math.sqrt(self.items)
        if self.seeds is None:
            return over_items
        t, z = t_quantile(self.seed_df, tail), t_quantile(math.inf, tail)
        return max(over_items, math.sqrt(t**2 * self.seeds + z**2 * self.common))

    def p_items(self, difference: float) -> float:
        """Return the two-sided p of a difference for these very runs: Student's t over items."""
        return t_tail(_ratio(difference, self.items), self.item_df)

    def p_seeds(self, difference: float) -> float:
        """Return the level at which the first term of the half-width equals the difference; 0 with one run."""
        if self.seeds is None:
            return 0.0
        if not self.seeds:
            return t_tail(_ratio(difference, self.common), math.inf)
        # The half-width grows with t; at the largest t here it is at least the difference. Halve until it fits.
        low, high = 0.0, _ratio(difference, self.seeds)
        for _ in range(50):
            t = (low + high) / 2
            z = t_quantile(math.inf, max(t_tail(t, self.seed_df), 1e-300))
            low, high = (t, high) if t * t * self.seeds + z * z * self.common < difference**2 else (low, t)
        return t_tail(high, self.seed_df)


def variances(groups: Sequence[Array], covariance: Array, items: int, *, extra: float = 0.0) -> Variances:
    """Separate the variances of the mean of one group of runs, or of the difference between the means of two.

    Args:
        groups: run scores ``[s]`` of one model, or of two.
        covariance: ``[r r]``, of all these runs in this order under resampling of the items.
        items: how many there are.
        extra: added to the variance from the items; default 0.

    Example:
        >>> parts = variances([np.array([0.9, 0.8, 0.7])], np.full((3, 3), 0.0004), items=100)
        >>> round(parts.seeds, 6), parts.seed_df, round(parts.common, 6), round(parts.items, 6)
        (0.003333, 2.0, 0.0004, 0.0004)
    """
    signs = (1.0, -1.0)[: len(groups)]
    weights = np.concatenate(
        [np.full(len(group), sign / len(group)) for group, sign in zip(groups, signs, strict=True)]
    )
    over_items, item_df = max(0.0, float(weights @ covariance @ weights)), max(1, items - 1)
    if min(map(len, groups)) == 1:
        return Variances(None, math.inf, over_items, over_items + extra, item_df)
    from_seeds = [float(group.var(ddof=1)) / len(group) for group in groups]
    total = sum(from_seeds)
    squares = sum(v * v / (len(group) - 1) for v, group in zip(from_seeds, groups, strict=True))
    return Variances(
        seeds=total,
        seed_df=total * total / squares if squares else math.inf,
        common=max(0.0, over_items - _single_item_luck(groups, covariance)),
        items=over_items + extra,
        item_df=item_df,
    )


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


def corpus_covariance(
    statistics: Array, score: Callable[[Array], Array], *, resamples: int = RESAMPLES, seed: int = 0
) -> Array:
    """Return the covariances of the runs' corpus scores under resampling of the items, by drawing.

    A corpus score (BLEU, chrF, an error rate) is no average over items but a function of sums over them. The items are
    drawn again with replacement, all runs on the same draw (Efron 1979; Koehn 2004).

    Args:
        statistics: ``[r i k]``: for each run and item, the numbers that are added up over items.
        score: from sums ``[n k]`` to scores ``[n]``.
        resamples: how often to draw, at least 2; default 2000.
        seed: of the draws; default 0.

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
    generator = np.random.default_rng(seed)
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
    luck, start = 0.0, 0
    for group in groups:
        count = len(group)
        block = covariance[start : start + count, start : start + count]
        of_runs = float(np.trace(block))
        shared = (float(block.sum()) - of_runs) / (count * (count - 1))
        luck += (of_runs / count - shared) / count
        start += count
    return luck


def _ratio(difference: float, variance: float) -> float:
    """How many standard deviations a difference is: 0 for none, whatever the variance."""
    if not difference:
        return 0.0
    return abs(difference) / math.sqrt(variance) if variance > 0 else math.inf
