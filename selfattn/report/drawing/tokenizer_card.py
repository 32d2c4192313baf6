"""The card of a tokenizer as text of 80 columns, and as a self-contained SVG picture.

In both its figures come first, then texts cut into tokens: in the picture into boxes, one for each. Text stays text, so
that it can be searched and read aloud. Boxes of neighbours differ in shade, and bytes and unknown tokens in outline, so
that colour is never the only sign. Text that runs from right to left is drawn in its order on the page. The same card
gives the same bytes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from selfattn.report.drawing.numbers import share_text
from selfattn.report.drawing.tokens import drawn, shown, visual_order, width, wrapped
from selfattn.report.pages import picture
from selfattn.tokenizers.card import Card, Segmentation
from selfattn.tokenizers.protocol import printable

COLUMNS = 80
_LABEL = 22
_WIDTH, _MARGIN, _VALUES, _LINE, _COLUMN, _PAD, _ROW = 760, 16, 170, 22, 8, 5, 28  # px
_OUTSIDE = 8  # characters outside the vocabulary that are named


def card_text(card: Card) -> str:
    """Write the card: figures, then the examples with their tokens, a bar between two of them.

    Example:
        >>> from selfattn.tokenizers.card import card
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> print(card_text(card(CharTokenizer("abc "), ["ab ac", "a?"], examples=["ab a?"])))
        vocabulary            8 tokens
        measured on           2 texts, 3 words, 7 characters
        coverage              85.71 % of the characters
        tokens                7; 3.5 a text, 5 at most
        tokens per word       2.33
        characters per token  1.00
        unknown               14.29 % of the tokens
        bytes                 0.00 % of the tokens
        not in it             ? 1
        <BLANKLINE>
        a|b|␣|a|<unk>
        <BLANKLINE>
    """
    lines = []
    for label, value in figures(card):
        first, *more = wrapped(value.split(" "), COLUMNS - _LABEL)
        lines += [f"{label:{_LABEL}}{first}", *(" " * _LABEL + line for line in more)]
    lines += [""] if card.examples else []
    for example in card.examples:  # a line that goes on has its bar at the end, and the next one is indented
        lines += ["|\n  ".join(wrapped(example.pieces, COLUMNS - 3, "|"))]
    return "\n".join(lines) + "\n"


def figures(card: Card) -> list[tuple[str, str]]:
    """Return the card's figures, each with its name."""
    found = [
        ("vocabulary", f"{card.size:,} tokens"),
        ("measured on", f"{_of(card.texts, 'text')}, {_of(card.words, 'word')}, {_of(card.characters, 'character')}"),
        ("coverage", f"{_share(card.coverage)} of the characters"),
        ("tokens", f"{card.tokens:,}; {card.tokens_per_text:.1f} a text, {card.longest:,} at most"),
        ("tokens per word", f"{card.tokens_per_word:.2f}"),
        ("characters per token", f"{card.characters_per_token:.2f}"),
        ("unknown", f"{_share(card.unknown_rate)} of the tokens"),
        ("bytes", f"{_share(card.byte_rate)} of the tokens"),
    ]
    if card.outside:
        named = [f"{_named(character)} {count:,}" for character, count in card.outside[:_OUTSIDE]]
        others = len(card.outside) - len(named)
        found.append(("not in it", ", ".join([*named, *([f"{others:,} other characters"] if others else [])])))
    return found


def _named(character: str) -> str:
    """A character outside the vocabulary; by its code where it would turn the direction of the line around."""
    if unicodedata.bidirectional(character) in ("R", "AL", "AN") or unicodedata.combining(character):
        return f"<U+{ord(character):04X}>"
    return printable(character)


def _of(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _share(share: float) -> str:
    return share_text(share, 2).replace("\u00a0", " ")


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
        for line in wrapped(value.split(" "), (_WIDTH - _MARGIN - _VALUES) // _COLUMN):
            lines.append((_VALUES, y + 15, line, False))
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
