"""Test items in groups of like kind, the fields of an answer, and how good each model is on each.

Groups are tags, lengths, and words by how often training shows them; runs of words tell two models apart. The analyses
of words are those of compare-mt (Neubig et al. 2019), here over all runs of a model.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from selfattn.data.pairs import Pair, Span, compose
from selfattn.evaluation.metrics import Array, ExactMatch, ItemTest, Metric, WordRecall, of_each, words_of
from selfattn.evaluation.significance import RunScores, Tunings, estimate, score_counts
from selfattn.evaluation.variances import ALPHA, LEVEL
from selfattn.results.quality import Bucket, BucketGroup, Ngram, NgramGroup, are_separated

# How often training shows a word: never, hardly, sometimes, often. Both ends belong to the bin.
FREQUENCIES: Sequence[tuple[int, int | None]] = ((0, 0), (1, 5), (6, 50), (51, None))

_LENGTHS = 4  # buckets

Words = Sequence[Sequence[str]]
"""The words of each text."""


def by_tag(pairs: Sequence[Pair]) -> dict[str, list[int]]:
    """Group by tag (the format of a date, the kind of a phrase), in alphabetical order; pairs without one are left out.

    Example:
        >>> by_tag([Pair("a", "b", tag="x"), Pair("c", "d", tag="y"), Pair("e", "f", tag="x")])
        {'x': [0, 2], 'y': [1]}
    """
    places: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        if pair.tag:
            places.setdefault(pair.tag, []).append(place)
    return dict(sorted(places.items()))


def by_length(texts: Sequence[str], words: Callable[[str], Sequence[str]] = list) -> dict[str, list[int]]:
    """Group by length, into four buckets of about the same size.

    Texts of one length are in one bucket, so there may be fewer buckets, and their sizes may differ.

    Args:
        texts: of the test items, as a rule their sources; at least one.
        words: what is counted; default characters. ``str.split`` counts what stands between spaces.

    Example:
        >>> by_length(["a", "abc", "ab", "abc", "abcdef"])
        {'1': [0], '2': [2], '3 to 6': [1, 3, 4]}
    """
    lengths = np.array([len(words(text)) for text in texts])
    ordered = np.sort(lengths)
    edges = sorted({int(ordered[len(ordered) * number // _LENGTHS]) for number in range(1, _LENGTHS)})
    numbers = np.searchsorted(np.array(edges), lengths, side="right")
    buckets = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
    return {range_name(int(lengths[places].min()), int(lengths[places].max())): places.tolist() for places in buckets}


@dataclass(frozen=True)
class ItemScores:
    """What a metric counts for every run on every item. Outputs become this by a metric; scores of others are it.

    Attributes:
        metric: makes scores of counts.
        counts: for each model ``[s i k]``.
        clusters: a label for each item, shared by those that repeat one another; None where none do.
        tags: places of the items of each tag.
        tunings: see `significance.by_tuning`; None where the runs are the units.
        failed: for each model, which of its trainings failed.

    Example:
        >>> from selfattn.evaluation.metrics import make_metric, of_each
        >>> counts = {"a": of_each([1, 0, 1])[None]}
        >>> scores = ItemScores(make_metric("exact_match"), counts, tags={"x": [0, 1], "y": [2]})
        >>> scores.runs().estimates()["a"].runs, [(part.name, part.models["a"].mean) for part in scores.by_tag()]
        ((0.6666666666666666,), [('x', 0.5), ('y', 1.0)])
    """

    metric: Metric
    counts: Mapping[str, Array]
    clusters: Sequence[Hashable] | None = None
    tags: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)
    tunings: Tunings | None = None
    failed: Mapping[str, Sequence[bool]] = dataclasses.field(default_factory=dict)

    @property
    def items(self) -> int:
        """How many items there are."""
        return int(next(iter(self.counts.values())).shape[1])

    def runs(self) -> RunScores:
        """Score every run on all items."""
        scores = score_counts(self.counts, self.metric, clusters=self.clusters, tunings=self.tunings)
        return replace(scores, failed={name: np.array(flags) for name, flags in self.failed.items()})

    def parts(
        self, places: Mapping[str, Sequence[int]], alpha: float = ALPHA, resamples: int = 500
    ) -> tuple[Bucket, ...]:
        """Estimate each model's score on parts of the test, over seeds and the items of the part.

        Args:
            places: of the items of each part, by its name.
            alpha: probability that an interval misses; default 0.05.
            resamples: how often to draw the items of a part again, where the score is no mean; default 500.
        """
        buckets = []
        for name, chosen in places.items():
            counts = {model: values[:, list(chosen)] for model, values in self.counts.items()}
            labels = None if self.clusters is None else [self.clusters[place] for place in chosen]
            scores = score_counts(counts, self.metric, resamples=resamples, clusters=labels, tunings=self.tunings)
            buckets.append(Bucket(name, len(chosen), scores.estimates(alpha)))
        return tuple(buckets)

    def by_tag(self) -> tuple[Bucket, ...]:
        """Score the items of each tag; intervals are as wide as it takes for all to hold together."""
        return self.parts(self.tags, ALPHA / max(1, len(self.tags)))

    def table(self, name: str, buckets: tuple[Bucket, ...], note: str = "") -> BucketGroup:
        """Return scores of parts as a table."""
        return BucketGroup(name, buckets, self.metric.name, self.metric.unit, note, self.metric.better)


def score_rare_words(
    outputs: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[str],
    training: Mapping[str, int],
    clusters: Sequence[Hashable] | None = None,
    tunings: Tunings | None = None,
) -> tuple[Bucket, ...]:
    """Estimate each model's word recall, by how often training has the words; an item may be in several groups.

    Args:
        outputs: for each model the outputs of each of its runs.
        references: one for each test item.
        training: how often the training's targets have each word.
        clusters: see `ItemScores`.
        tunings: see `ItemScores`.

    Returns:
        For each of `FREQUENCIES` the items whose references have such a word, and the recall of those words alone.

    Example:
        >>> outputs = {"a": [["the cow", "a cat"]]}
        >>> buckets = score_rare_words(outputs, ["the cow", "a dog"], {"the": 1, "a": 1, "dog": 1})
        >>> [(bucket.name, bucket.items, round(bucket.models["a"].mean, 2)) for bucket in buckets]
        [('0', 1, 1.0), ('1 to 5', 2, 0.67)]
    """

    def cut(texts: Sequence[str]) -> Words:
        return [words_of(compose(text)) for text in texts]

    written = {name: list(map(cut, runs)) for name, runs in outputs.items()}
    options: dict[str, Any] = {"clusters": clusters, "tunings": tunings, "resamples": 2000}
    return score_words(written, cut(references), training, WordRecall(), FREQUENCIES, **options)


def range_name(low: int, high: int | None) -> str:
    """Name a range of whole numbers, both ends included; None is no end.

    Example:
        >>> range_name(0, 0), range_name(1, 5), range_name(6, None)
        ('0', '1 to 5', '6 and more')
    """
    if high is None:
        return f"{low} and more"
    return str(low) if low == high else f"{low} to {high}"


def span_fields(prediction: str, target: str, spans: Sequence[Span]) -> dict[str, bool]:
    """Say which fields of a target are right in a prediction.

    The prediction is cut into fields by the text between them, which must be the target's; no field may be empty. If
    several cuts are possible, the one with the most right fields counts; if none is, no field is right. A field with
    several spans is right if all of them are.

    Args:
        prediction: any text.
        target: the right one.
        spans: of the target; of those that overlap, the longest counts.

    Example:
        >>> spans = [Span("count", (3, 4), (0, 1)), Span("unit", (5, 9), (1, 2))]
        >>> span_fields("4일 후", "3일 후", spans)
        {'count': False, 'unit': True}
    """
    chosen: list[Span] = []  # that have text in the target and do not overlap
    for span in sorted(spans, key=lambda span: span.target[0] - span.target[1]):
        start, end = span.target
        if start < end and all(end <= other.target[0] or other.target[1] <= start for other in chosen):
            chosen.append(span)
    chosen.sort(key=lambda span: span.target)
    judged: dict[str, bool] = {}
    for span, right in zip(chosen, _judge(prediction, target, [span.target for span in chosen]), strict=True):
        judged[span.field] = judged.get(span.field, True) and right
    return judged


def score_fields(
    outputs: Mapping[str, Sequence[Sequence[str]]],
    pairs: Sequence[Pair],
    clusters: Sequence[Hashable] | None = None,
    tunings: Tunings | None = None,
) -> list[Bucket]:
    """Estimate how often each field is right, as `span_fields` judges.

    Args:
        outputs: for each model the outputs of each of its runs.
        pairs: the test items.
        clusters: a label for each item, shared by those that repeat one another; default none do.
        tunings: see `ItemScores`.

    Returns:
        For each field its quality, over the pairs that have it; fields in the order in which they first occur.

    Raises:
        ValueError: not as many outputs as pairs.

    Example:
        >>> spans = [Span("month", (0, 3), (0, 2)), Span("day", (4, 5), (3, 5))]
        >>> pairs = [Pair("May 1", "05-01", spans=spans), Pair("Jun 2", "06-02", spans=spans)]
        >>> fields = score_fields({"a": [["05-11", "06-02"]]}, pairs)
        >>> [(field.name, field.items, field.models["a"].mean) for field in fields]
        [('month', 2, 1.0), ('day', 2, 0.5)]
    """

    def judge(run: Sequence[str]) -> list[dict[str, bool]]:
        return [span_fields(output, pair.target, pair.spans) for output, pair in zip(run, pairs, strict=True)]

    judged = {model: list(map(judge, runs)) for model, runs in outputs.items()}
    places_of: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        for field in span_fields(pair.target, pair.target, pair.spans):
            places_of.setdefault(field, []).append(place)
    buckets: list[Bucket] = []
    for field, places in places_of.items():
        counts = {}
        for model, runs in judged.items():
            counts[model] = np.stack([of_each([fields.get(field, False) for fields in run]) for run in runs])
        buckets += ItemScores(ExactMatch(), counts, clusters, tunings=tunings).parts({field: places})
    return buckets


def _judge(prediction: str, target: str, places: Sequence[tuple[int, int]]) -> tuple[bool, ...]:
    """Say for each place of the target whether the prediction has the right text there."""
    if prediction == target:  # as most are
        return (True,) * len(places)
    ends = [(0, 0), *places, (len(target), len(target))]
    fixed = [target[before[1] : after[0]] for before, after in pairwise(ends)]
    # From the back: where a field and what follows it may begin, and what is then right at most.
    best: dict[int, tuple[bool, ...]] = {len(prediction): ()}
    for (first, last), text in zip(reversed(places), reversed(fixed[1:]), strict=True):
        # Where the fixed text behind the field may begin.
        stops = {stop - len(text): rest for stop, rest in best.items() if prediction[:stop].endswith(text)}
        best = {}
        for start in range(len(prediction)):
            field = target[first:last]
            ways = [(prediction[start:stop] == field, *rest) for stop, rest in stops.items() if stop > start]
            if ways:
                best[start] = max(ways, key=sum)
    wrong = (False,) * len(places)
    return best.get(len(fixed[0]), wrong) if prediction.startswith(fixed[0]) else wrong


# How often training shows a word: the usual groups of compare-mt. Both ends belong to the group.
WORD_FREQUENCIES: Sequence[tuple[int, int | None]] = (
    *((count, count) for count in range(5)),
    (5, 9),
    (10, 99),
    (100, 999),
    (1000, None),
)
_LONGEST = 4  # words of an n-gram
_SHOWN = 10  # n-grams of each side


def score_words(
    outputs: Mapping[str, Sequence[Words]],
    references: Words,
    training: Mapping[str, int],
    metric: Metric,
    frequencies: Sequence[tuple[int, int | None]] = WORD_FREQUENCIES,
    *,
    clusters: Sequence[Hashable] | None = None,
    tunings: Tunings | None = None,
    resamples: int = 500,
) -> tuple[Bucket, ...]:
    """Score the words of each frequency alone; an item may be in several groups.

    Args:
        outputs: for each model the words of each output of each of its runs.
        references: the words of each reference.
        training: how often the training's targets have each word; a word that is not there counts as never shown.
        metric: counts words of outputs and references that are the same, and how many there are.
        frequencies: the groups; default `WORD_FREQUENCIES`.
        clusters: see `ItemScores`.
        tunings: see `ItemScores`.
        resamples: see `ItemScores.parts`.

    Returns:
        For each frequency that has words of references: the items of whose words the metric counts some.

    Example:
        >>> from selfattn.evaluation.metrics import WordAccuracy
        >>> outputs = {"a": [[["the", "cow"], ["a", "cat"]]]}
        >>> training = {"the": 7, "a": 7, "cow": 1, "dog": 1}
        >>> buckets = score_words(outputs, [["the", "cow"], ["a", "dog"]], training, WordAccuracy())
        >>> [(bucket.name, bucket.items, round(bucket.models["a"].mean, 2)) for bucket in buckets]
        [('1', 2, 0.67), ('5 to 9', 2, 1.0)]
    """
    buckets: list[Bucket] = []
    for low, high in frequencies:
        highest = math.inf if high is None else high

        def is_in(word: str) -> bool:
            return low <= training.get(word, 0) <= highest  # noqa: B023  # called at once

        def keep(texts: Words) -> list[str]:
            return [" ".join(filter(is_in, words)) for words in texts]

        right = keep(references)
        if any(right):
            counts = metric.count_runs({name: list(map(keep, runs)) for name, runs in outputs.items()}, right)
            has_words = np.concatenate(list(counts.values()))[:, :, 1].any(axis=0)
            group = {range_name(low, high): np.flatnonzero(has_words).tolist()}
            buckets += ItemScores(metric, counts, clusters, tunings=tunings).parts(group, resamples=resamples)
    return tuple(buckets)


def ngram_differences(
    first: tuple[str, Sequence[Words]], second: tuple[str, Sequence[Words]], references: Words
) -> NgramGroup:
    """Find the runs of up to four words that one model gets right more often than another.

    An n-gram is right as often as output and reference of an item both have it. The order is compare-mt's: by
    ``(first + 1) / (first + second + 2)``, here of means over runs. Of equal ones, the more frequent stand first.

    Args:
        first: name of a model, and the words of each output of each of its runs.
        second: the same of another model.
        references: the words of each reference.

    Example:
        >>> group = ngram_differences(("a", [[["so", "it", "is"]]]), ("b", [[["it", "was"]]]), [["so", "it", "was"]])
        >>> [(ngram.text, ngram.first, ngram.second) for ngram in group.ngrams]
        [('so', 1.0, 0.0), ('so it', 1.0, 0.0), ('was', 0.0, 1.0), ('it was', 0.0, 1.0)]
    """
    expected = [Counter(_ngrams(words)) for words in references]
    total: Counter[tuple[str, ...]] = Counter()
    for counts in expected:
        total.update(counts)
    right = [[_matches(run, expected) for run in runs] for _, runs in (first, second)]
    ngrams = []
    for gram in set().union(*right[0], *right[1]):
        runs = [[run[gram] for run in each] for each in right]
        means = [sum(each) / len(each) for each in runs]
        if means[0] != means[1]:
            score = (means[0] + 1) / (means[0] + means[1] + 2)
            apart = are_separated(*runs)
            ngrams.append(Ngram(" ".join(gram), total[gram], means[0], means[1], score, apart))
    by_score = sorted(ngrams, key=lambda gram: (-gram.score, -gram.first, len(gram.text), gram.text))
    least = sorted(ngrams, key=lambda gram: (gram.score, -gram.second, len(gram.text), gram.text))
    chosen = [gram for gram in by_score[:_SHOWN] if gram.first > gram.second]
    chosen += [gram for gram in least[:_SHOWN] if gram.first < gram.second]
    return NgramGroup(first[0], second[0], tuple(chosen))


def _ngrams(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for length in range(1, _LONGEST + 1):
        for start in range(len(words) - length + 1):
            yield tuple(words[start : start + length])


def _matches(run: Words, expected: Sequence[Counter[tuple[str, ...]]]) -> Counter[tuple[str, ...]]:
    """Count how often each n-gram is right in a run."""
    total: Counter[tuple[str, ...]] = Counter()
    for words, counts in zip(run, expected, strict=True):
        total.update(Counter(gram for gram in _ngrams(words) if gram in counts) & counts)
    return total


def evaluate_outputs(
    outputs: Sequence[str], pairs: Sequence[Pair], metrics: Sequence[Metric], against: Sequence[str] | None = None
) -> dict[str, Any]:
    """Score what a run wrote, and test the difference from another run.

    Args:
        outputs: one for each pair.
        pairs: at least one.
        metrics: how outputs are scored.
        against: outputs of the other run; default none.

    Returns:
        ``items``; by the name of each metric ``metrics``, ``intervals`` (see ``interval``) and ``signatures``, where it
        has one; ``by_format``, figures as of `evaluate_part`. With another run also ``against``: its ``metrics`` and
        ``intervals``, ``p`` of each metric, and how many outputs are ``equal``; where all are, each p is 1.

    Example:
        >>> from selfattn.evaluation.metrics import make_metric
        >>> pairs = [Pair("A", "a", "letter"), Pair("B", "b", "letter")]
        >>> scores = evaluate_outputs(["a", "-"], pairs, [make_metric("exact_match")], against=["-", "-"])
        >>> scores["metrics"], scores["by_format"]["letter"]["items"], scores["against"]["p"]
        ({'exact_match': 0.5}, 2, {'exact_match': 1.0})
    """
    systems = [outputs] if against is None else [outputs, against]
    results: list[dict[str, Any]] = [{"metrics": {}, "intervals": {}} for _ in systems]
    signatures = {}
    p_values = {}
    for metric in metrics:
        counts = [metric.count(texts, pairs) for texts in systems]
        tested = metric.tested(counts) or _tested(metric, counts)
        for result, rows, ends in zip(results, counts, tested.ends, strict=True):
            result["metrics"][metric.name] = float(metric.score(rows.sum(axis=0)))
            result["intervals"][metric.name] = list(ends)
        p_values[metric.name] = tested.p
        if tested.signature:
            signatures[metric.name] = tested.signature
    scores = {"items": len(pairs)} | results[0] | {"interval": {"level": LEVEL, "over": "items"}}
    scores["by_format"] = {tag: evaluate_part(outputs, pairs, metrics, places) for tag, places in by_tag(pairs).items()}
    scores |= {"signatures": signatures} if signatures else {}
    if against is None:
        return scores
    equal = sum(first == second for first, second in zip(outputs, against, strict=True))
    return scores | {"against": results[1] | {"p": p_values, "equal": equal}}


def _tested(metric: Metric, counts: Sequence[Array]) -> ItemTest:
    """Test one or two systems: shares exactly, other scores by Student's t."""
    comparison = score_counts({str(number): rows[None] for number, rows in enumerate(counts)}, metric).comparison()
    ends = [(estimate.low, estimate.high) for estimate in comparison.estimates.values()]
    return ItemTest(ends, next((pair.p for pair in comparison.pairs), None), metric.signature)


def evaluate_part(
    outputs: Sequence[str], pairs: Sequence[Pair], metrics: Sequence[Metric], places: Sequence[int]
) -> dict[str, Any]:
    """Score what a run wrote for some of the pairs; `evaluate_outputs` describes the other arguments.

    Returns:
        ``items``, and by the name of each metric that is a mean over items its ``mean``, ``low`` and ``high``.
    """
    chosen = [outputs[place] for place in places]
    items = [pairs[place] for place in places]
    part: dict[str, Any] = {"items": len(places)}
    for metric in metrics:
        if metric.is_mean:
            score = estimate([metric.score(metric.count(chosen, items))])
            part[metric.name] = {"mean": score.mean, "low": score.low, "high": score.high}
    return part
