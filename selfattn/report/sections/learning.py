"""Learning: what quality was bought with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, stdev

from selfattn.evaluation.statistics.p_values import t_quantile
from selfattn.registry import register
from selfattn.report.blocks import Block, Chart, ChartLine, Charts, Paragraph, Spot
from selfattn.report.drawing.charts import MOST_BANDS
from selfattn.report.drawing.numbers import amount, compact
from selfattn.report.verdict.ranking import headline_name, headline_unit, record_scale
from selfattn.results.quality import Curve, Point, Unit
from selfattn.results.record import Model, Record
from selfattn.words.messages import Message, message


@dataclass(frozen=True)
class Spending:
    """Something that training spends, by which quality can be drawn, and how an amount of it is written."""

    name: str
    of: Callable[[Point], float | None]
    show: Callable[[float], str]


_DRAWN = (
    Spending("step", lambda point: point.step, "{:,.0f}".format),
    Spending("tokens", lambda point: point.tokens, compact),
    Spending("seconds", lambda point: point.seconds, amount),
    Spending("flops", lambda point: point.flops, compact),
)


@register.section("learning")
class Learning:
    """Quality on validation items while the models learned."""

    title = message("head.learning")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """A chart for everything that training spends."""
        charts = tuple(_chart(record, spending) for spending in spendings(record))
        if not charts:
            return (Paragraph(message("learning.none")),)
        return (
            Paragraph(message("learning.text", metric=headline_name(record)), band_note(record)),
            Charts("against", message("learning.against"), charts),
            Paragraph(message("learning.schedule"), note=True),
        )


def _chart(record: Record, spending: Spending) -> Chart:
    unit, kind = message(f"spent.{spending.name}"), record.headline.kind
    caption = message("learning.caption", metric=headline_name(record), scale=headline_unit(record), unit=unit)
    lines = tuple(ChartLine(model.name, mean_curve(model, spending.of, kind)) for model in record.models)
    choice = message(f"against.{spending.name}")
    return Chart(spending.name, caption, lines, record_scale(record), unit, spending.show, choice)


def spendings(record: Record) -> tuple[Spending, ...]:
    """Those by which at least one validation of the record can be drawn."""
    points = [point for model in record.models for curve in model.curves for point in _validated(curve)]
    return tuple(spending for spending in _DRAWN if any(spending.of(point) is not None for point in points))


def _validated(curve: Curve) -> list[Point]:
    return [point for point in curve.points if point.valid is not None]


def mean_curve(model: Model, of: Callable[[Point], float | None], kind: Unit) -> tuple[Spot, ...]:
    """The mean over runs, validation by validation, as far as every run that has any goes.

    The band around it is a 95 % interval for the mean after Student's t; with two runs, which are too few for one, it
    goes from the one to the other.

    Args:
        model: with its curves.
        of: what was spent up to a point; points without it are left out.
        kind: of the quality; the band of shares ends at 0 and 1, that of points at 0 and 100.
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


def band_note(record: Record) -> Message | None:
    """What the bands are; None where there are none."""
    counts = {sum(map(bool, map(_validated, model.curves))) for model in record.models}
    many, two = any(count > 2 for count in counts), 2 in counts
    if not many and not two:
        return None
    if len(record.models) > MOST_BANDS:
        return message("learning.band.none", count=MOST_BANDS)
    return message("learning.band.both" if many and two else "learning.band.t" if many else "learning.band.range")
