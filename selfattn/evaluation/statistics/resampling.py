"""How the scores of runs would vary, and vary together, if other test items had been drawn.

Letters: `r` runs (of all models), `i` test items, `k` statistics an item.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from selfattn.evaluation.metrics.metric import Array

_AT_ONCE = 256  # resamples held in memory together


def average_covariance(scores: Array) -> Array:
    r"""Covariances of the runs' average scores under resampling of the items, in closed form.

    All runs answer the same items, so that a hard draw pulls all of them down. For averages the bootstrap's covariance
    is known without drawing (Efron and Tibshirani 1993, chapter 5); divided by n - 1 it is unbiased:

    .. math:: \frac{1}{n (n - 1)} \sum_i (x_{ri} - \bar x_r)(x_{qi} - \bar x_q)

    Args:
        scores: ``[r i]``, the score of each run on each item. One item alone shows no spread: all zeros.

    Returns:
        ``[r r]``.

    Example:
        >>> average_covariance(np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])).round(3).tolist()
        [[0.111, 0.056], [0.056, 0.111]]
    """
    count = scores.shape[1]
    apart = scores - scores.mean(axis=1, keepdims=True)
    found: Array = apart @ apart.T / (count * max(1, count - 1))
    return found


def corpus_covariance(
    statistics: Array, score: Callable[[Array], Array], *, resamples: int = 2000, seed: int = 0
) -> Array:
    """Covariances of the runs' corpus scores under resampling of the items, by drawing.

    A corpus score (BLEU, chrF, an error rate) is no average over items but a function of sums over them. The items are
    drawn again with replacement, all runs on the same draw (Efron 1979; Koehn 2004).

    Args:
        statistics: ``[r i k]``, what the score is made of: for each run and item, numbers that are added up over items.
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
    apart = drawn - drawn.mean(axis=0)
    # A draw with replacement varies (n - 1) / n as much as a new sample.
    found: Array = apart.T @ apart / (resamples - 1) * items / max(1, items - 1)
    return found
