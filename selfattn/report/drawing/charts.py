"""Charts: where lines, labels and ticks stand on the page, and the same in characters where there are no pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from selfattn.report.blocks import Chart, ChartLine, Column, Drawn, Row, Table
from selfattn.report.drawing.numbers import NONE, value_text
from selfattn.report.drawing.palette import Sign
from selfattn.report.drawing.scale import Scale, even_ticks
from selfattn.report.pages import number
from selfattn.results.quality import Estimate
from selfattn.words.messages import Said, message

MOST_BANDS = 8  # more would cover each other
COLUMNS = 14  # of a strip in characters
_BARS = "▁▂▃▄▅▆▇█"
_MOST_PLACES = 8  # of a chart whose values are all given
_HEIGHT = 280
_LABEL = 17  # least distance of two direct labels, px


@dataclass(frozen=True)
class DrawnLine:
    """Where a line stands, and its name beside its end.

    Args:
        name: of the line.
        title: what it is called in the legend; empty where its name stands beside its end.
        sign: of the line.
        band: points on a box of 1000 by 1000; empty where no band is drawn.
        points: likewise, of the line itself.
        spots: places (share of the width, px) and what each tells on hover.
        label: where the name stands, px.
    """

    name: str
    title: Said
    sign: Sign
    band: str
    points: str
    spots: list[tuple[float, float, str]]
    label: float

    @property
    def end(self) -> tuple[float, float]:
        """The place of the last spot."""
        return self.spots[-1][:2]


@dataclass(frozen=True)
class Curves:
    """Where everything of a chart stands.

    Args:
        height: px.
        rules: lines across with their marks: px from the top.
        ticks: below, with their marks: shares of the width.
        lines: with their bands and names.
    """

    height: int
    rules: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    lines: list[DrawnLine]

    @property
    def has_legend(self) -> bool:
        """Whether the lines are named in a legend, and not beside their ends."""
        return any(line.title for line in self.lines)


def curves(chart: Chart, sign_of: Mapping[str, Sign]) -> Curves | None:
    """Place the lines of a chart, their bands and their names; None when no line has a spot to draw."""
    drawn, scale, show = [line for line in chart.lines if line.spots], chart.scale, chart.show
    if not drawn:
        return None
    highest = max(spot.x for line in drawn for spot in line.spots) or 1.0
    across = chart.across or Scale(None, highest, "number")
    height = max(_HEIGHT, _LABEL * len(drawn) + 20)

    def down(quality: float) -> float:
        return height * (1 - scale.place(quality))

    def points(places: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{number(1000 * across.place(x))},{number(1000 * (1 - scale.place(y)))}" for x, y in places)

    labels = _apart([down(line.spots[-1].y) for line in drawn], height)
    lines = []
    for line, label in zip(drawn, labels, strict=True):
        around = [(s.x, s.low, s.high) for s in line.spots if s.low is not None and s.high is not None]
        edge = [(x, high) for x, _, high in around] + [(x, low) for x, low, _ in reversed(around)]
        band = points(edge) if len(drawn) <= MOST_BANDS else ""
        name = "" if line.label else f"{line.name} · "
        tips = (f"{name}{show(s.x)} · {_value(s.y, scale)}" for s in line.spots)
        spots = [(across.place(s.x), down(s.y), tip) for s, tip in zip(line.spots, tips, strict=True)]
        path = points((spot.x, spot.y) for spot in line.spots)
        lines.append(DrawnLine(line.name, line.label, sign_of[line.name], band, path, spots, label))
    near = scale.floor is not None and scale.floor < 0.01
    rules = [(down(quality), mark) for quality, mark in (*(((0.5, "50"),) if near else ()), *scale.ticks)]
    if chart.across is None:
        ticks = [(x / highest, "0" if x == 0 else show(x)) for x in even_ticks(highest, count=4)]
    else:
        ticks = [(across.place(x), mark) for x, mark in across.ticks]
    return Curves(height, rules, ticks, lines)


def _value(value: float, scale: Scale) -> str:
    """A value of an axis as text."""
    if scale.kind == "number":
        return f"{value:.3g}".replace("-", "−")
    return value_text(value, scale.kind)


def _apart(ends: list[float], height: float) -> list[float]:
    """Where names stand at the right edge beside the ends of their lines, pushed apart where they would overlap."""
    order = sorted(range(len(ends)), key=ends.__getitem__)
    places = list(accumulate((ends[k] for k in order), lambda above, end: max(end, above + _LABEL)))
    if places[-1] > height:
        places = [min(place, height - _LABEL * k) for k, place in zip(range(len(places))[::-1], places, strict=True)]
    at = dict(zip(order, places, strict=True))
    return [at[k] for k in range(len(ends))]


def label_margin(lines: Sequence[ChartLine]) -> int:
    """Room that the direct labels need to the right of the curves, px; none where a legend has them."""
    if any(line.label for line in lines):
        return 12
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
    """A chart for where there are no pictures: every line in a row, of characters with its last value.

    A chart with a legend that has few places gives its values at each of them.
    """
    lines = [line for line in chart.lines if line.spots]
    places = sorted({spot.x for line in lines for spot in line.spots})
    if any(line.label for line in lines) and len(places) <= _MOST_PLACES:
        heads = (Column(chart.unit, numeric=False), *(Column(chart.show(x)) for x in places))
        return Table(chart.name, heads, tuple(_values(line, places, chart.scale) for line in lines))
    highest = max((spot.x for line in lines for spot in line.spots), default=0.0)
    across = chart.across or Scale(None, highest or 1.0, "number")
    head = message("chart.across", unit=chart.unit, most=chart.show(highest))
    if chart.across:
        head = message("chart.between", unit=chart.unit, least=chart.show(places[0]), most=chart.show(highest))
    columns = (Column("", numeric=False), Column(head, numeric=False), Column(message("chart.last")))
    drawn = (
        (line, spark(line, chart.scale, highest, across=across), _value(line.spots[-1].y, chart.scale))
        for line in lines
    )
    rows = tuple(Row((line.label or line.name, Drawn(text), last), line.name) for line, text, last in drawn)
    return Table(chart.name, columns, rows)


def _values(line: ChartLine, places: Sequence[float], scale: Scale) -> Row:
    at = {spot.x: _value(spot.y, scale) for spot in line.spots}
    return Row((line.label or line.name, *(at.get(x, NONE) for x in places)), line.name)


def spark(line: ChartLine, scale: Scale, highest: float, columns: int = 28, *, across: Scale | None = None) -> str:
    """The height of a line at even steps up to `highest`, or of another axis, in characters.

    Example:
        >>> from selfattn.report.blocks import Spot
        >>> spark(ChartLine("a", (Spot(0, 0.1), Spot(5, 0.5), Spot(10, 1.0))), Scale(), 10, columns=5)
        '▁▁▅▅█'
    """
    found, across = [], across or Scale(None, highest or 1.0, "number")
    for k in range(columns):
        before = [spot.y for spot in line.spots if across.place(spot.x) <= k / (columns - 1) + 1e-9]
        found.append(_BARS[min(7, int(8 * scale.place(before[-1])))] if before else "·")
    return "".join(found)
