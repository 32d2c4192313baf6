"""Test items in groups of like kind, the fields of an answer, and how good each model is on each."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from selfattn.data.pairs import Pair, Span
from selfattn.evaluation.metrics.exact import WordRecall
from selfattn.evaluation.metrics.metric import Metric, TestItems
from selfattn.evaluation.statistics.significance import Tunings, by_tuning, score_counts, score_runs
from selfattn.evaluation.statistics.variances import ALPHA
from selfattn.results.quality import Bucket

# How often training shows a word: never, hardly, sometimes, often. Both ends belong to the bin.
FREQUENCIES: Sequence[tuple[int, int | None]] = ((0, 0), (1, 5), (6, 50), (51, None))

_LENGTHS = 4  # buckets


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


def score_groups(
    groups: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[Sequence[str]]],
    items: TestItems,
    metric: Metric,
    *,
    resamples: int = 500,
    clusters: Sequence[Hashable] | None = None,
    tunings: Tunings | None = None,
    alpha: float = ALPHA,
) -> tuple[Bucket, ...]:
    """Estimate each model's score on each group, over seeds and the items of the group.

    Args:
        groups: places among the test items, by the name of the group.
        outputs: for each model the outputs of each of its runs.
        items: the test items, or their references alone.
        metric: any.
        resamples: how often to draw the items of a group again, where the score is no mean; default 500.
        clusters: a label for each test item, shared by those that repeat one another; default none do.
        tunings: see `significance.by_tuning`; default the runs are the units.
        alpha: probability that an interval misses; default 0.05.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> outputs = {"a": [["x", "-", "-"], ["x", "y", "-"]]}
        >>> (bucket,) = score_groups({"short": [0, 2]}, outputs, ["x", "y", "z"], make_metric("exact_match"))
        >>> bucket.items, bucket.models["a"].mean
        (2, 0.5)
    """
    counts = metric.count_runs(outputs, items)
    buckets = []
    for name, places in groups.items():
        chosen = {model: values[:, list(places)] for model, values in counts.items()}
        labels = None if clusters is None else [clusters[place] for place in places]
        scores = score_counts(chosen, metric, resamples=resamples, clusters=labels, tunings=tunings)
        buckets.append(Bucket(name, len(places), scores.estimates(alpha)))
    return tuple(buckets)


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
        clusters: see `score_groups`.
        tunings: see `score_groups`.

    Returns:
        For each of `FREQUENCIES` the items whose references have such a word, and the recall of those words alone.

    Example:
        >>> outputs = {"a": [["the cow", "a cat"]]}
        >>> buckets = score_rare_words(outputs, ["the cow", "a dog"], {"the": 1, "a": 1, "dog": 1})
        >>> [(bucket.name, bucket.items, round(bucket.models["a"].mean, 2)) for bucket in buckets]
        [('0', 1, 1.0), ('1 to 5', 2, 0.67)]
    """
    buckets: list[Bucket] = []
    for low, high in FREQUENCIES:
        recall = WordRecall(training=training, seen=(low, high))
        if places := np.flatnonzero(recall.counts(references, references)[:, 1]).tolist():
            group = {range_name(low, high): places}
            buckets += score_groups(
                group, outputs, references, recall, resamples=2000, clusters=clusters, tunings=tunings
            )
    return tuple(buckets)


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
        tunings: see `score_groups`.

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
    judged = {
        model: [
            [span_fields(output, pair.target, pair.spans) for output, pair in zip(run, pairs, strict=True)]
            for run in runs
        ]
        for model, runs in outputs.items()
    }
    places_of: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        for field in span_fields(pair.target, pair.target, pair.spans):
            places_of.setdefault(field, []).append(place)
    buckets = []
    for field, places in places_of.items():
        right = {
            model: np.array([[run[place][field] for place in places] for run in runs], dtype=np.float64)
            for model, runs in judged.items()
        }
        labels = None if clusters is None else [clusters[place] for place in places]
        buckets.append(Bucket(field, len(places), by_tuning(score_runs(right, labels), tunings).estimates()))
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
        best = {
            start: max(((prediction[start:stop] == target[first:last], *rest) for stop, rest in behind), key=sum)
            for start in range(len(prediction))
            if (behind := [(stop, rest) for stop, rest in stops.items() if stop > start])
        }
    wrong = (False,) * len(places)
    return best.get(len(fixed[0]), wrong) if prediction.startswith(fixed[0]) else wrong
