"""The card of a tokenizer as text of 80 columns."""

from __future__ import annotations

import unicodedata

from selfattn.report.drawing.numbers import share_text
from selfattn.report.drawing.tokens import wrapped
from selfattn.tokenizers.card import Card
from selfattn.tokenizers.protocol import printable

COLUMNS = 80
_LABEL = 22
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
