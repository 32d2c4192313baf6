"""Text that knows where its pieces stand, drawn by chance: what the CLDR corpus is put together from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from babel import Locale

from selfattn.data.pairs import Pair, Span

_Item = TypeVar("_Item")

_SPACES = str.maketrans(dict.fromkeys("\u00a0\u202f\u2009\u3000", " "))


class Segment(NamedTuple):
    """A run of characters.

    Args:
        text: the characters.
        fields: the names of what the text stands for; none for text that only joins.
        slot: tells fields of the same name apart, such as the numbers of two amounts.
    """

    text: str
    fields: tuple[str, ...] = ()
    slot: int = 0


Locales = tuple[Locale, Locale]
Segments = list[Segment]
Pattern = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """A phrase before it is written down.

    Args:
        write: gives its segments in the source language (0) or in the target language (1).
        closed: the phrase cannot be made out from others, so it must be trained on; default False.
    """

    write: Callable[[int], Segments]
    closed: bool = False


class Chance:
    """A supply of chance: a large random number from which choices are taken, as digits of a mixed base.

    Example:
        >>> chance = Chance(2 * 7 + 3)
        >>> chance.below(7), chance.pick("abc")
        (3, 'c')
    """

    __slots__ = ("_bits",)

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def below(self, count: int) -> int:
        """Return a number from 0 to ``count - 1``."""
        self._bits, value = divmod(self._bits, count)
        return value

    def pick(self, items: Sequence[_Item]) -> _Item:
        """Return one of the items."""
        return items[self.below(len(items))]

    def several(self, items: Sequence[_Item], count: int) -> list[_Item]:
        """Return `count` different items in any order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(count)]


def tables(locale: Locale) -> Any:
    """Return the tables of a locale, of which Babel makes some public by functions only."""
    anything: Any = locale
    return anything._data


def tidy(text: str) -> str:
    """Return the text in NFC, and with the one space that keyboards have for CLDR's no-break and thin ones.

    Example:
        >>> tidy("3:05\\u202fPM\\u2009–\\u20094:10\\u202fPM")
        '3:05 PM – 4:10 PM'
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


def fill_in(pattern: Pattern, parts: Sequence[Segments], fields: tuple[str, ...] = ()) -> Segments:
    """Put segments into the places of a pattern; its own words stand for `fields`."""
    found: Segments = []
    for piece in pattern:
        if isinstance(piece, int):
            found += parts[piece]
        else:
            found += words(piece, fields) if fields else (Segment(piece),)
    return found


def words(text: str, fields: tuple[str, ...]) -> Iterator[Segment]:
    """Give text that stands for `fields`, the spaces around it apart."""
    core = text.strip()
    before, _, after = text.partition(core) if core else (text, "", "")
    return (Segment(part, names) for part, names in ((before, ()), (core, fields), (after, ())) if part)


def in_slot(segments: Segments, slot: int) -> Segments:
    """Return the segments with all their fields in a slot of its own."""
    return [Segment(text, fields, slot) for text, fields, _ in segments]


def text_of(segments: Segments) -> str:
    """Return the text alone.

    Example:
        >>> text_of([Segment("3", ("number",)), Segment(" "), Segment("days", ("unit",))])
        '3 days'
    """
    return "".join([segment[0] for segment in segments])


def aligned_pair(source: Segments, target: Segments, tag: str) -> Pair:
    """Write both sides down, with a span for every two places that stand for the same field in the same slot.

    What is in two pieces on one side (``in 3 days``) has a span for each of them.

    Example:
        >>> pair = aligned_pair([Segment("3", ("number",)), Segment(" days", ("unit",))],
        ...                [Segment("3", ("number",)), Segment("일", ("unit",))], "unit")
        >>> pair.target, [(span.field, span.source, span.target) for span in pair.spans]
        ('3일', [('number', (0, 1), (0, 1)), ('unit', (1, 6), (1, 2))])
    """
    places: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for key, place in _places(target):
        places.setdefault(key, []).append(place)
    spans: dict[tuple[tuple[int, int], tuple[int, int]], Span] = {}
    for key, here in _places(source):
        for place in places.get(key, ()):
            spans.setdefault((here, place), Span(key[0], here, place))
    return Pair(text_of(source), text_of(target), tag, tuple(spans.values()))


def _places(segments: Segments) -> Iterator[tuple[tuple[str, int], tuple[int, int]]]:
    """Every field with its slot, and the range of characters that stands for it."""
    end = 0
    for text, fields, slot in segments:
        start, end = end, end + len(text)
        yield from (((field, slot), (start, end)) for field in fields)
