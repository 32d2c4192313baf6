"""The charts of the page as inline SVG: dot-and-interval strips and learning curves.

Places along an axis are percentages of the width, so that a chart takes the width it is given without shrinking its
text; only the lines are drawn in a stretched box. Colours come from the style sheet (classes m0 to m6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from selfattn.figures.quality import Estimate
from selfattn.report.blocks import Chart, Column, Drawn, Line, Row, Table
from selfattn.report.drawing.numbers import value_text
from selfattn.report.drawing.palette import Sign
from selfattn.report.drawing.scale import Scale, even_ticks
from selfattn.report.drawing.svg import element, number, percent, text
from selfattn.report.words.messages import message

MOST_BANDS = 8  # more would cover each other
_HEIGHT = 280
_LABEL = 17  # least distance of two direct labels, px
COLUMNS = 14  # of a strip in characters
_BARS = "▁▂▃▄▅▆▇█"
_STRIP = 22
_LANE = 12


def strip(scale: Scale, entries: Sequence[tuple[Sign, Estimate | None]]) -> str:
    """Means with their intervals on the shared axis, one lane an entry."""
    height = _STRIP if len(entries) == 1 else _LANE * len(entries) + 6
    lines = [
        element("line", class_="tick", x1=percent(scale.place(share)), x2=percent(scale.place(share)), y1=0, y2=height)
        for share, _ in scale.ticks
    ]
    for k, (sign, estimate) in enumerate(entries):
        if estimate is not None:
            y = height / 2 if len(entries) == 1 else 3 + _LANE * (k + 0.5)
            lines.append(_dot_and_interval(scale, sign, estimate, y))
    return element("svg", *lines, class_="strip", height=height, aria_hidden="true")


def axis(scale: Scale) -> str:
    """The tick labels of the shared axis, for the head of a column of strips."""
    labels = []
    for quality, label in scale.ticks:
        place = scale.place(quality)
        anchor = "start" if place == 0 else "end" if place == 1 else "middle"
        labels.append(element("text", text(label), x=percent(place), y=13, text_anchor=anchor))
    return element("svg", *labels, class_="strip axis", height=17, aria_hidden="true")


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


def spark(line: Line, scale: Scale, highest: float, columns: int = 28) -> str:
    """The height of a line at even steps up to `highest`, in characters.

    Example:
        >>> from selfattn.report.blocks import Spot
        >>> spark(Line("a", (Spot(0, 0.1), Spot(5, 0.5), Spot(10, 1.0))), Scale(), 10, columns=5)
        '▁▁▅▅█'
    """
    found = []
    for k in range(columns):
        before = [spot.y for spot in line.spots if spot.x <= highest * k / (columns - 1) * (1 + 1e-9)]
        found.append(_BARS[min(7, int(8 * scale.place(before[-1])))] if before else "·")
    return "".join(found)


def marker(sign: Sign) -> str:
    """The sign of a model, to stand before its name."""
    path = element("path", d=sign.path)
    return element(
        "svg", path, class_=f"sign m{sign.colour}", viewBox="-7 -7 14 14", width=14, height=14, aria_hidden="true"
    )


def _dot_and_interval(scale: Scale, sign: Sign, estimate: Estimate, y: float) -> str:
    parts = []
    if estimate.low is not None and estimate.high is not None:
        low, high = percent(scale.place(estimate.low)), percent(scale.place(estimate.high))
        parts.append(element("line", class_="interval", x1=low, x2=high, y1=y, y2=y))
        for end in (low, high):
            parts.append(element("line", class_="interval", x1=end, x2=end, y1=y - 4, y2=y + 4))
    parts.append(_sign_at(sign, scale.place(estimate.mean), y))
    return element("g", *parts, class_=f"m{sign.colour}")


def _sign_at(sign: Sign, share: float, y: float, tip: str = "") -> str:
    children = [element("title", text(tip))] if tip else []
    return element(
        "svg", element("path", *children, d=sign.path), class_="at", x=percent(share), y=y, width=1, height=1
    )


def curves(chart: Chart, sign_of: Mapping[str, Sign], label: str) -> str:
    """The lines of a chart with their signs, and their bands.

    Args:
        chart: what to draw.
        sign_of: the sign of every line by its name.
        label: id of the element that names the chart.

    Returns:
        An `<svg>`, or "" when no line has a spot to draw.
    """
    drawn, scale, show = [line for line in chart.lines if line.spots], chart.scale, chart.show
    if not drawn:
        return ""
    highest = max(spot.x for line in drawn for spot in line.spots) or 1.0
    height = max(_HEIGHT, _LABEL * len(drawn) + 20)

    def across(x: float) -> float:
        return x / highest

    def down(quality: float) -> float:
        return height * (1 - scale.place(quality))

    def place(x: float, quality: float) -> str:
        return f"{number(1000 * across(x))},{number(1000 * (1 - scale.place(quality)))}"

    bands, paths, front, ends = [], [], [], []
    for line in drawn:
        sign = sign_of[line.name]
        colour = f"m{sign.colour}"
        around = [(s.x, s.low, s.high) for s in line.spots if s.low is not None and s.high is not None]
        if around and len(drawn) <= MOST_BANDS:
            edge = [place(x, high) for x, _, high in around] + [place(x, low) for x, low, _ in reversed(around)]
            bands.append(element("polygon", class_=colour, points=" ".join(edge)))
        points = " ".join(place(spot.x, spot.y) for spot in line.spots)
        paths.append(element("polyline", class_=colour, points=points))
        marks = [
            _sign_at(sign, across(s.x), down(s.y), f"{line.name} · {show(s.x)} · {value_text(s.y, scale.kind)}")
            for s in line.spots
        ]
        front.append(element("g", *marks, class_=colour))
        ends.append((down(line.spots[-1].y), across(line.spots[-1].x), line.name))
    attributes = {"viewBox": "0 0 1000 1000", "preserveAspectRatio": "none", "width": "100%", "class_": "lines"}
    box = element("svg", *bands, *paths, height=height, **attributes)
    leaders, names = _direct_labels(ends, height, sign_of)
    grid = _grid(scale, highest, height, down, show)
    parts = [*grid, *leaders, box, *front, *names]
    return element("svg", *parts, class_="plot", height=height, role="img", aria_labelledby=label)


def _grid(
    scale: Scale, highest: float, height: float, down: Callable[[float], float], show: Callable[[float], str]
) -> list[str]:
    """Ticks with their labels, and lines across."""
    parts = []
    y_ticks = ((0.5, "50"), *scale.ticks) if scale.floor is not None and scale.floor < 0.01 else scale.ticks
    for quality, mark in y_ticks:
        parts.append(element("line", class_="tick", x1=0, x2="100%", y1=down(quality), y2=down(quality)))
        parts.append(element("text", text(mark), x=-8, y=down(quality) + 4, text_anchor="end"))
    for x in even_ticks(highest, count=4):
        across = percent(x / highest)
        parts.append(element("line", class_="tick", x1=across, x2=across, y1=height, y2=height + 5))
        mark = "0" if x == 0 else show(x)
        parts.append(element("text", text(mark), x=across, y=height + 19, text_anchor="middle"))
    return parts


def label_margin(lines: Sequence[Line]) -> int:
    """Room that the direct labels need to the right of the curves, px."""
    return min(190, 30 + 7 * max(len(line.name) for line in lines))


def _direct_labels(
    ends: list[tuple[float, float, str]], height: float, sign_of: Mapping[str, Sign]
) -> tuple[list[str], list[str]]:
    """Leaders, and names at the right edge beside the ends of their lines, pushed apart where they would overlap."""
    order = sorted(ends, key=lambda end: end[0])
    places: list[float] = []
    for y, _, _ in order:
        places.append(max(y, places[-1] + _LABEL) if places else y)
    overflow = max(0.0, places[-1] - height)
    for k in range(len(places) - 1, -1, -1):
        places[k] = min(places[k], height - _LABEL * (len(places) - 1 - k)) if overflow else places[k]
    leaders, names = [], []
    for (y, x, full), place in zip(order, places, strict=True):
        name, found = full if len(full) <= 23 else f"{full[:22]}…", sign_of[full]
        sign = element("svg", _sign_at(found, 0, 0), class_=f"m{found.colour}", x="100%", y=place, overflow="visible")
        leaders.append(element("line", class_="leader", x1=percent(x), x2="100%", y1=y, y2=y))
        leaders.append(_slant(y, place))
        names.append(element("g", sign, element("text", text(name), x="100%", y=place + 4, dx=30), class_="name"))
    return leaders, names


def _slant(y: float, place: float) -> str:
    line = element("line", class_="leader", x1=0, x2=12, y1=y, y2=place)
    return element("svg", line, x="100%", y=0, overflow="visible")
