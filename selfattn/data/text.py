"""How a text is cleaned: the same for training, for validation and test, and for every use of a trained model."""

import re
import unicodedata
from collections.abc import Container, Iterable

from selfattn.data.pairs import Pair

# Line ends, tabs and separators become spaces; other control characters and byte order marks are removed.
_BREAKS = re.compile("[\t-\r\x1c-\x1f\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")


def clean_text(text: str) -> str:
    r"""Clean a source or a target.

    Line ends, tabs and separators become spaces. Other control characters and byte order marks are removed. The text
    gets Unicode's form NFC, and loses the spaces at its ends, no-break spaces among them. Everything else stays: spaces
    inside, no-break spaces, joiners, zero-width spaces and marks of direction. (NFKC would change visible characters,
    such as ``½``.) To clean a clean text changes nothing. ``cleanText`` in ``demo/templates/engine.js`` does the same.

    Example:
        >>> clean_text(" 한\x00국\t어 ")
        '한국 어'
    """
    if not text.isprintable():
        text = _CONTROLS.sub("", _BREAKS.sub(" ", text))
    return unicodedata.normalize("NFC", text).strip()


_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # of direction: nobody sees them
_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")


def plain_text(text: str, known: Container[str]) -> str:
    r"""Write characters that a vocabulary lacks in their plain form, where this changes no meaning.

    A decimal digit of another script becomes the digit 0 to 9, a no-break, thin or wide space a space, and a mark of
    direction is left out. Without this they would be unknown to the model. Characters of the vocabulary stay.
    ``plainText`` in ``demo/templates/engine.js`` does the same.

    Args:
        text: a clean text.
        known: the characters of the vocabulary.

    Example:
        >>> plain_text("١٣‏/١١", known="0123456789/"), plain_text("١", known="١")
        ('13/11', '١')
    """
    if text.isascii():
        return text
    return "".join(character if character in known else _plain(character) for character in text).strip()


def plain_words(text: str, known: Container[str]) -> str:
    r"""Write words that a vocabulary lacks in their plain form, as `plain_text` does; several spaces become one.

    ``plainWords`` in ``demo/templates/engine.js`` does the same.

    Args:
        text: a clean text.
        known: the words of the vocabulary.

    Example:
        >>> plain_words("turn\u00a0left  twice", known={"turn", "left", "twice"})
        'turn left twice'
    """
    words: list[str] = []
    for word in text.split(" "):
        words += [word] if word in known else plain_text(word, ()).split(" ")
    return " ".join(word for word in words if word or "" in known).strip()


def _plain(character: str) -> str:
    if _MARKS.match(character):
        return ""
    if _SPACES.match(character):
        return " "
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


def without_marks(text: str) -> str:
    r"""Leave out marks of direction, which some keyboards write and others do not.

    Example:
        >>> without_marks("13‏/11")
        '13/11'
    """
    return _MARKS.sub("", text)


def compose(text: str) -> str:
    r"""Put a text into Unicode's form NFC, which is all that texts of a language model need.

    Spaces at the ends, tabs and other characters stay: a text may begin with an indentation, a prompt end with a space.

    Example:
        >>> compose(" cafe\u0301 ")
        ' café '
    """
    return unicodedata.normalize("NFC", text)


def clean_pair(pair: Pair) -> Pair:
    """Clean both sides of a pair. A clean pair is returned as it is; another loses its spans, which no longer fit.

    Example:
        >>> clean_pair(Pair(" May 1", "05-01\\n", "short"))
        Pair(source='May 1', target='05-01', tag='short', spans=())
    """
    source = clean_text(pair.source)
    target = clean_text(pair.target)
    if (source, target) == (pair.source, pair.target):
        return pair
    return Pair(source, target, pair.tag)


def unclean(pairs: Iterable[Pair]) -> Pair | None:
    """Return the first pair that cleaning would change; None where there is none."""
    return next((pair for pair in pairs if clean_pair(pair) is not pair), None)
