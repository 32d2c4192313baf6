"""The charts of the page as inline SVG: dot-and-interval strips and learning curves.

Places along an axis are percentages of the width, so that a chart takes the width it is given without shrinking its
text; only the lines are drawn in a stretched box. Colours come from the style sheet (classes m0 to m6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from selfattn.figures.quality import Estimate
from selfattn.report.drawing.numbers import value_text
from selfattn.report.drawing.palette import Sign
from selfattn.report.drawing.scale import Scale, even_ticks
from selfattn.report.drawing.svg import element, number, percent, text
from selfattn.report.sections.training import MOST_BANDS, Spot

_HEIGHT = 280
_LABEL = 17  # least distance of two direct labels, px
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


@dataclass(frozen=True)
class Line:
    """The learning of one model: the mean of its runs and how it is drawn."""

    name: str
    sign: Sign
    spots: tuple[Spot, ...]


def curves(lines: Sequence[Line], scale: Scale, show: Callable[[float], str], label: str) -> str:
    """Quality on validation items against what was spent: lines with signs are means over runs, bands their spread.

    Args:
        lines: the models; those without a spot are left out.
        scale: the axis of quality.
        show: how an amount that was spent is written.
        label: id of the element that names the chart.

    Returns:
        An `<svg>`, or "" when no model has a spot to draw.
    """
    drawn = [line for line in lines if line.spots]
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
        colour = f"m{line.sign.colour}"
        around = [(s.x, s.low, s.high) for s in line.spots if s.low is not None and s.high is not None]
        if around and len(drawn) <= MOST_BANDS:
            edge = [place(x, high) for x, _, high in around] + [place(x, low) for x, low, _ in reversed(around)]
            bands.append(element("polygon", class_=colour, points=" ".join(edge)))
        points = " ".join(place(spot.x, spot.mean) for spot in line.spots)
        paths.append(element("polyline", class_=colour, points=points))
        marks = [
            _sign_at(
                line.sign,
                across(spot.x),
                down(spot.mean),
                f"{line.name} · {show(spot.x)} · {value_text(spot.mean, scale.kind)}",
            )
            for spot in line.spots
        ]
        front.append(element("g", *marks, class_=colour))
        ends.append((down(line.spots[-1].mean), across(line.spots[-1].x), line))
    attributes = {"viewBox": "0 0 1000 1000", "preserveAspectRatio": "none", "width": "100%", "class_": "lines"}
    box = element("svg", *bands, *paths, height=height, **attributes)
    leaders, names = _direct_labels(ends, height)
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


def _direct_labels(ends: list[tuple[float, float, Line]], height: float) -> tuple[list[str], list[str]]:
    """Leaders, and names at the right edge beside the ends of their lines, pushed apart where they would overlap."""
    order = sorted(ends, key=lambda end: end[0])
    places: list[float] = []
    for y, _, _ in order:
        places.append(max(y, places[-1] + _LABEL) if places else y)
    overflow = max(0.0, places[-1] - height)
    for k in range(len(places) - 1, -1, -1):
        places[k] = min(places[k], height - _LABEL * (len(places) - 1 - k)) if overflow else places[k]
    leaders, names = [], []
    for (y, x, line), place in zip(order, places, strict=True):
        name = line.name if len(line.name) <= 23 else f"{line.name[:22]}…"
        sign = element(
            "svg", _sign_at(line.sign, 0, 0), class_=f"m{line.sign.colour}", x="100%", y=place, overflow="visible"
        )
        leaders.append(element("line", class_="leader", x1=percent(x), x2="100%", y1=y, y2=y))
        leaders.append(_slant(y, place))
        names.append(element("g", sign, element("text", text(name), x="100%", y=place + 4, dx=30), class_="name"))
    return leaders, names


def _slant(y: float, place: float) -> str:
    line = element("line", class_="leader", x1=0, x2=12, y1=y, y2=place)
    return element("svg", line, x="100%", y=0, overflow="visible")
