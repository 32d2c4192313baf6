"""Which differences between models would be seen again with other seeds and other test items, or on the next task.

docs/statistics.md says what is computed, why, and how often it is wrong in simulation. Letters: `s` seeds, `i` test
items, `k` counts an item, `r` runs of all models together.

Several tasks, such as languages, are draws of one kind. The mean difference varies over tasks, so its interval is
Student's over the tasks' differences: runs and items of a task are inside of it. Interquartile mean and probability of
improvement (Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice") hold for these
very tasks; their intervals draw runs again, each task apart.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import special

from selfattn.errors import SettingError, number_of
from selfattn.evaluation.metrics import Array, Metric
from selfattn.evaluation.variances import (
    ALPHA,
    LEVEL,
    RESAMPLES,
    Clusters,
    average_covariance,
    cluster_sums,
    corpus_covariance,
    correct_all,
    fisher_p,
    sign_flip_p,
    t_quantile,
    t_tail,
    to_log_odds,
    tuning_means,
    variances,
)
from selfattn.results.quality import MIN_SEEDS, Better, Comparison, Estimate, LogOdds, PairTest, Word, are_separated

Tunings = Mapping[str, Sequence[Hashable]]
"""For each model a label for each run: that of its tuning."""
_ROUNDING = 1e-12  # relative to the scores


def estimate(scores: npt.ArrayLike, bounds: tuple[float, float] | None = None) -> Estimate:
    """Estimate a model's score and its 95 % interval over seeds and items.

    The half-width is that of `variances.Variances`. Where all scores are 0 or 1 it is laid out as Wilson's interval is,
    inside ``[0, 1]`` and longer towards 1/2. With one run the interval is over items only, and ``over`` says so.

    Args:
        scores: ``[s i]``, the score of each run on each item.
        bounds: the smallest and the largest possible score; default 0 and 1 where all scores are 0 or 1, else none.

    Raises:
        ValueError: not two axes, nothing in it, or a value that is not finite.

    Example:
        >>> score = estimate([[1] * 90 + [0] * 10, [1] * 94 + [0] * 6, [1] * 92 + [0] * 8])
        >>> round(score.mean, 2), round(score.low, 2), round(score.high, 2), score.over
        (0.92, 0.82, 0.97, 'seeds and items')
        >>> estimate([[0.5, 0.7, 0.3]]).over
        'items'
    """
    runs = score_runs({"model": scores})
    return (replace(runs, bounds=bounds) if bounds else runs).estimates()["model"]


def wilson(share: float, items: float, alpha: float = ALPHA) -> tuple[float, float]:
    r"""Return the Wilson score interval of a share (Wilson 1927).

    .. math:: \frac{p + z^2 / 2n \pm z \sqrt{p (1 - p) / n + z^2 / 4 n^2}}{1 + z^2 / n}

    Args:
        share: of right answers, 0 to 1.
        items: how many there were, above 0; the effective number where answers depend on one another (Korn and
            Graubard 1998), infinite for an interval without width.
        alpha: probability that the interval misses the share; default 0.05.

    Example:
        >>> low, high = wilson(1.0, 100)
        >>> round(low, 3), high
        (0.963, 1.0)
    """
    excess = t_quantile(math.inf, alpha) ** 2 / items
    centre = share + excess / 2
    reach = math.sqrt(excess * share * (1 - share) + excess**2 / 4)
    # But for rounding, both ends stay on their side of the share and within 0 and 1.
    return max(0.0, min(share, (centre - reach) / (1 + excess))), min(1.0, max(share, (centre + reach) / (1 + excess)))


def choose_word(pair: PairTest) -> Word:
    """Say in a word what the figures of a pair show.

    "better" or "worse" needs three seeds of each model, a corrected p below 0.05, and an interval that excludes 0.
    Everything else is "not told apart", which is no proof of equality: the interval says what may have been missed.

    Args:
        pair: its word is ignored.

    Example:
        >>> pair = PairTest("a", "b", "bleu", 2.0, 1.0, 3.0, 0.002, 0.002, "not told apart", seeds=3)
        >>> choose_word(pair), choose_word(replace(pair, seeds=1)), choose_word(replace(pair, low=-1.0, p_holm=0.4))
        ('better', 'not told apart', 'not told apart')
    """
    if pair.seeds >= MIN_SEEDS and pair.p_holm < ALPHA and (pair.low > 0 or pair.high < 0):
        return "better" if (pair.low > 0) == (pair.better == "higher") else "worse"
    return "not told apart"


@dataclass(frozen=True)
class RunScores:
    """The scores of all runs, and how they vary together when the items are drawn again.

    Attributes:
        runs: for each model ``[s]``.
        covariance: ``[r r]``, of all runs in their order.
        items: how many there are that do not repeat one another.
        right: for each model ``[s i]`` of 0 and 1, where the scores are shares of right answers; else empty.
        clusters: which items repeat one another; None where none do.
        metric: its name.
        better: whether higher or lower scores are better.
        bounds: the smallest and the largest possible score.
        tunings: for each model ``[s]`` the number of each run's tuning, from 0; empty where the runs are the units.
        failed: for each model ``[s]`` whether the training failed; models that are not there have none that did.
    """

    runs: Mapping[str, Array]
    covariance: Array
    items: int
    right: Mapping[str, Array] = field(default_factory=dict)
    clusters: Clusters | None = None
    metric: str = "mean"
    better: Better = "higher"
    bounds: tuple[float, float] = (-math.inf, math.inf)
    tunings: Mapping[str, Clusters] = field(default_factory=dict)
    failed: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)

    def estimates(self, alpha: float = ALPHA) -> dict[str, Estimate]:
        """Return every model's score with the interval that covers 1 - alpha, default 95 %."""
        estimates = {}
        for name, runs in self.runs.items():
            mean = float(runs.mean())
            tunings = [self.tunings.get(name)]
            half = variances([runs], self._covariance(name), self.items, tunings).half_width(alpha)
            low = max(self.bounds[0], mean - half)
            high = min(self.bounds[1], mean + half)
            if self.right:
                # The effective number of items is the one that would give a plain sample this half-width.
                variance = t_quantile(math.inf, alpha) ** 2 * mean * (1 - mean)
                items = self.items if not variance else variance / half**2 if half else math.inf
                low, high = wilson(mean, items, alpha)
            estimates[name] = Estimate(mean, low, high, tuple(map(float, runs)))
        return estimates

    def comparison(self, primary: tuple[str, str] | None = None) -> Comparison:
        """Estimate every model's mean score, and test every pair of models; see :meth:`pair`.

        Holm's correction covers all pairs but a primary one.

        Args:
            primary: the two models that the comparison is about, named beforehand: their p is not corrected, that of
                all other pairs is, and these are exploratory; default all are corrected.
        """
        tests = [self.pair(first, second) for first, second in combinations(self.runs, 2)]
        return Comparison(self.estimates(), correct_all(tests, primary, choose_word))

    def pair(self, first: str, second: str, alpha: float = ALPHA) -> PairTest:
        """Test a pair, without the correction for other pairs and without its word.

        Where all scores are 0 or 1, pairs are tested on log-odds (`PairTest.odds`), and p is never below that of the
        exact test over items, `sign_flip_p`. With one run each, p is the latter: McNemar's test. Other scores are
        tested as they are, and Student's t over items replaces the exact test.

        All runs count, failed ones included. Where some failed, the runs that did not are tested as well, and the
        larger p counts: so neither failures alone nor the others alone make a difference. A model of which some, but
        fewer than three, did not fail, is told apart from nothing. Where all of a model failed, Fisher's exact test of
        the numbers of failed runs takes the place of the second test.

        Runs with the same seed are not paired: the same seed gives two architectures the same order of data, but
        unrelated initial weights. If they do share luck, the test is stricter, not laxer.

        Args:
            first: name of a model.
            second: name of the other.
            alpha: probability that the interval misses; default 0.05.
        """
        test = self._test(first, second, alpha)
        failed = [self.failed.get(name, np.zeros(len(self.runs[name]), dtype=bool)) for name in (first, second)]
        if not any(flags.any() for flags in failed):
            return test
        if any(flags.all() for flags in failed):
            counts = []
            for name, flags in zip((first, second), failed, strict=True):
                units = len(self.units(name))
                counts.append((round(flags.mean() * units), units))
            p = max(test.p, fisher_p(*counts))
            return replace(test, p=p, p_holm=p)
        others = self.without({first: failed[0], second: failed[1]})
        seeds = min(len(others.units(name)) for name in (first, second))
        if seeds < MIN_SEEDS:
            return replace(test, seeds=seeds)
        trained = others._test(first, second, ALPHA)
        agree = trained.low > 0 < test.low or trained.high < 0 > test.high
        p = max(test.p, trained.p if agree else 1.0)
        return replace(test, p=p, p_holm=p, seeds=seeds)

    def without(self, failed: Mapping[str, npt.NDArray[np.bool_]]) -> "RunScores":
        """Leave failed runs out.

        Args:
            failed: ``[s]`` of each model that has some; not all of them.

        Example:
            >>> score_runs({"a": [[1.0, 1.0], [0.0, 0.0]]}).without({"a": np.array([False, True])}).runs["a"].tolist()
            [1.0]
        """
        keep = {name: np.ones(len(runs), dtype=bool) for name, runs in self.runs.items()}
        keep |= {name: ~flags for name, flags in failed.items()}
        places = np.flatnonzero(np.concatenate(list(keep.values())))
        return replace(
            self,
            runs={name: runs[keep[name]] for name, runs in self.runs.items()},
            right={name: items[keep[name]] for name, items in self.right.items()},
            covariance=self.covariance[np.ix_(places, places)],
            tunings={
                name: np.unique(labels[keep[name]], return_inverse=True)[1] for name, labels in self.tunings.items()
            },
            failed={},
        )

    def _test(self, first: str, second: str, alpha: float) -> PairTest:
        """Test a pair on all runs."""
        runs = [self.runs[first], self.runs[second]]
        covariance = self._covariance(first, second)
        tunings = [self.tunings.get(name) for name in (first, second)]
        difference = _difference(*runs)
        parts = variances(runs, covariance, self.items, tunings)
        half = parts.half_width(alpha)
        span = self.bounds[1] - self.bounds[0]
        low = difference - half
        high = difference + half
        odds = None
        if not self.right:
            p_items = parts.p_items(difference)
            p_seeds = parts.p_seeds(difference)
        else:
            # In whole numbers, also where one model has more runs than the other.
            a = self.right[first].sum(axis=0)
            b = self.right[second].sum(axis=0)
            sums = a * len(runs[1]) - b * len(runs[0])
            p_items = sign_flip_p(cluster_sums(sums, self.clusters).astype(np.int64))
            y, covariance = to_log_odds(runs, covariance, self.items)
            change = _difference(*y)
            parts = variances(y, covariance, self.items, tunings)
            half = parts.half_width(alpha)
            p_seeds = parts.p_seeds(change)
            odds = LogOdds(change, change - half, change + half)
            ends = [difference + _shifted(y, shift) - _shifted(y, 0.0) for shift in (-half, half)]
            if min(ends[0], odds.low) > 0 or max(ends[1], odds.high) < 0:
                low, high = ends
            else:  # undecided: also wide enough for a mean over trainings of which some fail
                low = min(low, ends[0])
                high = max(high, ends[1])
        p = max(p_items, p_seeds)
        low = max(-span, low)
        high = min(span, high)
        units = [self.units(name) for name in (first, second)]
        return PairTest(
            first,
            second,
            self.metric,
            difference,
            low,
            high,
            p,
            p,
            "not told apart",
            p_items,
            separated=are_separated(*(values.tolist() for values in units)),
            better=self.better,
            odds=odds,
            seeds=min(map(len, units)),
        )

    def units(self, name: str) -> Array:
        """Return the scores that count as independent: those of the model's tunings, or of its runs."""
        return tuning_means(self.runs[name], self.tunings.get(name))

    def _covariance(self, *names: str) -> Array:
        """Return the covariances of the runs of some models."""
        model_of_run = np.repeat(list(self.runs), [len(values) for values in self.runs.values()])
        places = np.flatnonzero(np.isin(model_of_run, names))
        return self.covariance[np.ix_(places, places)]


def score_counts(
    counts: Mapping[str, npt.ArrayLike],
    metric: Metric,
    *,
    resamples: int = RESAMPLES,
    clusters: Sequence[Hashable] | None = None,
    tunings: Tunings | None = None,
) -> RunScores:
    """Score every run by a metric, and measure how the scores vary together.

    Args:
        counts: for each model ``[s i k]``: what the metric counts on each item, in each run.
        metric: turns counts into scores.
        resamples: how often to draw the items again, where the score is no mean; default 2000.
        clusters: see `score_runs`.
        tunings: see `by_tuning`.

    Raises:
        ValueError: no model, not three axes, nothing in them, a value or a score that is not finite, or different
            numbers of items; or see `by_tuning`.

    Example:
        >>> from selfattn.evaluation.metrics import make_metric
        >>> edits = np.random.default_rng(0).poisson([[[1.0]], [[3.0]]], size=(2, 3, 200))
        >>> counts = np.stack([edits, np.full_like(edits, 10)], axis=-1)
        >>> scores = score_counts({"a": counts[0], "b": counts[1]}, make_metric("character_error_rate"))
        >>> scores.comparison().between("a", "b").word
        'better'
    """
    runs = _checked(counts, axes=3)
    highest = math.inf
    if metric.better == "higher":
        highest = {"share": 1.0, "points": 100.0}.get(metric.unit, math.inf)
    if metric.is_mean:
        scores = score_runs({name: metric.score(values) for name, values in runs.items()}, clusters)
    else:
        joined = np.concatenate(list(runs.values()))
        joined = cluster_sums(joined.swapaxes(1, 2), _numbered(clusters, joined.shape[1])).swapaxes(1, 2)
        covariance = corpus_covariance(joined, metric.score, resamples=resamples)
        by_run = {name: metric.score(values.sum(axis=1)) for name, values in runs.items()}
        scores = RunScores(by_run, covariance, joined.shape[1])
    scores = replace(scores, metric=metric.name, better=metric.better, bounds=(metric.lowest, highest))
    return by_tuning(scores, tunings)


def by_tuning(scores: RunScores, tunings: Tunings | None) -> RunScores:
    """Return scores whose independent units are tunings: each model was tuned several times, with trials of its own.

    Runs with the settings of one tuning share its luck. Taken for independent, they make equal models differ; see
    docs/statistics.md.

    Args:
        scores: of all runs.
        tunings: for each model a label for each run: that of its tuning. None: the runs themselves are the units.

    Raises:
        ValueError: another number of labels than runs, fewer than two tunings, or not as many runs for each.

    Example:
        >>> scores = score_runs({"a": [[1.0], [0.98], [0.84], [0.86]], "b": [[0.7], [0.68], [0.61], [0.6]]})
        >>> clustered = by_tuning(scores, {"a": "xxyy", "b": "xxyy"})
        >>> clustered.units("a").round(2).tolist(), clustered.pair("a", "b").p > scores.pair("a", "b").p
        ([0.99, 0.85], True)
    """
    if tunings is None:
        return scores
    numbers = {}
    for name, runs in scores.runs.items():
        number = _numbers_of(tunings[name])
        sizes = np.bincount(number)
        if len(number) != len(runs) or len(sizes) < 2 or len(set(sizes.tolist())) > 1:
            raise ValueError(f"{name}: expected at least two tunings with as many runs each, got {sizes.tolist()}")
        numbers[name] = number
    return replace(scores, tunings=numbers)


def score_runs(scores: Mapping[str, npt.ArrayLike], clusters: Sequence[Hashable] | None = None) -> RunScores:
    """Average every run's scores over the items, and measure how they vary together.

    Args:
        scores: for each model ``[s i]``, the score of each run on each item, higher is better; the same items in the
            same order for all.
        clusters: a label for each item: items with the same label repeat one another and are drawn together; default
            none do.

    Raises:
        ValueError: no model, not two axes, nothing in them, a value that is not finite, or different numbers of items.

    Example:
        >>> score_runs({"a": [[1.0, 0.0, 0.5]]}).runs["a"].tolist()
        [0.5]
        >>> runs = np.random.default_rng(0).random((3, 3, 1000)) < [[[0.9]], [[0.5]], [[0.5]]]
        >>> comparison = score_runs({"a": runs[0], "b": runs[1], "c": runs[2]}).comparison()
        >>> comparison.between("b", "a").word, comparison.between("b", "c").word
        ('worse', 'not told apart')
    """
    runs = _checked(scores, axes=2)
    joined = np.concatenate(list(runs.values()))
    groups = _numbered(clusters, joined.shape[1])
    items = joined.shape[1] if groups is None else int(groups.max()) + 1
    is_share = bool(np.isin(joined, (0.0, 1.0)).all())
    means = {name: values.mean(axis=1) for name, values in runs.items()}
    bounds = (0.0, 1.0) if is_share else (-math.inf, math.inf)
    covariance = average_covariance(joined, groups)
    return RunScores(means, covariance, items, runs if is_share else {}, groups, bounds=bounds)


def _difference(first: Array, second: Array) -> float:
    """Return the difference of two means, 0 where both have the same values in another order."""
    difference = float(first.mean() - second.mean())
    return 0.0 if abs(difference) <= _ROUNDING * max(abs(first).max(), abs(second).max()) else difference


def _shifted(log_odds: Sequence[Array], shift: float) -> float:
    """Return the difference of two mean shares, were the log-odds of the two models further apart by ``shift``."""
    first, second = log_odds
    return float(special.expit(first + shift / 2).mean() - special.expit(second - shift / 2).mean())


def _numbered(labels: Sequence[Hashable] | None, items: int) -> Clusters | None:
    """The number of each item's label; None where no two items have the same."""
    return None if labels is None or len(set(labels)) == items else _numbers_of(labels)


def _numbers_of(labels: Sequence[Hashable]) -> Clusters:
    """Return the number of each label, from 0 in the order in which they first occur."""
    places = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return np.array([places[label] for label in labels], dtype=np.int64)


def _checked(scores: Mapping[str, npt.ArrayLike], *, axes: int) -> dict[str, Array]:
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in scores.items()}
    are_right = (values.ndim == axes and values.size and np.isfinite(values).all() for values in arrays.values())
    if not arrays or not all(are_right) or len({values.shape[1] for values in arrays.values()}) > 1:
        expected = "[seeds, items, counts]" if axes == 3 else "[seeds, items]"
        shapes = {name: values.shape for name, values in arrays.items()}
        raise ValueError(f"expected {expected} of finite numbers, the same items for every model; got {shapes}")
    return arrays


FEWEST = 3
"""Tasks without which nothing can be said of further ones."""

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
    from scipy.stats import trim_mean  # takes as long to import as all else of a comparison

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

    Example:
        >>> mean = drawn_again(lambda models: float(np.mean(models[0])), [[np.arange(100.0)]])
        >>> mean.mean, round(mean.low), round(mean.high)  # 1.96 standard errors of 2.89
        (49.5, 44, 55)
    """
    chance = np.random.default_rng(0)
    draws = []
    for _ in range(RESAMPLES):
        draws.append(statistic([[chance.choice(runs, len(runs)) for runs in tasks] for tasks in models]))
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(statistic(models), float(low), float(high))
