"""CLDR patterns of dates and times, stored as pieces with the text for each of their values.

Such a pattern renders fast, knows which characters belong to which field, and can parse its own texts exactly.
"""

import difflib
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import chain, product
from typing import Any

from babel import Locale, UnknownLocaleError
from babel.dates import parse_pattern, tokenize_pattern
from babel.localedata import locale_identifiers

from selfattn.data.languages import read_language
from selfattn.data.pairs import Span, without_marks
from selfattn.errors import UserError

YEARS = range(1900, 2100)
# POSIX (strptime %y): 69-99 are 1969-1999, 00-68 are 2000-2068. Each two-digit year then has one reading.
TWO_DIGIT_YEARS = range(1969, 2069)

ISO = "y-MM-dd"
# Formats that English uses and CLDR does not list.
ENGLISH_DAY_FIRST = {"day first": "d MMMM y", "day first weekday": "EEEE, d MMMM y"}
ENGLISH_ORDINAL = {
    "ordinal": ("MMMM d, y", "d 'of' MMMM y"),
    "ordinal weekday": ("EEEE, MMMM d, y", "EEEE, d 'of' MMMM y"),
}
_ISO_RANGES = {"year": (0, 4), "month": (5, 7), "day": (8, 10)}

_START = datetime(2001, 1, 1)  # a Monday
_DAYS = [_START + timedelta(days=day) for day in range(31)]
_HOURS = [_START.replace(hour=hour) for hour in range(24)]
_SIXTY = [_START.replace(minute=number, second=number) for number in range(60)]

# CLDR's letters: their fields, the first value, and a moment with each value. An hour up to 24 also gives the half of
# the day. Eras are a fixed text, as all dates are of the common era.
_LETTERS: dict[str, tuple[tuple[str, ...], int, list[datetime]]] = (
    {"G": ((), 0, [_START]), "d": (("day",), 1, _DAYS), "a": (("period",), 0, _HOURS)}
    | dict.fromkeys("ML", (("month",), 1, [_START.replace(month=month) for month in range(1, 13)]))
    | dict.fromkeys("Ec", (("weekday",), 0, _DAYS[:7]))
    | dict.fromkeys("Hk", (("hour", "period"), 0, _HOURS))
    | dict.fromkeys("hK", (("hour",), 0, _HOURS))
    | {"m": (("minute",), 0, _SIXTY), "s": (("second",), 0, _SIXTY)}
)


@dataclass(frozen=True)
class PatternPiece:
    """A piece of a pattern: a field with the text for each of its values, or fixed text (no fields).

    Args:
        fields: of the piece, such as ``("year",)``, or ``("hour", "period")`` for an hour up to 24.
        texts: the text for each value of the first field.
        first: the value of ``texts[0]``; default 0.
        lenient: accept numbers with other leading zeros (see `DatePattern.read`); default False.
    """

    fields: tuple[str, ...]
    texts: tuple[str, ...]
    first: int = 0
    lenient: bool = False

    @property
    def field(self) -> str:
        """The first field; ``""`` for fixed text."""
        return self.fields[0] if self.fields else ""

    @cached_property
    def readings(self) -> dict[str, set[int]]:
        """The values of each text."""
        values: dict[str, set[int]] = {}
        for value, text in enumerate(self.texts, self.first):
            values.setdefault(text, set()).add(value)
        if self.lenient and all(text.isascii() and text.isdecimal() for text in self.texts):
            if self.field == "year":
                values = {f"{year % 100:02}": {year} for year in TWO_DIGIT_YEARS}
                values |= {str(year): {year} for year in YEARS}
            elif self.field:
                for (value,) in list(values.values()):
                    values |= {str(value): {value}, f"{value:02}": {value}}
        return values


def compile_pieces(pattern: str, locale: Locale) -> tuple[PatternPiece, ...] | None:
    """Cut a CLDR pattern into pieces; Babel renders their texts. Marks of direction are left out.

    Args:
        pattern: of the fields y, M or L, d, E or c, H, h, K or k, m, s, a, and G (a fixed text in the Gregorian
            calendar).
        locale: gives the names of months, weekdays and so on.

    Returns:
        The pieces, or None if the pattern has other fields. A field ``yy`` has the years of `TWO_DIGIT_YEARS`.

    Example:
        >>> [(piece.field, piece.texts[0]) for piece in compile_pieces("d. MMM y", Locale("de"))]
        [('day', '1'), ('', '. '), ('month', 'Jan.'), ('', ' '), ('year', '1900')]
    """
    pieces = []
    for _, value in tokenize_pattern(pattern):
        if isinstance(value, str):
            pieces.append(PatternPiece((), (without_marks(value),)))
        elif value[0] in _LETTERS or value[0] == "y":
            pieces.append(_field(*value, str(locale)))
        else:
            return None
    return tuple(pieces)


@lru_cache(maxsize=512)
def _field(letter: str, count: int, name: str) -> PatternPiece:
    years = TWO_DIGIT_YEARS if count == 2 else YEARS
    of_years = ("year",), years.start, [_START.replace(year=year) for year in years]
    fields, first, moments = _LETTERS.get(letter, of_years)
    pattern = parse_pattern(letter * count)
    locale = Locale.parse(name)
    texts = tuple(without_marks(pattern.apply(moment, locale)) for moment in moments)
    return PatternPiece(fields, texts, first)


@dataclass(frozen=True)
class DatePattern:
    """A date pattern in one casing, such as ``M/d/yy``, or ``EEEE, MMMM d, y`` in upper case.

    Args:
        pieces: in order; year, month and day occur once each.

    Example:
        >>> from selfattn.data.dates.patterns import date_patterns
        >>> short = date_patterns("en_US")["short"][0]
        >>> short.render(date(2008, 1, 3))[0]
        '1/3/08'
        >>> short.read("01/03/2008")
        {datetime.date(2008, 1, 3)}
    """

    pieces: tuple[PatternPiece, ...]

    @cached_property
    def years(self) -> range:
        """The years that the pattern can write: fewer where years have two digits."""
        (year,) = (piece for piece in self.pieces if piece.field == "year")
        return range(year.first, year.first + len(year.texts))

    def render(self, day: date, front: str = "") -> tuple[str, tuple[Span, ...]]:
        """Write a day, with the spans of its year, month and day in the text and in the ISO date.

        Args:
            day: a date whose year is in `years`.
            front: text in front of it; default none.

        Returns:
            The text, and the spans of year, month and day in this order.
        """
        values = {"year": day.year, "month": day.month, "day": day.day, "weekday": day.weekday(), "": 0}
        text = front
        spans = {}
        for piece in self.pieces:
            start = len(text)
            text += piece.texts[values[piece.field] - piece.first]
            if piece.field in _ISO_RANGES:
                spans[piece.field] = Span(piece.field, (start, len(text)), _ISO_RANGES[piece.field])
        return text, (spans["year"], spans["month"], spans["day"])

    def read(self, text: str) -> set[date]:
        """Return every day that a text stands for in this pattern: none, one, or (in theory) more.

        A month or day may have a leading zero, a year four digits or two (POSIX pivot). Only ISO is read strictly. A
        weekday must be that of the day.
        """
        days = set()
        for values in self._splits(text, 0):
            try:
                day = date(values["year"], values["month"], values["day"])
            except ValueError:  # such as 30 February
                continue
            if values.get("weekday", day.weekday()) == day.weekday():
                days.add(day)
        return days

    def _splits(self, text: str, number: int) -> list[dict[str, int]]:
        """Return the values of the fields for each way to cut a text into the pieces from `number` on."""
        if number == len(self.pieces):
            return [] if text else [{}]
        piece = self.pieces[number]
        splits = []
        for written, values in piece.readings.items():
            if text.startswith(written):
                for rest in self._splits(text.removeprefix(written), number + 1):
                    splits += [rest | {piece.field: value} for value in values]
        return splits

    def shapes(self) -> set[str]:
        """Return the `shape` of every text that the pattern can read, and of some that are no date."""
        of_pieces = [set(map(shape, piece.readings)) for piece in self.pieces]
        return set(map("".join, product(*of_pieces)))

    def with_field(self, field: str, **changes: Any) -> "DatePattern":
        """Change the piece of a field, such as its ``texts``."""
        return DatePattern(tuple(replace(p, **changes) if p.field == field else p for p in self.pieces))

    def cased(self, case: str, language: str) -> "DatePattern | None":
        """Return the pattern in upper or lower case; None if nothing changes or a text changes its length.

        ('ß' becomes 'SS', and Greek 'ΐ' becomes three characters, which would move the spans.)

        Args:
            case: ``"upper"`` or ``"lower"``.
            language: ISO 639 code; Turkish and Azerbaijani have a dotted and a dotless i.
        """
        for character in set[str]().union(*chain.from_iterable(piece.texts for piece in self.pieces)):
            if len(recase(character, case, language)) != 1:
                return None
        cased = []
        for piece in self.pieces:
            texts = tuple(recase(text, case, language) for text in piece.texts)
            cased.append(replace(piece, texts=texts))
        return None if tuple(cased) == self.pieces else DatePattern(tuple(cased))


def recase(text: str, case: str, language: str) -> str:
    """Write a text in upper or lower case by the rules of Unicode, with the Turkic i for ``tr`` and ``az``.

    Example:
        >>> recase("Pazartesi", "upper", "tr"), recase("Monday", "upper", "en")
        ('PAZARTESİ', 'MONDAY')
    """
    turkic = language in ("tr", "az")
    if case == "upper":
        return (text.replace("i", "İ") if turkic else text).upper()
    return (text.replace("I", "ı").replace("İ", "i") if turkic else text).lower()


def shape(text: str) -> str:
    """Replace each decimal digit by 0: equal texts have equal shapes.

    Example:
        >>> shape("Nov 13, 2008")
        'Nov 00, 0000'
    """
    return re.sub(r"\d", "0", text)


def find_locale(name: str) -> Locale:
    """Return the CLDR locale of a name, such as ``ko_KR``, ``ko-KR``, ``kor_Hang`` or ``Korean``.

    Raises:
        UserError: no such locale; the message names the closest ones.

    Example:
        >>> str(find_locale("zh-CN"))
        'zh_Hans_CN'
    """
    with suppress(UnknownLocaleError, ValueError):
        return Locale.parse(name.replace("-", "_"))
    try:
        return Locale.parse(read_language(name).locale)
    except (UnknownLocaleError, ValueError):  # a SettingError is a ValueError
        close = difflib.get_close_matches(name.replace("-", "_"), locale_identifiers(), n=3)
        raise UserError(f"unknown locale {name!r}: try {', '.join(close or ['en_US', 'ko_KR', 'fr_FR'])}") from None


@lru_cache(maxsize=64)
def date_patterns(name: str) -> dict[str, tuple[DatePattern, ...]]:
    """Return the date formats of a locale: for each name the patterns to draw from, all equally likely.

    The formats are the four CLDR lengths, the medium length with its weekday (CLDR's skeleton ``yMMMEd``), and ISO.
    English also has the day first and ordinals, each with and without weekday. ("full" without its weekday is CLDR's
    "long".) Duplicate formats appear once, under the first name: where short and medium are equal, there is only a
    "medium".

    Half of the patterns of a format with letters are in its own casing, the others in upper and in lower case.
    Casings that change nothing, or change the length of the text, are left out.

    Args:
        name: a CLDR locale.

    Raises:
        UserError: unknown locale, or a date pattern with other fields than year, month, day and weekday.

    Example:
        >>> from datetime import date
        >>> for name, patterns in date_patterns("en_US").items():
        ...     print(f"{name}: {patterns[0].render(date(2008, 11, 13))[0]}")
        full: Thursday, November 13, 2008
        long: November 13, 2008
        medium: Nov 13, 2008
        medium weekday: Thu, Nov 13, 2008
        short: 11/13/08
        iso: 2008-11-13
        day first: 13 November 2008
        day first weekday: Thursday, 13 November 2008
        ordinal: November 13th, 2008
        ordinal weekday: Thursday, November 13th, 2008
    """
    locale = find_locale(name)
    texts = {length: locale.date_formats[length].pattern for length in ("full", "long", "medium")}
    if "yMMMEd" in locale.datetime_skeletons:
        texts["medium weekday"] = locale.datetime_skeletons["yMMMEd"].pattern
    texts |= {"short": locale.date_formats["short"].pattern, "iso": ISO}
    if locale.language == "en":
        texts |= ENGLISH_DAY_FIRST
    by_name = {name: [parse(text, locale)] for name, text in texts.items()}
    if locale.language == "en":
        for format_name, ordinals in ENGLISH_ORDINAL.items():
            by_name[format_name] = [with_ordinals(parse(text, locale)) for text in ordinals]
    formats: dict[str, tuple[DatePattern, ...]] = {}
    seen: set[DatePattern] = set()
    for format_name, patterns in by_name.items():
        new = [pattern for pattern in patterns if pattern not in seen]
        seen.update(new)
        if new:
            formats[format_name] = tuple(chain.from_iterable(casings(plain, locale.language) for plain in new))
    return formats


def casings(plain: DatePattern, language: str) -> list[DatePattern]:
    """Return a pattern in all its casings; its own casing is repeated so that it makes up half."""
    changed = [cased for case in ("upper", "lower") if (cased := plain.cased(case, language))]
    return [plain] * max(1, len(changed)) + changed


def parse(pattern: str, locale: Locale) -> DatePattern:
    """Convert a CLDR pattern to a `DatePattern`; Babel renders its texts.

    Args:
        pattern: CLDR pattern of the fields y, M or L, d, E or c, and G (a fixed text in the Gregorian calendar).
        locale: gives the names of months, weekdays and eras.

    Raises:
        UserError: the pattern has other fields, or does not have year, month and day exactly once.
    """
    pieces = compile_pieces(pattern, locale) or ()
    if sorted(piece.field for piece in pieces if piece.field not in ("", "weekday")) != ["day", "month", "year"]:
        raise UserError(f"locale {locale}: its date pattern {pattern!r} is not made of year, month and day")
    return DatePattern(tuple(replace(p, lenient=pattern != ISO) if p.fields else p for p in pieces))


def with_ordinals(pattern: DatePattern) -> DatePattern:
    """Write the day of an English pattern as an ordinal: 13th for 13."""
    endings = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
    return pattern.with_field("day", texts=tuple(f"{day}{endings.get(day, 'th')}" for day in range(1, 32)))
