"""One attention map as a self-contained SVG picture: for notebooks, for files and for the page without JavaScript.

Source tokens stand along the top in the order in which the line is read on the page (right-to-left text too),
target tokens down the side. The darker a cell, the larger its weight; zero is the colour of the page. Every cell tells
its value on hover. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, SupportsFloat

from selfattn.report.drawing.svg import element, text
from selfattn.report.drawing.tokens import drawn, shown, token_places, visual_order, width

_CELL, _ROW, _FONT = 19, 21, 13
_MONO = "ui-monospace, 'D2Coding', 'Noto Sans Mono CJK KR', 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_INK, _PAGE, _HEAT, _RULE = "#16191d", "#ffffff", "#0072b2", "#dfe3e8"


class SpanLike(Protocol):
    """A piece of gold alignment, such as a `selfattn.data.pairs.Span`: half-open ranges of characters."""

    @property
    def field(self) -> str:
        """Name of the field."""

    @property
    def source(self) -> tuple[int, int]:
        """Characters of the source."""

    @property
    def target(self) -> tuple[int, int]:
        """Characters of the target."""


def attention_svg(
    weights: Iterable[Iterable[SupportsFloat]],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    gold: Iterable[SpanLike] | None = None,
    title: str = "",
) -> str:
    """Draw attention weights.

    Args:
        weights: [t][s], nested sequences or a 2-D tensor, between 0 and 1.
        source_tokens: s tokens, in the order of the text.
        target_tokens: t tokens.
        gold: which characters of the target come from which of the source; outlined and named. Default none.
        title: a line above the picture; default none.

    Returns:
        An `<svg>` element that can stand in a page or be a file of its own.

    Raises:
        ValueError: the weights are not t rows of s.

    Example:
        >>> picture = attention_svg([[0.9, 0.1]], ["a", " "], ["b"])
        >>> picture.startswith("<svg"), "b ← ␣: 0.1000" in picture
        (True, True)
    """
    rows = [[float(weight) for weight in row] for row in weights]
    if len(rows) != len(target_tokens) or any(len(row) != len(source_tokens) for row in rows):
        expected = f"{len(target_tokens)} rows (target tokens) of {len(source_tokens)} weights (source tokens)"
        raise ValueError(f"attention_svg expects {expected}, got rows of {[len(row) for row in rows][:3]}")
    spans = [] if gold is None else list(gold)
    order = visual_order(source_tokens)
    columns, labels = drawn(source_tokens), [shown(token) for token in target_tokens]

    upright = max(map(width, columns), default=1) <= 2
    head = 24 if upright else 8 * max(map(width, columns)) + 12
    top = head + (24 if title else 0)
    field_width = max((7 * width(span.field) + 12 for span in spans), default=0)
    left = field_width + 8 * max(map(width, labels), default=1) + 12
    grid_width, grid_height = _CELL * len(order), _ROW * len(labels)

    parts = [
        element("title", text(_printable(title) or "attention map")),
        element("rect", class_="am-page", width="100%", height="100%", fill=_PAGE),
    ]
    if title:
        parts.append(element("text", text(_printable(title)), class_="am-ink", x=8, y=18, font_weight="600"))
    for place, k in enumerate(order):
        x, y = left + _CELL * (place + 0.5), top - 8
        turn = (
            {"text_anchor": "middle"}
            if upright
            else {"transform": f"rotate(-90 {x} {y})", "dominant_baseline": "central"}
        )
        parts.append(element("text", text(columns[k]), class_="am-ink", x=x, y=y, **turn))
    for k, label in enumerate(labels):
        parts.append(
            element("text", text(label), class_="am-ink", x=left - 8, y=top + _ROW * k + 15, text_anchor="end")
        )
    for place in range(len(order) + 1):
        parts.append(_rule(left + _CELL * place, top, left + _CELL * place, top + grid_height))
    for k in range(len(labels) + 1):
        parts.append(_rule(left, top + _ROW * k, left + grid_width, top + _ROW * k))
    for k, row in enumerate(rows):
        for place, j in enumerate(order):
            if row[j] >= 0.00005:  # less is drawn as nothing and rounds to 0.0000
                tip = element("title", text(f"{labels[k]} ← {shown(source_tokens[j])}: {row[j]:.4f}"))
                x, y = left + _CELL * place, top + _ROW * k
                box = {"x": x + 0.5, "y": y + 0.5, "width": _CELL - 1, "height": _ROW - 1}
                parts.append(element("rect", tip, class_="am-heat", **box, fill=_HEAT, fill_opacity=min(1.0, row[j])))
    for span in spans:
        parts += _outline(span, source_tokens, target_tokens, order, left, top)
    parts += _key(left, top + grid_height + 8)

    total_width, total_height = left + max(grid_width, 150) + 10, top + grid_height + 30
    return element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="attention-map",
        role="img",
        width=total_width,
        height=total_height,
        viewBox=f"0 0 {total_width} {total_height}",
        font_family=_MONO,
        font_size=_FONT,
        fill=_INK,
    )


def gold_cells(
    span: SpanLike, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> tuple[list[int], list[int]]:
    """The rows and columns of a map that a gold span covers (indices of target and source tokens)."""
    return token_places(target_tokens, *span.target), token_places(source_tokens, *span.source)


def _outline(
    span: SpanLike, source: Sequence[str], target: Sequence[str], order: list[int], left: float, top: float
) -> list[str]:
    rows, columns = gold_cells(span, source, target)
    if not rows:
        return []
    parts = []
    places = [place for place, k in enumerate(order) if k in columns]
    for first, last in _stretches(rows):
        y, height = top + _ROW * first, _ROW * (last - first + 1)
        parts.append(
            element(
                "text", text(_printable(span.field)), class_="am-muted", x=6, y=y + 15, font_size=12, fill="#59626d"
            )
        )
        for start, end in _stretches(places):
            box = {"x": left + _CELL * start, "y": y, "width": _CELL * (end - start + 1), "height": height}
            parts.append(element("rect", class_="am-gold", **box, rx=2, fill="none", stroke=_INK, stroke_width=2))
    return parts


def _stretches(places: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of every run of neighbours in a sorted sequence."""
    found: list[tuple[int, int]] = []
    for place in places:
        if found and place == found[-1][1] + 1:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return found


def _key(left: float, y: float) -> list[str]:
    parts = [element("text", "0", class_="am-ink", x=left, y=y + 12, font_size=12)]
    for k in range(6):
        box = {"x": left + 14 + 18 * k, "y": y + 1, "width": 18, "height": 13}
        parts.append(element("rect", class_="am-heat", **box, fill=_HEAT, fill_opacity=k / 5))
    parts.append(
        element("rect", class_="am-rule", x=left + 14, y=y + 1, width=108, height=13, fill="none", stroke=_RULE)
    )
    parts.append(element("text", "1", class_="am-ink", x=left + 128, y=y + 12, font_size=12))
    return parts


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return element("line", class_="am-rule", x1=x1, y1=y1, x2=x2, y2=y2, stroke=_RULE)


def _printable(line: str) -> str:
    """Without the control characters that XML forbids."""
    return "".join(char if char.isprintable() or char == " " else "▫" for char in line)
