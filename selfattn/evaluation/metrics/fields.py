"""Which fields of an answer are right: the year, the month, the day; the number or the unit of a phrase."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from selfattn.data.pairs import Pair, Span
from selfattn.evaluation.statistics.significance import score_runs
from selfattn.results.quality import Bucket


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
    spans = _without_overlap(spans)
    judged: dict[str, bool] = {}
    for span, right in zip(spans, _judge(prediction, target, [span.target for span in spans]), strict=True):
        judged[span.field] = judged.get(span.field, True) and right
    return judged


def score_fields(
    outputs: Mapping[str, Sequence[Sequence[str]]], pairs: Sequence[Pair], clusters: Sequence[Hashable] | None = None
) -> list[Bucket]:
    """Estimate how often each field is right, as `span_fields` judges.

    Args:
        outputs: for each model the outputs of each of its runs.
        pairs: the test items.
        clusters: a label for each item, shared by those that repeat one another; default none do.

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
        buckets.append(Bucket(field, len(places), score_runs(right, labels).estimates()))
    return buckets


def _without_overlap(spans: Sequence[Span]) -> list[Span]:
    """The spans that have text in the target and do not overlap, in the order of the target."""
    chosen: list[Span] = []
    for span in sorted(spans, key=lambda span: span.target[0] - span.target[1]):
        start, end = span.target
        if start < end and all(end <= other.target[0] or other.target[1] <= start for other in chosen):
            chosen.append(span)
    return sorted(chosen, key=lambda span: span.target)


def _judge(prediction: str, target: str, places: Sequence[tuple[int, int]]) -> tuple[bool, ...]:
    """Say for each place of the target whether the prediction has the right text there."""
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
