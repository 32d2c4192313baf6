"""The card of a tokenizer as a self-contained SVG picture: its figures, and texts cut into boxes, one for each token.

Text stays text, so that it can be searched and read aloud. Boxes of neighbours differ in shade, and bytes and unknown
tokens in outline, so that colour is never the only sign. Text that runs from right to left is drawn in its order on
the page. The same card gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from selfattn.report.drawing.svg import element, text
from selfattn.report.drawing.tokenizer_card import figures
from selfattn.report.drawing.tokens import drawn, shown, visual_order, width, wrapped
from selfattn.tokenizers.card import Card, Segmentation

_WIDTH, _MARGIN, _LABEL, _LINE, _FONT, _COLUMN, _PAD = 760, 16, 170, 22, 13, 8, 5
_BOX, _ROW = 22, 28
_MONO = "ui-monospace, 'D2Coding', 'Noto Sans Mono CJK KR', 'DejaVu Sans Mono', Menlo, Consolas, monospace"

# Presentation attributes are the light colours; the style sheet, where it is read, replaces them in the dark.
_LIGHT = {"page": "#ffffff", "ink": "#16191d", "muted": "#59626d", "odd": "#d6e8f3", "even": "#f1e4c8"}
_RARE = "#a84300"
_STYLE = (
    "@media (prefers-color-scheme: dark) {"
    ".tk-page{fill:#16191d}.tk-ink{fill:#e8eaed}.tk-muted{fill:#a9b1bb}"
    ".tk-odd{fill:#17435c}.tk-even{fill:#4d3c14}.tk-rare{stroke:#ff9d5c}}"
)


@dataclass(frozen=True)
class _Box:
    label: str
    shade: str
    rare: bool
    tip: str

    @property
    def width(self) -> int:
        return _COLUMN * width(self.label) + 2 * _PAD


def card_svg(card: Card, title: str = "") -> str:
    """Draw the card.

    Args:
        card: of a tokenizer.
        title: a line above it; default none.

    Returns:
        An ``<svg>`` element that can stand in a page or be a file of its own.

    Example:
        >>> from selfattn.tokenizers.card import card
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> picture = card_svg(card(CharTokenizer("ab"), ["ab"], examples=["ab"]))
        >>> picture.startswith("<svg"), "<title>a: characters 0 to 1</title>" in picture
        (True, True)
    """
    parts: list[str] = []
    y = _MARGIN
    if title:
        y += _LINE
        parts.append(_text(title, _MARGIN, y - 7, "ink", font_weight="600"))
    for label, value in figures(card):
        parts.append(_text(label, _MARGIN, y + 15, "muted"))
        for line in wrapped(value.split(" "), (_WIDTH - _MARGIN - _LABEL) // _COLUMN):
            parts.append(_text(line, _LABEL, y + 15, "ink"))
            y += _LINE
    for example in card.examples:
        y += 12
        for row in _rows(_boxes(example)):
            parts += _drawn_row(row, y)
            y += _ROW
    y += _MARGIN
    return element(
        "svg",
        element("title", text(_plain(title) or "tokenizer card")),
        element("style", _STYLE),
        element("rect", class_="tk-page", width="100%", height="100%", fill=_LIGHT["page"]),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="tokenizer-card",
        role="img",
        width=_WIDTH,
        height=y,
        viewBox=f"0 0 {_WIDTH} {y}",
        font_family=_MONO,
        font_size=_FONT,
    )


def _boxes(example: Segmentation) -> list[_Box]:
    boxes = []
    for number, (piece, (start, end)) in enumerate(zip(example.pieces, example.spans, strict=True)):
        rare = piece == "<unk>" or (piece.startswith("<0x") and end - start <= 1)
        tip = f"{piece}: characters {start} to {end}" if end > start else f"{piece}: no character"
        # A space is one sign wide in every script; <unk> would otherwise become a box of its own.
        boxes.append(_Box(piece if rare else shown(piece), ("odd", "even")[number % 2], rare, tip))
    return boxes


def _rows(boxes: Sequence[_Box]) -> Iterator[list[_Box]]:
    """Fill rows with boxes in the order of the text."""
    row: list[_Box] = []
    used = 0
    for box in boxes:
        if row and used + box.width > _WIDTH - 2 * _MARGIN:
            yield row
            row, used = [], 0
        row.append(box)
        used += box.width + 2
    if row:
        yield row


def _drawn_row(row: Sequence[_Box], y: float) -> Iterator[str]:
    """Draw a row; text that runs from right to left stands in its order on the page."""
    labels = drawn([box.label for box in row])
    x = float(_MARGIN)
    for place in visual_order([box.label for box in row]):
        box = row[place]
        outline: dict[str, str | float] = {}
        if box.rare:
            outline = {"stroke": _RARE, "stroke_width": 1.5, "stroke_dasharray": "3 2"}
        yield element(
            "g",
            element("title", text(_plain(box.tip))),
            element(
                "rect",
                class_=f"tk-{box.shade}" + (" tk-rare" if box.rare else ""),
                x=x,
                y=y,
                width=box.width,
                height=_BOX,
                rx=4,
                fill=_LIGHT[box.shade],
                **outline,
            ),
            _text(labels[place], x + box.width / 2, y + 15, "ink", text_anchor="middle"),
        )
        x += box.width + 2


def _text(content: str, x: float, y: float, colour: str, **attributes: str) -> str:
    return element("text", text(_plain(content)), class_=f"tk-{colour}", x=x, y=y, fill=_LIGHT[colour], **attributes)


def _plain(line: str) -> str:
    """Without the characters that XML forbids."""
    return "".join(char if char.isprintable() or char in " \u200d" else "▫" for char in line)
