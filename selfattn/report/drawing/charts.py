"""Charts: where lines, labels and ticks stand on the page, and the same in characters where there are no pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from selfattn.figures.quality import Estimate
from selfattn.report.blocks import Chart, ChartLine, Column, Drawn, Row, Table
from selfattn.report.drawing.numbers import value_text
from selfattn.report.drawing.palette import Sign
from selfattn.report.drawing.scale import Scale, even_ticks
from selfattn.report.drawing.svg import number
from selfattn.report.words.messages import message

MOST_BANDS = 8  # more would cover each other
COLUMNS = 14  # of a strip in characters
_BARS = "▁▂▃▄▅▆▇█"
_HEIGHT = 280
_LABEL = 17  # least distance of two direct labels, px


@dataclass(frozen=True)
class Label:
    """The name of a line beside its end: where it ends (a share of the width, px), and where the name stands (px)."""

    name: str
    sign: Sign
    x: float
    y: float
    place: float


@dataclass(frozen=True)
class Curves:
    """Where everything of a chart stands.

    Args:
        height: px.
        rules: lines across with their marks: px from the top.
        ticks: below, with their marks: shares of the width.
        labels: the names of the lines.
        bands: points on a box of 1000 by 1000, by sign.
        lines: likewise.
        spots: by sign a place (share of the width, px) and what it tells on hover.
    """

    height: int
    rules: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    labels: list[Label]
    bands: list[tuple[Sign, str]]
    lines: list[tuple[Sign, str]]
    spots: list[tuple[Sign, list[tuple[float, float, str]]]]


def curves(chart: Chart, sign_of: Mapping[str, Sign]) -> Curves | None:
    """Place the lines of a chart, their bands and their names; None when no line has a spot to draw."""
    drawn, scale, show = [line for line in chart.lines if line.spots], chart.scale, chart.show
    if not drawn:
        return None
    highest = max(spot.x for line in drawn for spot in line.spots) or 1.0
    height = max(_HEIGHT, _LABEL * len(drawn) + 20)

    def down(quality: float) -> float:
        return height * (1 - scale.place(quality))

    def place(x: float, quality: float) -> str:
        return f"{number(1000 * x / highest)},{number(1000 * (1 - scale.place(quality)))}"

    bands, lines, spots, ends = [], [], [], []
    for line in drawn:
        sign = sign_of[line.name]
        around = [(s.x, s.low, s.high) for s in line.spots if s.low is not None and s.high is not None]
        if around and len(drawn) <= MOST_BANDS:
            edge = [place(x, high) for x, _, high in around] + [place(x, low) for x, low, _ in reversed(around)]
            bands.append((sign, " ".join(edge)))
        lines.append((sign, " ".join(place(spot.x, spot.y) for spot in line.spots)))
        tips = [f"{line.name} · {show(s.x)} · {value_text(s.y, scale.kind)}" for s in line.spots]
        spots.append((sign, [(s.x / highest, down(s.y), tip) for s, tip in zip(line.spots, tips, strict=True)]))
        ends.append((down(line.spots[-1].y), line.spots[-1].x / highest, line.name))
    near = scale.floor is not None and scale.floor < 0.01
    rules = [(down(quality), mark) for quality, mark in (*(((0.5, "50"),) if near else ()), *scale.ticks)]
    ticks = [(x / highest, "0" if x == 0 else show(x)) for x in even_ticks(highest, count=4)]
    return Curves(height, rules, ticks, _direct_labels(ends, height, sign_of), bands, lines, spots)


def _direct_labels(ends: list[tuple[float, float, str]], height: float, sign_of: Mapping[str, Sign]) -> list[Label]:
    """Names at the right edge beside the ends of their lines, pushed apart where they would overlap."""
    order = sorted(ends, key=lambda end: end[0])
    places: list[float] = []
    for y, _, _ in order:
        places.append(max(y, places[-1] + _LABEL) if places else y)
    if places[-1] > height:
        places = [min(place, height - _LABEL * k) for k, place in zip(range(len(places))[::-1], places, strict=True)]
    return [Label(name, sign_of[name], x, y, at) for (y, x, name), at in zip(order, places, strict=True)]


def label_margin(lines: Sequence[ChartLine]) -> int:
    """Room that the direct labels need to the right of the curves, px."""
    return min(190, 30 + 7 * max(len(line.name) for line in lines))


def strip_text(scale: Scale, sign: Sign, estimate: Estimate | None) -> tuple[str, int, int]:
    """A mean with its interval in characters, and from where to where it goes.

    Example:
        >>> strip_text(Scale(), Sign(0, "circle"), Estimate(0.5, 0.3, 0.6))
        ('····━━━●━·····', 4, 9)
    """
    text = list("·" * COLUMNS)
    if estimate is None:
        return "".join(text), 0, 0
    mean, low, high = (
        min(COLUMNS - 1, int(scale.place(estimate.mean if one is None else one) * COLUMNS))
        for one in (estimate.mean, estimate.low, estimate.high)
    )
    first, last = min(mean, low), max(mean, high)
    text[first : last + 1] = "━" * (last + 1 - first)
    text[mean] = sign.glyph
    return "".join(text), first, last + 1


def axis_text(scale: Scale) -> str:
    """The ends of the axis of such strips."""
    end = scale.ticks[-1][1] if scale.floor is None else "100"
    return "0".ljust(COLUMNS - len(end)) + end


def chart_table(chart: Chart) -> Table:
    """A chart for where there are no pictures: every line in a row of characters, with its last value."""
    lines = [line for line in chart.lines if line.spots]
    highest = max((spot.x for line in lines for spot in line.spots), default=0.0)
    head = message("chart.across", unit=chart.unit, most=chart.show(highest))
    columns = (Column("", numeric=False), Column(head, numeric=False), Column(message("chart.last")))
    rows = []
    for line in lines:
        last = value_text(line.spots[-1].y, chart.scale.kind)
        rows.append(Row((line.name, Drawn(spark(line, chart.scale, highest)), last), line.name))
    return Table(chart.name, columns, tuple(rows))


def spark(line: ChartLine, scale: Scale, highest: float, columns: int = 28) -> str:
    """The height of a line at even steps up to `highest`, in characters.

    Example:
        >>> from selfattn.report.blocks import Spot
        >>> spark(ChartLine("a", (Spot(0, 0.1), Spot(5, 0.5), Spot(10, 1.0))), Scale(), 10, columns=5)
        '▁▁▅▅█'
    """
    found = []
    for k in range(columns):
        before = [spot.y for spot in line.spots if spot.x <= highest * k / (columns - 1) * (1 + 1e-9)]
        found.append(_BARS[min(7, int(8 * scale.place(before[-1])))] if before else "·")
    return "".join(found)
