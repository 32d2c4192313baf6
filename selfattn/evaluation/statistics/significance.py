"""Which differences between models would be seen again with other seeds and other test items.

What is computed, why so, and how often it is wrong in simulation: docs/statistics.md. Letters: `s` seeds, `i` test
items, `k` counts an item, `r` runs of all models together.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from selfattn.evaluation.metrics.metric import Array, Metric
from selfattn.evaluation.statistics.intervals import bootstrap_share, wilson
from selfattn.evaluation.statistics.p_values import holm, sign_flip_p
from selfattn.evaluation.statistics.variances import (
    ALPHA,
    LEVEL,
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
RESAMPLES = 2000
_ROUNDING = 1e-12  # of the scores' size


def estimate(scores: npt.ArrayLike, clusters: Sequence[Hashable] | None = None) -> Estimate:
    """Estimate a model's score and its 95 % interval over seeds and items.

    The half-width is that of `variances.Variances`. Where all scores are 0 or 1 it is laid out as Wilson's interval is,
    inside ``[0, 1]`` and longer towards 1/2. With one run the interval is over items only, and ``over`` says so; for
    scores of 0 and 1 it is then that of `bootstrap_share`.

    Args:
        scores: ``[s i]``, the score of each run on each item.
        clusters: see `compare_scores`.

    Raises:
        ValueError: not two axes, nothing in it, or a value that is not finite.

    Example:
        >>> found = estimate([[1] * 90 + [0] * 10, [1] * 94 + [0] * 6, [1] * 92 + [0] * 8])
        >>> round(found.mean, 2), round(found.low, 2), round(found.high, 2), found.over
        (0.92, 0.82, 0.97, 'seeds and items')
        >>> estimate([[0.5, 0.7, 0.3]]).over
        'items'
    """
    return _of_means({"model": scores}, clusters).estimates()["model"]


def compare_scores(
    scores: Mapping[str, npt.ArrayLike],
    metric: str = "mean",
    better: Better = "higher",
    *,
    clusters: Sequence[Hashable] | None = None,
    primary: tuple[str, str] | None = None,
    level: float = LEVEL,
) -> Comparison:
    """Estimate every model's mean score, and test every pair of models.

    A pair's interval and p come from `variances.Variances`; p is never below that of the exact test over items alone,
    `p_values.sign_flip_p`. With one run, p is the latter: McNemar's test. Where scores are not all 0 or 1, Student's t
    over items takes its place. Holm's correction is over all pairs but
    a primary one.

    Runs of one number are not taken for pairs: the same seed gives two architectures the same order of data, but
    unrelated first weights. If they do share luck, the test is stricter, not laxer.

    Args:
        scores: for each model ``[s i]``, the score of each run on each item; the same items in the same order for all.
        metric: what to call the score; default ``mean``.
        better: which of two scores is the better one; default the higher.
        clusters: a label for each item: items of one label repeat one another, and are drawn together; default each
            stands for itself.
        primary: the two models that the comparison is about, named beforehand: their p is not corrected, that of all
            other pairs is, and these are exploratory; default all are corrected.
        level: of the intervals of pairs, on which their words rest too; default 0.95. Intervals of scores have 0.95.

    Raises:
        ValueError: no model, not two axes, nothing in them, a value that is not finite, or different numbers of items.

    Example:
        >>> runs = np.random.default_rng(0).random((3, 3, 1000)) < [[[0.9]], [[0.5]], [[0.5]]]
        >>> found = compare_scores({"a": runs[0], "b": runs[1], "c": runs[2]})
        >>> found.between("b", "a").word, found.between("b", "c").word
        ('worse', 'no difference seen')
    """
    return _of_means(scores, clusters).comparison(metric, better, primary, level)


def compare_outputs(
    outputs: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[str],
    metric: Metric,
    *,
    clusters: Sequence[Hashable] | None = None,
    primary: tuple[str, str] | None = None,
    level: float = LEVEL,
) -> Comparison:
    """Compare models by what they wrote: `compare_counts` of what a metric counts.

    Args:
        outputs: for each model the outputs of each of its runs.
        references: one for each item.
        metric: such as ``make_metric("bleu", "de")``.
        clusters: see `compare_scores`.
        primary: see `compare_scores`.
        level: see `compare_scores`.

    Raises:
        ValueError: no model, no run, or not as many outputs as references.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> right = [f"the dog number {number} runs" for number in range(50)]
        >>> wrong = [text.replace("runs", "ran") for text in right]
        >>> found = compare_outputs({"a": [right] * 3, "b": [wrong] * 3}, right, make_metric("bleu", "en"))
        >>> found.between("a", "b").word
        'better'
    """
    counts = metric.count_runs(outputs, references)
    return compare_counts(counts, metric, clusters=clusters, primary=primary, level=level)


def compare_counts(
    counts: Mapping[str, npt.ArrayLike],
    metric: Metric,
    *,
    resamples: int = RESAMPLES,
    clusters: Sequence[Hashable] | None = None,
    primary: tuple[str, str] | None = None,
    level: float = LEVEL,
) -> Comparison:
    """Do what `compare_scores` does for any metric: also one that is no mean over items, such as BLEU or an error rate.

    Args:
        counts: for each model ``[s i k]``: what the metric counts on each item, in each run.
        metric: makes scores of them.
        resamples: how often to draw the items again, where the score is no mean; default 2000.
        clusters: see `compare_scores`.
        primary: see `compare_scores`.
        level: see `compare_scores`.

    Raises:
        ValueError: no model, not three axes, nothing in them, a value or a score that is not finite, or different
            numbers of items.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> edits = np.random.default_rng(0).poisson([[[1.0]], [[3.0]]], size=(2, 3, 200))
        >>> counts = np.stack([edits, np.full_like(edits, 10)], axis=-1)
        >>> found = compare_counts({"a": counts[0], "b": counts[1]}, make_metric("character_error_rate"))
        >>> found.between("a", "b").word
        'better'
    """
    return run_scores(counts, metric, resamples, clusters).comparison(metric.name, metric.better, primary, level)


def estimate_counts(
    counts: Mapping[str, npt.ArrayLike],
    metric: Metric,
    *,
    resamples: int = RESAMPLES,
    clusters: Sequence[Hashable] | None = None,
) -> dict[str, Estimate]:
    """Estimate every model's score as `compare_counts` does, which describes the arguments, and test nothing."""
    return run_scores(counts, metric, resamples, clusters).estimates()


def word_for(low: float, high: float, p_holm: float, *, seeds: int, apart: bool, better: Better = "higher") -> Word:
    """Say in words what the figures of a difference carry; the first rule that holds decides.

    1. Fewer than three seeds: "too few seeds to tell", whatever the items say.
    2. The corrected p is below 0.05 and the interval leaves out 0: "better" or "worse".
    3. The runs are apart: "too few seeds to tell". They are not called alike only because there are few of them.
    4. Otherwise "no difference seen", which is no proof of equality: the interval says what may have been missed.

    Args:
        low: lower end of the difference's interval.
        high: upper end.
        p_holm: the corrected p.
        seeds: of the model that has fewer.
        apart: whether every run of one model is above every run of the other, and that by more than the luck of the
            items (``p_items`` below 0.05).
        better: which of two scores is the better one; default the higher.

    Example:
        >>> word_for(0.01, 0.03, 0.002, seeds=3, apart=True)
        'better'
        >>> word_for(0.01, 0.03, 0.002, seeds=1, apart=True)
        'too few seeds to tell'
        >>> word_for(-0.01, 0.03, 0.4, seeds=5, apart=False)
        'no difference seen'
    """
    if seeds < MIN_SEEDS:
        return "too few seeds to tell"
    if p_holm < ALPHA and (low > 0 or high < 0):
        return "better" if (low > 0) == (better == "higher") else "worse"
    return "too few seeds to tell" if apart else "no difference seen"


@dataclass(frozen=True)
class RunScores:
    """Run scores of all models, and how they vary together when the items are drawn again.

    Attributes:
        runs: for each model ``[s]``.
        covariance: ``[r r]``, of all runs in their order.
        items: how many there are that do not repeat one another.
        right: for each model ``[s i]`` of 0 and 1, where the scores are shares of right answers; None where not.
        clusters: which items repeat one another; None where none do.
    """

    runs: Mapping[str, Array]
    covariance: Array
    items: int
    right: Mapping[str, Array] | None
    clusters: Clusters | None = None

    def estimates(self) -> dict[str, Estimate]:
        """Return every model's score with its interval."""
        return {name: self._estimate(name) for name in self.runs}

    def _estimate(self, name: str) -> Estimate:
        values = self.runs[name]
        mean, runs = float(values.mean()), tuple(map(float, values))
        if self.right is not None and len(values) == 1 and self.clusters is None:
            return replace(bootstrap_share(self.right[name] > 0), mean=mean, runs=runs)
        half = self._variances(name).half_width()
        ends = (mean - half, mean + half) if self.right is None else _share_interval(mean, half, self.items)
        return Estimate(mean, *ends, runs)

    def difference(self, first: str, second: str, level: float = LEVEL) -> tuple[float, float, float]:
        """Return the difference of two models' scores, first minus second, and the ends of its interval."""
        difference, half = (
            _difference(self.runs[first], self.runs[second]),
            self._variances(first, second).half_width(level),
        )
        least, most = (-math.inf, math.inf) if self.right is None else (-1.0, 1.0)
        return difference, max(least, difference - half), min(most, difference + half)

    def comparison(
        self, metric: str, better: Better, primary: tuple[str, str] | None, level: float = LEVEL
    ) -> Comparison:
        """Return the estimates, and the test of every pair."""
        pairs = [self._pair(first, second, metric, level) for first, second in combinations(self.runs, 2)]
        pairs = [replace(pair, primary={pair.first, pair.second} == set(primary or ())) for pair in pairs]
        corrected = iter(holm([pair.p for pair in pairs if not pair.primary]))
        with_words = (self._with_word(pair, pair.p if pair.primary else next(corrected), better) for pair in pairs)
        return Comparison(self.estimates(), tuple(with_words))

    def _variances(self, *names: str) -> Variances:
        whose = np.repeat(list(self.runs), [len(values) for values in self.runs.values()])
        places = np.flatnonzero(np.isin(whose, names))
        # That no item tells two models apart is no proof that none would: half an item is added to each cell of the
        # table of right and wrong answers (after Agresti and Min 2005).
        extra = 1 / self.items**2 if self.right is not None and len(names) == 2 else 0.0
        covariance = self.covariance[np.ix_(places, places)]
        return variances([self.runs[name] for name in names], covariance, self.items, extra=extra)

    def _pair(self, first: str, second: str, metric: str, level: float) -> PairTest:
        """Figures of a pair; the correction for other pairs and the word are still to come."""
        found, (difference, low, high) = self._variances(first, second), self.difference(first, second, level)
        if self.right is None:
            p_items = found.p_items(difference)
        else:
            one, other = self.runs[first], self.runs[second]
            # In whole numbers, also where one model has more runs than the other.
            sums = self.right[first].sum(axis=0) * len(other) - self.right[second].sum(axis=0) * len(one)
            p_items = sign_flip_p(cluster_sums(sums, self.clusters).astype(np.int64))
        p = max(p_items, found.p_seeds(difference))
        return PairTest(first, second, metric, difference, low, high, p, p, "no difference seen", p_items)

    def _with_word(self, pair: PairTest, p_holm: float, better: Better) -> PairTest:
        one, other = self.runs[pair.first], self.runs[pair.second]
        assert pair.p_items is not None
        apart = pair.p_items < ALPHA and bool(one.min() > other.max() or other.min() > one.max())
        seeds = min(len(one), len(other))
        word = word_for(pair.low, pair.high, p_holm, seeds=seeds, apart=apart, better=better)
        return replace(pair, p_holm=p_holm, word=word)


def run_scores(
    counts: Mapping[str, npt.ArrayLike],
    metric: Metric,
    resamples: int = RESAMPLES,
    clusters: Sequence[Hashable] | None = None,
) -> RunScores:
    """Score every run, and see how the scores vary together; `compare_counts` describes the arguments.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> run_scores({"a": [[[1.0, 1.0], [0.0, 1.0]]]}, make_metric("exact_match")).runs["a"].tolist()
        [0.5]
    """
    runs = _checked(counts, axes=3)
    if metric.is_mean:
        return _of_means({name: metric.score(one) for name, one in runs.items()}, clusters)
    joined = np.concatenate(list(runs.values()))
    scores = {name: metric.score(one.sum(axis=1)) for name, one in runs.items()}
    joined = cluster_sums(joined.swapaxes(1, 2), _numbered(clusters, joined.shape[1])).swapaxes(1, 2)
    return RunScores(scores, corpus_covariance(joined, metric.score, resamples=resamples), joined.shape[1], None)


def _of_means(scores: Mapping[str, npt.ArrayLike], labels: Sequence[Hashable] | None = None) -> RunScores:
    runs = _checked(scores, axes=2)
    joined = np.concatenate(list(runs.values()))
    clusters = _numbered(labels, joined.shape[1])
    items = joined.shape[1] if clusters is None else int(clusters.max()) + 1
    right = runs if bool(np.isin(joined, (0.0, 1.0)).all()) else None
    means = {name: one.mean(axis=1) for name, one in runs.items()}
    return RunScores(means, average_covariance(joined, clusters), items, right, clusters)


def _numbered(labels: Sequence[Hashable] | None, items: int) -> Clusters | None:
    """The number of each item's label; None where no two items have the same."""
    if labels is None:
        return None
    if len(labels) != items:
        raise ValueError(f"clusters: expected a label for each of {items} items, got {len(labels)}")
    places = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return None if len(places) == items else np.array([places[label] for label in labels])


def _checked(scores: Mapping[str, npt.ArrayLike], *, axes: int) -> dict[str, Array]:
    arrays = {name: np.asarray(one, dtype=np.float64) for name, one in scores.items()}
    if not arrays:
        raise ValueError("expected at least one model")
    names = "[seeds, items, counts]" if axes == 3 else "[seeds, items]"
    for name, one in arrays.items():
        if one.ndim != axes or not one.size:
            raise ValueError(f"{name}: expected {names}, at least one of each, got shape {one.shape}")
        if not np.isfinite(one).all():
            raise ValueError(f"{name}: expected finite scores, got nan or infinity")
    counts = {name: one.shape[1] for name, one in arrays.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"expected the same items for every model, got {counts}")
    return arrays


def _difference(one: Array, other: Array) -> float:
    """The difference of two means, without what is only rounding: the same scores in another order differ by 0."""
    difference = float(one.mean() - other.mean())
    return difference if abs(difference) > _ROUNDING * max(abs(one).max(), abs(other).max()) else 0.0


def _share_interval(mean: float, half: float, items: int) -> tuple[float, float]:
    """Lay a half-width out as Wilson's interval is: all shares p no further from the mean than p's own half-width.

    A share's half-width goes as sqrt(p (1 - p)); at the mean it is ``half``. With the half-width of a plain sample this
    is Wilson's interval itself, with a larger one that of a sample of the effective size (Korn and Graubard 1998).
    """
    if mean in (0.0, 1.0):
        return wilson(round(mean * items), items)
    excess = half**2 / (mean * (1 - mean))
    centre, reach = mean + excess / 2, (half**2 + excess**2 / 4) ** 0.5
    # But for rounding, both stay on their side of the mean and of the end.
    return max(0.0, min(mean, (centre - reach) / (1 + excess))), min(1.0, max(mean, (centre + reach) / (1 + excess)))
