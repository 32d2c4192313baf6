"""Which fields of an answer are right: the year, the month, the day; the number or the unit of a phrase."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from selfattn.data.pairs import Pair, Span
from selfattn.evaluation.statistics.significance import estimate
from selfattn.results.quality import Bucket

_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ISO_FIELDS = {"year": slice(0, 4), "month": slice(5, 7), "day": slice(8, 10)}


def date_fields(prediction: str, target: str) -> dict[str, bool]:
    """Say which fields of an ISO date are right; of what is not written as one, none is.

    Args:
        prediction: any text.
        target: an ISO date.

    Raises:
        ValueError: the target is no ISO date.

    Example:
        >>> date_fields("2008-11-31", "2008-11-13")
        {'year': True, 'month': True, 'day': False}
        >>> date_fields("208-11-13", "2008-11-13")
        {'year': False, 'month': False, 'day': False}
    """
    if not _ISO_DATE.fullmatch(target):
        raise ValueError(f"{target!r} is no ISO date")
    formed = bool(_ISO_DATE.fullmatch(prediction))
    return {field: formed and prediction[part] == target[part] for field, part in _ISO_FIELDS.items()}


def span_fields(prediction: str, target: str, spans: Sequence[Span]) -> dict[str, bool]:
    """Say which fields of a target are right, by where their spans stand in it.

    The text between the fields is held fixed, and each field may be any text but none; where the prediction can be cut
    so in several ways, that with the most right fields counts. Of a prediction that cannot, no field is right. A field
    with several spans is right where all of them are.

    Args:
        prediction: any text.
        target: the right one.
        spans: of the target; of those that overlap, the longest counts.

    Example:
        >>> spans = [Span("count", (3, 4), (0, 1)), Span("unit", (5, 9), (1, 2))]
        >>> span_fields("4일 후", "3일 후", spans)
        {'count': False, 'unit': True}
    """
    fields = list(_apart(spans))
    rights = _judge(prediction, target, [span.target for span in fields])
    found: dict[str, bool] = {}
    for span, right in zip(fields, rights, strict=True):
        found[span.field] = found.get(span.field, True) and right
    return found


def score_fields(
    outputs: Mapping[str, Sequence[Sequence[str]]], pairs: Sequence[Pair], clusters: Sequence[Hashable] | None = None
) -> list[Bucket]:
    """Estimate how often each field is right.

    Where every target is an ISO date, fields are judged by `date_fields`, else by `span_fields`.

    Args:
        outputs: for each model the outputs of each of its runs.
        pairs: the test items.
        clusters: a label for each, which those share that repeat one another; default none do.

    Returns:
        For each field its quality, over the pairs that have it; fields in the order in which they first occur.

    Raises:
        ValueError: not as many outputs as pairs.

    Example:
        >>> pairs = [Pair("11/13/08", "2008-11-13"), Pair("1/2/99", "1999-01-02")]
        >>> found = score_fields({"a": [["2008-11-12", "1999-01-02"]]}, pairs)
        >>> [(field.name, field.items, field.models["a"].mean) for field in found]
        [('year', 2, 1.0), ('month', 2, 1.0), ('day', 2, 0.5)]
    """
    dates = all(_ISO_DATE.fullmatch(pair.target) for pair in pairs)

    def judge(output: str, pair: Pair) -> dict[str, bool]:
        return date_fields(output, pair.target) if dates else span_fields(output, pair.target, pair.spans)

    judged = {
        model: [[judge(output, pair) for output, pair in zip(run, pairs, strict=True)] for run in runs]
        for model, runs in outputs.items()
    }
    places: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        for field in judge(pair.target, pair):
            places.setdefault(field, []).append(place)
    return [
        Bucket(
            field,
            len(some),
            {
                model: estimate(
                    np.array([[run[place][field] for place in some] for run in runs], dtype=np.float64),
                    None if clusters is None else [clusters[place] for place in some],
                )
                for model, runs in judged.items()
            },
        )
        for field, some in places.items()
    ]


def _apart(spans: Sequence[Span]) -> Iterator[Span]:
    """Give the spans that have text in the target and do not overlap, in the order of the target."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: span.target[0] - span.target[1]):
        start, end = span.target
        if start < end and all(end <= other.target[0] or other.target[1] <= start for other in kept):
            kept.append(span)
    yield from sorted(kept, key=lambda span: span.target)


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
