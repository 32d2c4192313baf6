"""Learning: what quality was bought with, and how much of it a level of quality needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, median, stdev

from selfattn.evaluation.statistics.p_values import t_quantile
from selfattn.figures.quality import Curve, Point, Unit
from selfattn.figures.record import Model, Record
from selfattn.registry import register
from selfattn.report.blocks import Block, Chart, ChartLine, Charts, Heading, Paragraph, Spot, Table, model_table
from selfattn.report.drawing.charts import MOST_BANDS
from selfattn.report.drawing.numbers import amount, compact, value_text
from selfattn.report.verdict.names import headline_name, headline_unit
from selfattn.report.verdict.ranking import ranked, record_scale
from selfattn.report.words.messages import Message, message

LEVEL = 0.99  # of a share, where some model comes so far
OF_BEST = 0.95  # else of what the best model ends with


@dataclass(frozen=True)
class Spending:
    """Something that training spends, by which quality can be drawn, and how an amount of it is written."""

    name: str
    of: Callable[[Point], float | None]
    show: Callable[[float], str]


EPOCHS = Spending("epoch", lambda point: point.epoch, "{:g}".format)
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
        """A chart for everything that training spends, and what it took to come near the best."""
        charts = tuple(_chart(record, spending) for spending in spendings(record))
        if not charts:
            return (Paragraph(message("learning.none")),)
        found: list[Block] = [
            Paragraph(message("learning.text", metric=headline_name(record)), band_note(record)),
            Charts("against", message("learning.against"), charts),
        ]
        level, table = threshold(record), reached_table(record)
        if level and table.rows:
            found += [Heading(message("reached.head"), "reached"), Paragraph(level[1]), table]
            found.append(Paragraph(message("reached.note"), note=True))
        return tuple(found)


def _chart(record: Record, spending: Spending) -> Chart:
    unit, kind = message(f"spent.{spending.name}"), record.headline.kind
    caption = message("learning.caption", metric=headline_name(record), scale=headline_unit(record), unit=unit)
    lines = tuple(ChartLine(model.name, mean_curve(model, spending.of, kind)) for model in record.models)
    choice = message(f"against.{spending.name}")
    return Chart(spending.name, caption, lines, record_scale(record), unit, spending.show, choice)


def spendings(record: Record) -> tuple[Spending, ...]:
    """Those by which at least one validation of the record can be drawn."""
    points = [point for model in record.models for curve in model.curves for point in _validated(curve)]
    return tuple(one for one in _DRAWN if any(one.of(point) is not None for point in points))


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


def threshold(record: Record) -> tuple[float, Message] | None:
    """A level of quality worth reaching, and what it is; None without curves, or where nothing was learnt.

    A share of 99 % where the mean of some model's runs ends there, else 95 % of the best of these means;
    none for a metric that is better where it is lower.
    """
    ends = [spots[-1].y for m in record.models if (spots := mean_curve(m, EPOCHS.of, record.headline.kind))]
    if not ends or max(ends) <= 0 or record.headline.better == "lower":
        return None
    kind, best = record.headline.kind, max(ends)
    if kind == "share" and best >= LEVEL:
        return LEVEL, message("reached.level", level=value_text(LEVEL, kind, 0))
    level = OF_BEST * best
    return level, message("reached.level.best", level=value_text(level, kind, 1), best=value_text(best, kind, 1))


def reached_table(record: Record) -> Table:
    """By model, what the threshold needed, in everything that training spends."""
    columns, found = (EPOCHS, *spendings(record)), threshold(record)
    models = [model for model in ranked(record) if found and mean_curve(model, EPOCHS.of, record.headline.kind)]
    rows = ((model.name, [reached(model, one, found[0]) for one in columns if found]) for model in models)
    return model_table("reached", (message(f"reached.{one.name}") for one in columns), rows)


def reached(model: Model, spending: Spending, level: float) -> Message:
    """What had been spent at the first validation at or above a level: the median over seeds, and their range.

    A seed that never came so far counts as endless, so a median needs more than half of the seeds.
    """
    spent: list[float] = []
    for curve in model.curves:
        first = next((p for p in curve.points if p.valid is not None and p.valid >= level), None)
        if first is None:
            spent.append(math.inf)
        elif (value := spending.of(first)) is None:
            return message("reached.unknown")
        else:
            spent.append(value)
    finite, middle = [value for value in spent if value < math.inf], median(spent)
    if not finite:
        return message("reached.not")
    if middle == math.inf:
        return message("reached.not.some", count=len(finite), total=len(spent))
    text = spending.show(middle)
    if len(finite) > 1:
        low, high = spending.show(min(finite)), spending.show(max(finite))
        text += "" if low == high == text else f"\u00a0({low}–{high})"
    if len(finite) < len(spent):
        return message("reached.some", text=text, count=len(finite), total=len(spent))
    return message("reached.at", text=text)
