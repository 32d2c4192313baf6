"""One CLDR pattern of dates or times, compiled so that it writes any moment fast and as segments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property, lru_cache
from typing import NamedTuple

from babel import Locale
from babel.dates import parse_pattern, tokenize_pattern

from selfattn.data.dates.patterns import YEARS
from selfattn.data.phrases.text import Segment, Segments, tidy

_START = datetime(2001, 1, 1)  # a Monday
_DAYS = [_START + timedelta(days=day) for day in range(31)]
_YEARS = [_START.replace(year=year) for year in YEARS]
_MONTHS = [_START.replace(month=month) for month in range(1, 13)]
_HOURS = [_START.replace(hour=hour) for hour in range(24)]
_SIXTY = [_START.replace(minute=number, second=number) for number in range(60)]

# CLDR's letters: the place in a moment, the names of what is told, the first value, and a sample of each value.
# A number of an hour up to 24 tells the half of the day too.
_LETTERS = (
    {"y": (0, ("year",), YEARS.start, _YEARS), "d": (2, ("day",), 1, _DAYS), "a": (4, ("period",), 0, _HOURS)}
    | dict.fromkeys("ML", (1, ("month",), 1, _MONTHS))
    | dict.fromkeys("Ec", (3, ("weekday",), 0, _DAYS[:7]))
    | dict.fromkeys("Hk", (4, ("hour", "period"), 0, _HOURS))
    | dict.fromkeys("hK", (4, ("hour",), 0, _HOURS))
    | {"m": (5, ("minute",), 0, _SIXTY), "s": (6, ("second",), 0, _SIXTY)}
)


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


class Piece(NamedTuple):
    """A piece of a pattern: the text for each value of one place of a moment, or fixed text (no fields)."""

    place: int
    fields: tuple[str, ...]
    texts: tuple[str, ...]


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
            Segment(texts[moment[place]], fields, int(fields[0] in second)) if fields else Segment(texts[0])
            for place, fields, texts in self.pieces
        ]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The fields in their order, one for each piece that is not fixed."""
        return tuple(piece.fields[0] for piece in self.pieces if piece.fields)

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
            else f"<{piece.fields[0]}>"
            if not piece.texts[-1].isdecimal()
            else "0000"
            if piece.fields == ("year",)
            else "0"
            for piece in self.pieces
        )


def compile_pattern(pattern: str, locale: Locale) -> Writer | None:
    """Compile a CLDR pattern; None where it has fields that are not known here, or a year of two digits.

    Args:
        pattern: of the fields y, M or L, d, E or c, H, h, K or k, m, s, a, and G (here a fixed text).
        locale: whose names are used, as Babel writes them.
    """
    pieces = []
    for _, value in tokenize_pattern(pattern):
        if isinstance(value, str):
            pieces.append(Piece(0, (), (tidy(value),)))
        elif value[0] == "G":
            pieces.append(Piece(0, (), (_texts("G", value[1], str(locale))[0],)))
        elif value[0] in _LETTERS and value != ("y", 2):
            place, fields, first, _samples = _LETTERS[value[0]]
            pieces.append(Piece(place, fields, ("",) * first + _texts(*value, str(locale))))
        else:
            return None
    return Writer(tuple(pieces))


@lru_cache(maxsize=256)
def _texts(letter: str, count: int, name: str) -> tuple[str, ...]:
    pattern, locale = parse_pattern(letter * count), Locale.parse(name)
    samples = [_START] if letter == "G" else _LETTERS[letter][3]
    return tuple(tidy(pattern.apply(moment, locale)) for moment in samples)
