"""The card of a tokenizer as a self-contained SVG picture: its figures, and texts cut into boxes, one for each token.

Text stays text, so that it can be searched and read aloud. Boxes of neighbours differ in shade, and bytes and unknown
tokens in outline, so that colour is never the only sign. Text that runs from right to left is drawn in its order on
the page. The same card gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from selfattn.report.drawing.tokenizer_card import figures
from selfattn.report.drawing.tokens import drawn, shown, visual_order, width, wrapped
from selfattn.report.pages import picture
from selfattn.tokenizers.card import Card, Segmentation

_WIDTH, _MARGIN, _LABEL, _LINE, _COLUMN, _PAD, _ROW = 760, 16, 170, 22, 8, 5, 28  # px


@dataclass(frozen=True)
class _Box:
    """A token: what stands in it, its shade, whether it is a byte or unknown, and what it tells on hover."""

    label: str
    odd: bool
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
    y = _MARGIN + (_LINE if title else 0)
    lines = [(_MARGIN, y - 7, title, False)] if title else []
    for label, value in figures(card):
        lines.append((_MARGIN, y + 15, label, True))
        for line in wrapped(value.split(" "), (_WIDTH - _MARGIN - _LABEL) // _COLUMN):
            lines.append((_LABEL, y + 15, line, False))
            y += _LINE
    boxes: list[tuple[int, int, _Box, str]] = []
    for example in card.examples:
        y += 12
        for row in _rows(example):
            boxes += _placed(row, y)
            y += _ROW
    return picture("tokenizer", title=title, width=_WIDTH, height=y + _MARGIN, lines=lines, boxes=boxes)


def _rows(example: Segmentation) -> list[list[_Box]]:
    """The tokens of a text in rows, in the order of the text."""
    rows: list[list[_Box]] = [[]]
    used = 0
    for number, (piece, (start, end)) in enumerate(zip(example.pieces, example.spans, strict=True)):
        rare = piece == "<unk>" or (piece.startswith("<0x") and end - start <= 1)
        tip = f"{piece}: characters {start} to {end}" if end > start else f"{piece}: no character"
        # A space is one sign wide in every script; <unk> would otherwise become a box of its own.
        box = _Box(piece if rare else shown(piece), number % 2 == 0, rare, tip)
        if rows[-1] and used + box.width > _WIDTH - 2 * _MARGIN:
            rows.append([])
            used = 0
        rows[-1].append(box)
        used += box.width + 2
    return rows if rows[-1] else []


def _placed(row: list[_Box], y: int) -> Iterator[tuple[int, int, _Box, str]]:
    """The boxes of a row from left to right; text that runs from right to left stands in its order on the page."""
    labels = [box.label for box in row]
    joined, x = drawn(labels), _MARGIN
    for place in visual_order(labels):
        yield x, y, row[place], joined[place]
        x += row[place].width + 2
