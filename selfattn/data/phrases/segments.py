"""Runs of characters that say what they stand for, and the pairs with gold alignment that two of them make."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from selfattn.data.pairs import Pair, Span

_SPACES = str.maketrans(dict.fromkeys("\u00a0\u202f\u2009\u3000", " "))
_NUMBER = re.compile(r"\d(?:.*\d)?")


class Segment(NamedTuple):
    """A run of characters.

    Attributes:
        text: the characters.
        fields: names of what the text stands for; empty for connecting text.
        slot: separates fields of the same name, such as the numbers of two amounts.
    """

    text: str
    fields: tuple[str, ...] = ()
    slot: int = 0


Segments = list[Segment]
Pattern = tuple[str | int, ...]
Range = tuple[int, int]


def tidy(text: str) -> str:
    """Return the text in NFC, with plain spaces for CLDR's no-break and thin spaces.

    Example:
        >>> tidy("3:05\\u202fPM")
        '3:05 PM'
    """
    return unicodedata.normalize("NFC", text).translate(_SPACES)


def cut(pattern: str) -> Pattern:
    """Cut a CLDR pattern at its placeholders.

    Example:
        >>> cut("{1} at {0}")
        (1, ' at ', 0)
    """
    parts = re.split(r"\{(\d)\}", tidy(pattern))
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts) if part)


def fill_in(pattern: Pattern, parts: Sequence[Segments]) -> Segments:
    """Put segments into the placeholders of a pattern."""
    segments: Segments = []
    for piece in pattern:
        segments += parts[piece] if isinstance(piece, int) else [Segment(piece)]
    return segments


def amount_segments(text: str, field: str) -> Segments:
    """Split a written amount into its number and the words around it.

    Args:
        text: an amount as Babel writes it.
        field: what the words stand for.

    Returns:
        The segments. Text without a number, such as the Arabic "two days", stands for number and field.

    Example:
        >>> [segment[:2] for segment in amount_segments("in 3 days", "unit")]
        [('in', ('unit',)), (' ', ()), ('3', ('number',)), (' ', ()), ('days', ('unit',))]
    """
    number = _NUMBER.search(text := tidy(text))
    if number is None:
        return list(_words(text, ("number", field)))
    before = text[: number.start()]
    after = text[number.end() :]
    return [*_words(before, (field,)), Segment(number[0], ("number",)), *_words(after, (field,))]


def _words(text: str, fields: tuple[str, ...]) -> Iterator[Segment]:
    core = text.strip()
    before, _, after = text.partition(core) if core else (text, "", "")
    for part, names in ((before, ()), (core, fields), (after, ())):
        if part:
            yield Segment(part, names)


def text_of(segments: Segments) -> str:
    """Return the text alone.

    Example:
        >>> text_of([Segment("3", ("number",)), Segment(" "), Segment("days", ("unit",))])
        '3 days'
    """
    return "".join([segment.text for segment in segments])


def aligned_pair(source: Segments, target: Segments, tag: str) -> Pair:
    """Join both sides into a pair, with a span wherever the two sides share a field in the same slot.

    A field in two pieces on one side (``in 3 days``) has a span for each piece.

    Example:
        >>> pair = aligned_pair([Segment("3", ("number",)), Segment(" days", ("unit",))],
        ...                [Segment("3", ("number",)), Segment("일", ("unit",))], "unit")
        >>> pair.target, [(span.field, span.source, span.target) for span in pair.spans]
        ('3일', [('number', (0, 1), (0, 1)), ('unit', (1, 6), (1, 2))])
    """
    targets = list(_places(target))
    spans: dict[tuple[Range, Range], Span] = {}
    for field, here in _places(source):
        for target_field, there in targets:
            if field == target_field:  # of several fields in one place, the first names it, and the last orders it
                spans[here, there] = spans.pop((here, there), Span(field[0], here, there))
    return Pair(text_of(source), text_of(target), tag, tuple(spans.values()))


def _places(segments: Segments) -> Iterator[tuple[tuple[str, int], Range]]:
    """Yield every field with its slot, and its range of characters."""
    end = 0
    for text, fields, slot in segments:
        start = end
        end = end + len(text)
        for field in fields:
            yield (field, slot), (start, end)
