"""Learning curves: validation quality against steps, tokens, seconds and FLOPs."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean, stdev

from selfattn.evaluation.statistics.p_values import t_quantile
from selfattn.registry import register
from selfattn.report.blocks import Block, Chart, ChartLine, Charts, Paragraph, Spot
from selfattn.report.drawing.charts import MOST_BANDS
from selfattn.report.drawing.numbers import amount, compact
from selfattn.report.verdict.ranking import headline_name, headline_unit, record_scale
from selfattn.results.quality import Curve, Point, Unit
from selfattn.results.record import Model, Record
from selfattn.words.messages import message

# What training spends: its value at a point of a curve, and that value as text.
_AXES: dict[str, tuple[Callable[[Point], float | None], Callable[[float], str]]] = {
    "step": (lambda point: point.step, "{:,.0f}".format),
    "tokens": (lambda point: point.tokens, compact),
    "seconds": (lambda point: point.seconds, amount),
    "flops": (lambda point: point.flops, compact),
}


@register.section("learning")
class Learning:
    """Quality on validation items during training."""

    title = message("head.learning")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """Return a chart for each quantity that the record holds."""
        points = [point for model in record.models for curve in model.curves for point in _validated(curve)]
        names = [name for name, (of, _) in _AXES.items() if any(of(point) is not None for point in points)]
        charts = tuple(_chart(record, name) for name in names)
        if not charts:
            return (Paragraph(message("learning.none")),)
        has_bands = len(record.models) <= MOST_BANDS and any(len(model.curves) > 1 for model in record.models)
        bands = message("learning.band") if has_bands else None
        return (
            Paragraph(message("learning.text", metric=headline_name(record)), bands),
            Charts("against", message("learning.against"), charts),
            Paragraph(message("learning.schedule"), note=True),
        )


def _chart(record: Record, name: str) -> Chart:
    (of, show), unit, kind = _AXES[name], message(f"spent.{name}"), record.headline.kind
    caption = message("learning.caption", metric=headline_name(record), scale=headline_unit(record), unit=unit)
    lines = tuple(ChartLine(model.name, mean_curve(model, of, kind)) for model in record.models)
    return Chart(name, caption, lines, record_scale(record), unit, show, message(f"against.{name}"))


def _validated(curve: Curve) -> list[Point]:
    return [point for point in curve.points if point.valid is not None]


def mean_curve(model: Model, of: Callable[[Point], float | None], kind: Unit) -> tuple[Spot, ...]:
    """Return the mean over runs at every validation that all runs reached.

    The band is a 95 % interval for the mean (Student's t); with two runs it goes from the lower to the higher.

    Args:
        model: with its curves.
        of: returns the horizontal value of a point; points without one are left out.
        kind: unit of the quality; bands end at 0 and at 1 or 100.
    """
    runs = [[(x, p.valid or 0.0) for p in _validated(curve) if (x := of(p)) is not None] for curve in model.curves]
    top = 1.0 if kind == "share" else 100.0
    spots = []
    for at in zip(*(run for run in runs if run), strict=False):
        values = [y for _, y in at]
        mean, low, high = fmean(values), None, None
        if len(values) == 2:
            low, high = min(values), max(values)
        elif len(values) > 2:
            half = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
            low, high = max(0.0, mean - half), min(top, mean + half)
        spots.append(Spot(fmean(x for x, _ in at), mean, low, high))
    return tuple(spots)
