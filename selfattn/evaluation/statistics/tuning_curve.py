"""What tuning brings: the expected best score by number of trials."""

from collections.abc import Sequence

import numpy as np

from selfattn.results.quality import Better


def expected_best(scores: Sequence[float], better: Better = "higher") -> list[float]:
    r"""Return the expected best score of 1, 2, ... trials, up to as many as there are (Dodge et al. 2019, section 3).

    With the empirical distribution of the scores in place of the true one, and independent trials,

    .. math:: E[V^*_n] = \sum_v v \, \bigl(\hat P(V \le v)^n - \hat P(V < v)^n\bigr).

    For many trials this is too low, since no better score than the best one seen can be drawn (Tang et al. 2020); its
    squared error is smaller than that of the unbiased estimate (Dodge et al. 2021).

    Args:
        scores: of all trials, each once; at least one.
        better: whether higher or lower scores are better.

    Example:
        >>> expected_best([0.0, 1.0]), expected_best([1.0, 3.0], "lower")
        ([0.5, 0.75], [2.0, 1.5])
    """
    sign = 1.0 if better == "higher" else -1.0
    values, counts = np.unique(sign * np.asarray(scores, dtype=np.float64), return_counts=True)
    below = np.cumsum(counts) / len(scores)
    before = np.concatenate([[0.0], below[:-1]])
    return [sign * float(values @ (below**n - before**n)) for n in range(1, len(scores) + 1)]
