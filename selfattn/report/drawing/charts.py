"""Place the lines, labels and ticks of a chart; write it as a table where there are no pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from selfattn.report.blocks import Chart, ChartLine, Column, Row, Table
from selfattn.report.drawing.numbers import NONE, value_text
from selfattn.report.drawing.palette import Sign
from selfattn.report.drawing.scale import Scale, even_ticks
from selfattn.words.messages import TextLike

_MOST_PLACES = 6  # columns of a chart that is written as a table
_HEIGHT = 280
_LABEL = 17  # least distance of two direct labels, px

Coordinates = tuple[float, float]


@dataclass(frozen=True)
class DrawnLine:
    """The places of a line, as shares of the chart's width and height from its top left corner.

    Attributes:
        name: the line's name.
        title: its name in the legend; empty where the name stands beside the end of the line.
        sign: its colour and shape.
        band: the corners of the band around it; empty where there is none.
        points: the line itself.
        rings: the points that are ringed.
        tips: what each point shows on hover.
        label: where the name stands, px from the top.
    """

    name: str
    title: TextLike
    sign: Sign
    band: list[Coordinates]
    points: list[Coordinates]
    rings: list[Coordinates]
    tips: list[str]
    label: float


@dataclass(frozen=True)
class Curves:
    """The places of everything in a chart.

    Attributes:
        height: px.
        rules: horizontal lines with their labels, as shares of the height from the top.
        ticks: marks of the horizontal axis with their labels, as shares of the width.
        lines: the lines with their bands and names.
    """

    height: int
    rules: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    lines: list[DrawnLine]

    @property
    def has_legend(self) -> bool:
        """Whether a legend names the lines."""
        return any(line.title for line in self.lines)


def curves(chart: Chart, sign_of: Mapping[str, Sign]) -> Curves | None:
    """Place the lines of a chart, their bands and their names; return None when no line has a spot."""
    lines = [line for line in chart.lines if line.spots]
    scale = chart.scale
    if not lines:
        return None
    last = max(spot.x for spot in chain.from_iterable(line.spots for line in lines))
    across = chart.across or Scale(None, last or 1.0, "number")
    height = max(_HEIGHT, _LABEL * len(lines) + 20)

    def point(x: float, y: float) -> Coordinates:
        return across.place(x), 1 - scale.place(y)

    labels = _apart([height * (1 - scale.place(line.spots[-1].y)) for line in lines], height)
    drawn = []
    for line, label in zip(lines, labels, strict=True):
        around = [(s.x, s.low, s.high) for s in line.spots if s.low is not None and s.high is not None]
        edge = [point(x, high) for x, _, high in around] + [point(x, low) for x, low, _ in reversed(around)]
        name = "" if line.label else f"{line.name} · "
        tips = [f"{name}{chart.show(spot.x)} · {_value(spot.y, scale)}" for spot in line.spots]
        points = [point(spot.x, spot.y) for spot in line.spots]
        rings = [point(spot.x, spot.y) for spot in line.spots if spot.chosen]
        drawn.append(DrawnLine(line.name, line.label, sign_of[line.name], edge, points, rings, tips, label))
    rules = [(1 - scale.place(quality), mark) for quality, mark in scale.ticks]
    marks = chart.across.ticks if chart.across else _marks(chart, across.top)
    return Curves(height, rules, [(across.place(x), mark) for x, mark in marks], drawn)


def _marks(chart: Chart, top: float) -> list[tuple[float, str]]:
    """Return round places of the horizontal axis; whole numbers where every point stands at one, such as a layer."""
    ticks = [round(x, 9) for x in even_ticks(top, count=4)]
    if all(float(spot.x).is_integer() for line in chart.lines for spot in line.spots):
        ticks = [x for x in ticks if x.is_integer()]
    return [(x, chart.show(x) if x else "0") for x in ticks]


def _value(value: float, scale: Scale) -> str:
    if scale.kind in ("number", "bits"):
        return f"{value:.3g}".replace("-", "−")
    return value_text(value, scale.kind, None if scale.floor else 1)


def _apart(ends: list[float], height: float) -> list[float]:
    """Push the names at the right edge apart where they would overlap."""
    order = sorted(range(len(ends)), key=ends.__getitem__)
    places = list(accumulate((ends[k] for k in order), lambda above, end: max(end, above + _LABEL)))
    places = [min(place, height - _LABEL * k) for k, place in zip(range(len(places))[::-1], places, strict=True)]
    at = dict(zip(order, places, strict=True))
    return [at[k] for k in range(len(ends))]


def label_margin(lines: Sequence[ChartLine]) -> int:
    """Return the width that the names beside the lines need, px."""
    return 12 if any(line.label for line in lines) else min(190, 30 + 7 * max(len(line.name) for line in lines))


def chart_table(chart: Chart) -> Table:
    """Return a chart as a table: the value of every line at a few places of the horizontal axis, ◎ by ringed ones."""
    lines = [line for line in chart.lines if line.spots]
    spots = list(chain.from_iterable(line.spots for line in lines))
    places = sorted({spot.x for spot in spots})
    if len(places) > _MOST_PLACES:
        few = {places[round(k * (len(places) - 1) / (_MOST_PLACES - 1))] for k in range(_MOST_PLACES)}
        places = sorted(few | {spot.x for spot in spots if spot.chosen})
    columns = (Column(chart.unit, numeric=False), *(Column(chart.show(x)) for x in places))
    return Table(chart.name, columns, tuple(_values(line, places, chart.scale) for line in lines))


def _values(line: ChartLine, places: Sequence[float], scale: Scale) -> Row:
    """Return the last value of a line up to each place; a line that ended long before has none there."""
    cells = []
    for x in places:
        before = [spot for spot in line.spots if spot.x <= x]
        ring = "◎" if before and before[-1].chosen and before[-1].x == x else ""
        cells.append(ring + _value(before[-1].y, scale) if before and line.spots[-1].x >= 0.9 * x else NONE)
    return Row((line.label or line.name, *cells), line.name)
