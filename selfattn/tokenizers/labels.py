"""How tokens are named where people read them."""

from __future__ import annotations

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""Names of the ids 0 to 3, the same in every tokenizer."""


def printable(text: str) -> str:
    """Write a text so that every character of it is seen: a space as ``␣``, what cannot be seen by its code.

    Example:
        >>> printable(" a\\u200f")
        '␣a<U+200F>'
    """
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character == " ":
        return "␣"
    return character if character.isprintable() else f"<U+{ord(character):04X}>"
