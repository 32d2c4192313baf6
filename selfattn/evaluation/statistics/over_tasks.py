"""Several tasks, such as languages, as draws of one kind: what two models' scores on them say of the next task.

The mean difference varies over tasks, so its interval is Student's over the tasks' differences: runs and items of a
task are inside of it. Interquartile mean and probability of improvement (Agarwal et al. 2021, "Deep reinforcement
learning at the edge of the statistical precipice") hold for these very tasks; their intervals draw runs again, each
task apart.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import trim_mean

from selfattn.errors import SettingError, number_of
from selfattn.evaluation.metrics.metric import Array
from selfattn.evaluation.statistics.variances import LEVEL, t_quantile, t_tail
from selfattn.results.quality import Better, Estimate

FEWEST = 3
"""Tasks without which nothing can be said of further ones."""
_DRAWS = 2000

Runs = Sequence[Array]
"""The scores of one model's runs on each task."""


def mean_difference(first: Runs, second: Runs) -> tuple[Estimate, float]:
    """Return the mean over tasks of first minus second with its 95 % interval over tasks, and p.

    Args:
        first: scores of the first model's runs on each task.
        second: of the second's, on the same tasks.

    Raises:
        SettingError: fewer than three tasks.

    Example:
        >>> first = [np.array([0.9]), np.array([0.7]), np.array([0.8])]
        >>> second = [np.array([0.8]), np.array([0.5]), np.array([0.5])]
        >>> estimate, p = mean_difference(first, second)
        >>> round(estimate.mean, 2), round(estimate.low, 2), round(estimate.high, 2), round(p, 3)
        (0.2, -0.05, 0.45, 0.074)
    """
    if len(first) < FEWEST:
        raise SettingError(
            f"{number_of(len(first), 'task')}: a verdict over tasks needs {FEWEST} or more; give more comparisons"
        )
    differences = np.array([a.mean() - b.mean() for a, b in zip(first, second, strict=True)])
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    half = t_quantile(len(differences) - 1, 1 - LEVEL) * error
    p = t_tail(abs(mean) / error, len(differences) - 1) if error else float(mean == 0)
    return Estimate(mean, mean - half, mean + half, tuple(map(float, differences))), p


def interquartile_mean(runs: Runs) -> float:
    """Return the mean of the middle half of all scores on all tasks.

    Example:
        >>> interquartile_mean([np.array([0.0, 0.5]), np.array([0.7, 1.0])])
        0.6
    """
    return float(trim_mean(np.concatenate(list(runs)), 0.25))


def improvement(first: Runs, second: Runs, better: Better) -> float:
    """Return the probability that a run of the first is better than one of the second on a task; ties count half.

    Example:
        >>> improvement([np.array([0.9, 0.5])], [np.array([0.5, 0.6])], "higher")
        0.625
    """
    sign = 1 if better == "higher" else -1
    shares = []
    for a, b in zip(first, second, strict=True):
        change = sign * (a[:, None] - b[None])
        shares.append(float((change > 0).mean() + (change == 0).mean() / 2))
    return float(np.mean(shares))


def drawn_again(statistic: Callable[[Sequence[Runs]], float], models: Sequence[Runs]) -> Estimate:
    """Return a statistic with its 95 % interval from 2,000 draws of the runs, each task and model apart.

    Args:
        statistic: of the runs of all models.
        models: the runs of each.
    """
    chance = np.random.default_rng(0)
    draws = []
    for _ in range(_DRAWS):
        draws.append(statistic([[chance.choice(runs, len(runs)) for runs in tasks] for tasks in models]))
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(statistic(models), float(low), float(high))
