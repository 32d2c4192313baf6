"""One CLDR pattern of dates or times, compiled so that it writes any moment fast and as segments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import NamedTuple

from babel import Locale

from selfattn.data.dates.patterns import TWO_DIGIT_YEARS, YEARS, Piece, compile_pieces
from selfattn.data.phrases.text import Segment, Segments, tidy


class Moment(NamedTuple):
    """A day and a time of day; what a pattern does not write is not looked at."""

    year: int = YEARS.start
    month: int = 1
    day: int = 1
    weekday: int = 0
    hour: int = 0
    minute: int = 0
    second: int = 0

    @classmethod
    def on(cls, day: date) -> Moment:
        """Return the beginning of a day.

        Example:
            >>> Moment.on(date(2008, 11, 13)).weekday
            3
        """
        return cls(day.year, day.month, day.day, day.weekday())


@dataclass(frozen=True)
class Writer:
    """One pattern in one language.

    Args:
        pieces: in their order.

    Example:
        >>> from selfattn.data.phrases.text import text_of
        >>> writer = compile_pattern("d MMM y, h:mm a", Locale("en"))
        >>> text_of(writer.write(Moment(2008, 11, 13, hour=15)))
        '13 Nov 2008, 3:00 PM'
    """

    pieces: tuple[Piece, ...]

    def write(self, moment: Moment, second: frozenset[str] = frozenset()) -> Segments:
        """Write a moment, the fields named `second` in slot 1, others in slot 0."""
        return [
            Segment(texts[moment[place] - first], fields, int(fields[0] in second)) if fields else Segment(texts[0])
            for place, first, fields, texts in self._places
        ]

    @cached_property
    def _places(self) -> list[tuple[int, int, tuple[str, ...], tuple[str, ...]]]:
        """Of each piece the place in a moment and the first value there, its fields and its texts."""
        places = {name: place for place, name in enumerate(Moment._fields)} | {"period": 4, "": 0}
        return [(places[piece.field], piece.first, piece.fields, piece.texts) for piece in self.pieces]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The fields in their order, one for each piece that is not fixed."""
        return tuple(piece.field for piece in self.pieces if piece.fields)

    @cached_property
    def told(self) -> frozenset[str]:
        """All that the pattern tells."""
        return frozenset(field for piece in self.pieces for field in piece.fields)

    @cached_property
    def signature(self) -> str:
        """What all its texts have in common; two patterns that ever write the same text have the same one.

        Example:
            >>> compile_pattern("d. MMM y", Locale("de")).signature
            '0. <month> 0000'
        """
        return "".join(
            piece.texts[0]
            if not piece.fields
            else f"<{piece.field}>"
            if not piece.texts[-1].isdecimal()
            else "0000"
            if piece.field == "year"
            else "0"
            for piece in self.pieces
        )


def compile_pattern(pattern: str, locale: Locale) -> Writer | None:
    """Compile a CLDR pattern; None where it has fields that are not known here, or a year of two digits.

    Args:
        pattern: see `selfattn.data.dates.patterns.compile_pieces`.
        locale: whose names are used, as Babel writes them.
    """
    pieces = compile_pieces(pattern, locale)
    if pieces is None or any(piece.field == "year" and piece.first == TWO_DIGIT_YEARS.start for piece in pieces):
        return None
    return Writer(tuple(replace(piece, texts=tuple(map(tidy, piece.texts))) for piece in pieces))
