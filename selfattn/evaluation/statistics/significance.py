"""Which differences between models would be seen again with other seeds and other test items.

What is computed, why, and how often it is wrong in simulation: docs/statistics.md. Letters: `s` seeds, `i` test items,
`k` counts an item, `r` runs of all models together.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from selfattn.evaluation.metrics.metric import Array, Metric
from selfattn.evaluation.statistics.p_values import holm, sign_flip_p, t_quantile
from selfattn.evaluation.statistics.variances import (
    ALPHA,
    LEVEL,
    RESAMPLES,
    Clusters,
    Variances,
    average_covariance,
    cluster_sums,
    corpus_covariance,
    variances,
)
from selfattn.results.pairs import Comparison, PairTest, Word
from selfattn.results.quality import Better, Estimate

MIN_SEEDS = 3
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


def compare_scores(
    scores: Mapping[str, npt.ArrayLike],
    *,
    clusters: Sequence[Hashable] | None = None,
    primary: tuple[str, str] | None = None,
) -> Comparison:
    """Estimate every model's mean score, and test every pair of models.

    A pair's interval and p come from `variances.Variances`; p is never below that of the exact test over items alone,
    `p_values.sign_flip_p`. With one run, p is the latter: McNemar's test. Where scores are not all 0 or 1, Student's t
    over items takes its place. Holm's correction covers all pairs but a primary one.

    Runs with the same seed are not paired: the same seed gives two architectures the same order of data, but unrelated
    initial weights. If they do share luck, the test is stricter, not laxer.

    Args:
        scores: for each model ``[s i]``, the score of each run on each item, higher is better; the same items in the
            same order for all.
        clusters: a label for each item: items with the same label repeat one another and are drawn together; default
            none do.
        primary: the two models that the comparison is about, named beforehand: their p is not corrected, that of all
            other pairs is, and these are exploratory; default all are corrected.

    Raises:
        ValueError: no model, not two axes, nothing in them, a value that is not finite, or different numbers of items.

    Example:
        >>> runs = np.random.default_rng(0).random((3, 3, 1000)) < [[[0.9]], [[0.5]], [[0.5]]]
        >>> comparison = compare_scores({"a": runs[0], "b": runs[1], "c": runs[2]})
        >>> comparison.between("b", "a").word, comparison.between("b", "c").word
        ('worse', 'no difference seen')
    """
    return score_runs(scores, clusters).comparison(primary)


def compare_outputs(
    outputs: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[str],
    metric: Metric,
    *,
    clusters: Sequence[Hashable] | None = None,
    primary: tuple[str, str] | None = None,
) -> Comparison:
    """Do what `compare_scores` does for any metric, also one that is no mean over items, such as BLEU.

    Args:
        outputs: for each model the outputs of each of its runs.
        references: one for each item.
        metric: such as ``make_metric("bleu", "de")``.
        clusters: see `compare_scores`.
        primary: see `compare_scores`.

    Raises:
        ValueError: no model, no run, or not as many outputs as references.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> right = [f"the dog number {number} runs" for number in range(50)]
        >>> wrong = [text.replace("runs", "ran") for text in right]
        >>> comparison = compare_outputs({"a": [right] * 3, "b": [wrong] * 3}, right, make_metric("bleu", "en"))
        >>> comparison.between("a", "b").word
        'better'
    """
    return score_counts(metric.count_runs(outputs, references), metric, clusters=clusters).comparison(primary)


def wilson(share: float, items: float) -> tuple[float, float]:
    r"""Return the 95 % Wilson score interval of a share (Wilson 1927).

    .. math:: \frac{p + z^2 / 2n \pm z \sqrt{p (1 - p) / n + z^2 / 4 n^2}}{1 + z^2 / n}

    Args:
        share: of right answers, 0 to 1.
        items: how many there were, above 0; the effective number where answers depend on one another (Korn and
            Graubard 1998), infinite for an interval without width.

    Example:
        >>> low, high = wilson(1.0, 100)
        >>> round(low, 3), high
        (0.963, 1.0)
    """
    excess = t_quantile(math.inf, ALPHA) ** 2 / items
    centre, reach = share + excess / 2, math.sqrt(excess * share * (1 - share) + excess**2 / 4)
    # But for rounding, both ends stay on their side of the share and within 0 and 1.
    return max(0.0, min(share, (centre - reach) / (1 + excess))), min(1.0, max(share, (centre + reach) / (1 + excess)))


def choose_word(low: float, high: float, p_holm: float, *, seeds: int, apart: bool, better: Better = "higher") -> Word:
    """Say in words what the figures of a difference show; the first rule that holds decides.

    1. Fewer than three seeds: "too few seeds to tell", whatever the items say.
    2. The corrected p is below 0.05 and the interval excludes 0: "better" or "worse".
    3. The runs are apart: "too few seeds to tell". They are not called alike only because there are few of them.
    4. Otherwise "no difference seen", which is no proof of equality: the interval says what may have been missed.

    Args:
        low: lower end of the difference's interval.
        high: upper end.
        p_holm: the corrected p.
        seeds: of the model that has fewer.
        apart: whether every run of one model is above every run of the other, and that by more than the luck of the
            items (``p_items`` below 0.05).
        better: whether higher or lower scores are better; default higher.

    Example:
        >>> choose_word(0.01, 0.03, 0.002, seeds=3, apart=True)
        'better'
        >>> choose_word(0.01, 0.03, 0.002, seeds=1, apart=True)
        'too few seeds to tell'
        >>> choose_word(-0.01, 0.03, 0.4, seeds=5, apart=False)
        'no difference seen'
    """
    if seeds < MIN_SEEDS:
        return "too few seeds to tell"
    if p_holm < ALPHA and (low > 0 or high < 0):
        return "better" if (low > 0) == (better == "higher") else "worse"
    return "too few seeds to tell" if apart else "no difference seen"


@dataclass(frozen=True)
class RunScores:
    """The scores of all runs, and how they vary together when the items are drawn again.

    Attributes:
        runs: for each model ``[s]``.
        covariance: ``[r r]``, of all runs in their order.
        items: how many there are that do not repeat one another.
        right: for each model ``[s i]`` of 0 and 1, where the scores are shares of right answers; else None.
        clusters: which items repeat one another; None where none do.
        metric: its name.
        better: whether higher or lower scores are better.
        bounds: the smallest and the largest possible score.
    """

    runs: Mapping[str, Array]
    covariance: Array
    items: int
    right: Mapping[str, Array] | None = None
    clusters: Clusters | None = None
    metric: str = "mean"
    better: Better = "higher"
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def estimates(self) -> dict[str, Estimate]:
        """Return every model's score with its interval."""
        return {name: self._estimate(name) for name in self.runs}

    def _estimate(self, name: str) -> Estimate:
        mean, half = float(self.runs[name].mean()), self._variances(name).half_width()
        low, high = max(self.bounds[0], mean - half), min(self.bounds[1], mean + half)
        if self.right is not None:
            # The effective number of items is the one that would give a plain sample this half-width.
            variance = t_quantile(math.inf, ALPHA) ** 2 * mean * (1 - mean)
            low, high = wilson(mean, self.items if not variance else variance / half**2 if half else math.inf)
        return Estimate(mean, low, high, tuple(map(float, self.runs[name])))

    def difference(self, first: str, second: str, level: float = LEVEL) -> tuple[float, float, float]:
        """Return the difference of two models' scores, first minus second, and the ends of its interval."""
        a, b = self.runs[first], self.runs[second]
        difference, half = float(a.mean() - b.mean()), self._variances(first, second).half_width(level)
        if abs(difference) <= _ROUNDING * max(abs(a).max(), abs(b).max()):  # the same scores in another order
            difference = 0.0
        most = self.bounds[1] - self.bounds[0]
        return difference, max(-most, difference - half), min(most, difference + half)

    def comparison(self, primary: tuple[str, str] | None = None) -> Comparison:
        """Return the estimates and the test of every pair; `compare_scores` describes the argument."""
        pairs = [self._pair(first, second) for first, second in combinations(self.runs, 2)]
        pairs = [replace(pair, primary={pair.first, pair.second} == set(primary or ())) for pair in pairs]
        corrected = iter(holm([pair.p for pair in pairs if not pair.primary]))
        with_words = (self._with_word(pair, pair.p if pair.primary else next(corrected)) for pair in pairs)
        return Comparison(self.estimates(), tuple(with_words))

    def _variances(self, *names: str) -> Variances:
        model_of_run = np.repeat(list(self.runs), [len(values) for values in self.runs.values()])
        places = np.flatnonzero(np.isin(model_of_run, names))
        # That no item tells two models apart is no proof that none would: half an item is added to each cell of the
        # table of right and wrong answers (after Agresti and Min 2005).
        extra = 1 / self.items**2 if self.right is not None and len(names) == 2 else 0.0
        covariance = self.covariance[np.ix_(places, places)]
        return variances([self.runs[name] for name in names], covariance, self.items, extra=extra)

    def _pair(self, first: str, second: str) -> PairTest:
        """The figures of a pair, without the correction for other pairs and without a word."""
        parts, (difference, low, high) = self._variances(first, second), self.difference(first, second)
        if self.right is None:
            p_items = parts.p_items(difference)
        else:
            # In whole numbers, also where one model has more runs than the other.
            a, b = self.right[first].sum(axis=0), self.right[second].sum(axis=0)
            sums = a * len(self.runs[second]) - b * len(self.runs[first])
            p_items = sign_flip_p(cluster_sums(sums, self.clusters).astype(np.int64))
        p = max(p_items, parts.p_seeds(difference))
        return PairTest(first, second, self.metric, difference, low, high, p, p, "no difference seen", p_items)

    def _with_word(self, pair: PairTest, p_holm: float) -> PairTest:
        a, b = self.runs[pair.first], self.runs[pair.second]
        assert pair.p_items is not None
        apart = pair.p_items < ALPHA and bool(a.min() > b.max() or b.min() > a.max())
        seeds = min(len(a), len(b))
        word = choose_word(pair.low, pair.high, p_holm, seeds=seeds, apart=apart, better=self.better)
        return replace(pair, p_holm=p_holm, word=word)


def score_counts(
    counts: Mapping[str, npt.ArrayLike],
    metric: Metric,
    *,
    resamples: int = RESAMPLES,
    clusters: Sequence[Hashable] | None = None,
) -> RunScores:
    """Score every run by a metric, and measure how the scores vary together.

    Args:
        counts: for each model ``[s i k]``: what the metric counts on each item, in each run.
        metric: turns counts into scores.
        resamples: how often to draw the items again, where the score is no mean; default 2000.
        clusters: see `compare_scores`.

    Raises:
        ValueError: no model, not three axes, nothing in them, a value or a score that is not finite, or different
            numbers of items.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> edits = np.random.default_rng(0).poisson([[[1.0]], [[3.0]]], size=(2, 3, 200))
        >>> counts = np.stack([edits, np.full_like(edits, 10)], axis=-1)
        >>> scores = score_counts({"a": counts[0], "b": counts[1]}, make_metric("character_error_rate"))
        >>> scores.comparison().between("a", "b").word
        'better'
    """
    runs = _checked(counts, axes=3)
    highest = math.inf if metric.better == "lower" else 1.0 if metric.unit == "share" else 100.0
    if metric.is_mean:
        scores = score_runs({name: metric.score(values) for name, values in runs.items()}, clusters)
    else:
        joined = np.concatenate(list(runs.values()))
        joined = cluster_sums(joined.swapaxes(1, 2), _numbered(clusters, joined.shape[1])).swapaxes(1, 2)
        covariance = corpus_covariance(joined, metric.score, resamples=resamples)
        by_run = {name: metric.score(values.sum(axis=1)) for name, values in runs.items()}
        scores = RunScores(by_run, covariance, joined.shape[1])
    return replace(scores, metric=metric.name, better=metric.better, bounds=(0.0, highest))


def score_runs(scores: Mapping[str, npt.ArrayLike], clusters: Sequence[Hashable] | None = None) -> RunScores:
    """Average every run's scores over the items, and measure how they vary together; arguments as of `compare_scores`.

    Example:
        >>> score_runs({"a": [[1.0, 0.0, 0.5]]}).runs["a"].tolist()
        [0.5]
    """
    runs = _checked(scores, axes=2)
    joined = np.concatenate(list(runs.values()))
    groups = _numbered(clusters, joined.shape[1])
    items = joined.shape[1] if groups is None else int(groups.max()) + 1
    is_share = bool(np.isin(joined, (0.0, 1.0)).all())
    means = {name: values.mean(axis=1) for name, values in runs.items()}
    bounds = (0.0, 1.0) if is_share else (-math.inf, math.inf)
    covariance = average_covariance(joined, groups)
    return RunScores(means, covariance, items, runs if is_share else None, groups, bounds=bounds)


def _numbered(labels: Sequence[Hashable] | None, items: int) -> Clusters | None:
    """The number of each item's label; None where no two items have the same."""
    if labels is None:
        return None
    if len(labels) != items:
        raise ValueError(f"clusters: expected a label for each of {items} items, got {len(labels)}")
    places = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return None if len(places) == items else np.array([places[label] for label in labels])


def _checked(scores: Mapping[str, npt.ArrayLike], *, axes: int) -> dict[str, Array]:
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in scores.items()}
    if not arrays:
        raise ValueError("expected at least one model")
    names = "[seeds, items, counts]" if axes == 3 else "[seeds, items]"
    for name, values in arrays.items():
        if values.ndim != axes or not values.size:
            raise ValueError(f"{name}: expected {names}, at least one of each, got shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(f"{name}: expected finite scores, got nan or infinity")
    counts = {name: values.shape[1] for name, values in arrays.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"expected the same items for every model, got {counts}")
    return arrays
