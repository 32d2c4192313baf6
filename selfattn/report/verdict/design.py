"""What the design of a comparison could have found."""

from __future__ import annotations

from selfattn.evaluation.statistics.design import seeds_needed, smallest_detectable
from selfattn.evaluation.statistics.significance import MIN_SEEDS
from selfattn.figures.record import Record
from selfattn.report.drawing.numbers import digits, value_text
from selfattn.report.words.messages import Message, message


def detectable(record: Record) -> list[Message]:
    """The smallest true difference between the two models of the primary contrast that 80 of 100 such designs find.

    With it the seeds that half of it would need. Nothing where there is no such contrast, or too few seeds.
    """
    metric, kind = record.headline.metric, record.headline.kind
    runs = {model.name: own.runs for model in record.models if (own := model.metrics.get(metric))}
    for test in record.pairs:
        first, second = runs.get(test.first, ()), runs.get(test.second, ())
        if test.primary and test.metric == metric and min(len(first), len(second)) >= MIN_SEEDS:
            half = (test.high - test.low) / 2
            smallest = smallest_detectable(first, second, half)
            seeds = seeds_needed(smallest / 2, first, second, half) if smallest > 0 else None
            text = value_text(smallest, kind, digits(test.low, test.high, kind)).removesuffix("\u00a0%")
            more = message("design.items") if seeds is None else message("design.seeds", count=seeds)
            return [message(f"design.{kind}", first=test.first, second=test.second, smallest=text), more]
    return []
