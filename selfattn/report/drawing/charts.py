"""Place the lines, labels and ticks of a chart, each model under its colour and shape, or write it as a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, count, islice

from selfattn.registry import PRESETS
from selfattn.report.blocks import Chart, ChartLine, Column, Row, Table
from selfattn.report.drawing.numbers import NONE, Scale, even_ticks, value_text
from selfattn.words.messages import TextLike

INKS = ("#0072b2", "#d55e00", "#009067", "#b8598f", "#a87400", "#2a86bd", "#333a42")  # on white; --m0 to --m6 in CSS
COLOURS = len(INKS)
ANSI = ("blue", "red", "green", "magenta", "yellow", "cyan", "white")
_SHAPES = (  # as text, and as SVG path data around (0, 0), about 10 px wide
    ("●", "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z"),
    ("■", "M-4.1,-4.1h8.2v8.2h-8.2z"),
    ("▲", "M0,-5.2L5.2,4.2H-5.2z"),
    ("◆", "M0,-5.6L5.6,0L0,5.6L-5.6,0z"),
    ("▼", "M0,5.2L5.2,-4.2H-5.2z"),
    ("✚", "M-1.7,-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z"),
    ("✖", "M-4.8,-2.7L-2.7,-4.8L0,-2.1L2.7,-4.8L4.8,-2.7L2.1,0L4.8,2.7L2.7,4.8L0,2.1L-2.7,4.8L-4.8,2.7L-2.1,0z"),
)
_SIGNS = COLOURS * len(_SHAPES)
_STRIDE = 4  # with it the models that are usually compared differ in colour and in shape


@dataclass(frozen=True)
class Sign:
    """How one model is drawn.

    Attributes:
        colour: its number, 0 to 6.
        glyph: the shape as one character of text.
        path: the shape as SVG path data.
    """

    colour: int
    glyph: str
    path: str

    @property
    def ink(self) -> str:
        """The colour on white."""
        return INKS[self.colour]


class Signs(dict[str, Sign]):
    """A sign for every name; one that was not given gets the next. The first 49 differ.

    A preset has the same sign on every page, unless a model before it has that colour or shape. Up to seven models
    differ in both.

    Example:
        >>> signs = Signs(["mine", "transformer", "rnn-attention"])
        >>> signs["rnn-attention"].glyph, signs["transformer"].glyph, signs["mine"].glyph
        ('▲', '◆', '●')
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.presets = PRESETS.names()
        self.begin(names)

    def begin(self, names: Iterable[str]) -> str:
        """Begin anew, with other names; return an empty text, for templates."""
        self.clear()
        for name in sorted(names, key=lambda name: name not in self.presets):  # stable: others keep their order
            self[name]
        return ""

    def __missing__(self, name: str) -> Sign:
        places = chain([_STRIDE * self.presets.index(name)] if name in self.presets else [], count())
        signs = [Sign(k % COLOURS, *_SHAPES[(k + k // COLOURS) % len(_SHAPES)]) for k in islice(places, 2 * _SIGNS)]
        colours = {sign.colour for sign in self.values()}
        glyphs = {sign.glyph for sign in self.values()}
        of_own_colour = [sign for sign in signs if sign.colour not in colours and sign.glyph not in glyphs]
        others = [sign for sign in signs if sign not in self.values()]
        self[name] = sign = next(chain(of_own_colour, others, signs))
        return sign


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
