"""An endless, deterministic source of written dates and their ISO form.

Babel's copy of CLDR makes them, so nothing is downloaded. The same index gives the same pair on every machine with the
same version of Babel, which a run records.
"""

import hashlib
import struct
from collections.abc import Collection, Iterable, Sequence
from datetime import date, timedelta
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from babel.core import get_global

from selfattn.data.dates.patterns import TWO_DIGIT_YEARS, YEARS, DatePattern, date_patterns, find_locale, shape
from selfattn.data.pairs import Pair
from selfattn.data.splits import Split
from selfattn.errors import UserError


def hashed(text: str) -> tuple[int, ...]:
    """Return four numbers of 64 bits, the same in every version of Python."""
    return struct.unpack(">4Q", hashlib.sha256(text.encode()).digest())


def split_of(day: date) -> Split:
    """Return the part of a calendar day: about 90 % train, 5 % valid, 5 % test.

    The part is a hash of the day and depends on nothing else.

    Example:
        >>> split_of(date(2008, 11, 13))
        'train'
    """
    hand = hashed(f"selfattn dates/{day.isoformat()}")[0] % 20
    return "test" if hand == 0 else "valid" if hand == 1 else "train"


def days_of(years: range) -> list[date]:
    """Return every day of some years, in order.

    Example:
        >>> len(days_of(range(2000, 2002)))
        731
    """
    first = date(years.start, 1, 1)
    end = date(years.stop, 1, 1)
    return [first + timedelta(days=number) for number in range((end - first).days)]


@lru_cache(maxsize=1)
def split_days() -> dict[Split, tuple[date, ...]]:
    """Return the days of each part in the years 1900 to 2099."""
    parts: dict[Split, list[date]] = {"train": [], "valid": [], "test": []}
    for day in days_of(YEARS):
        parts[split_of(day)].append(day)
    return {split: tuple(days) for split, days in parts.items()}


class DateFormat(NamedTuple):
    """A date format of a locale.

    Attributes:
        name: as in `Pair.tag`, such as ``"en_US full"``.
        locale: CLDR locale.
        patterns: to draw from, all equally likely.
    """

    name: str
    locale: str
    patterns: tuple[DatePattern, ...]


def formats_of(locale: str) -> list[DateFormat]:
    """Return the formats of a locale, see `selfattn.data.dates.patterns.date_patterns`."""
    return [DateFormat(f"{locale} {name}", locale, patterns) for name, patterns in date_patterns(locale).items()]


class Readers:
    """Parses dates in any of several formats.

    Args:
        formats: whose patterns apply.
    """

    def __init__(self, formats: Iterable[DateFormat]) -> None:
        self._by_shape: dict[str, list[DatePattern]] = {}
        patterns = chain.from_iterable(date_format.patterns for date_format in formats)
        for pattern in dict.fromkeys(patterns):  # equal texts have equal shapes, so no other pattern can read them
            for form in pattern.shapes():
                self._by_shape.setdefault(form, []).append(pattern)

    def read(self, text: str) -> set[date]:
        """Return every day that a text (without a tag) may stand for."""
        return set[date]().union(*(pattern.read(text) for pattern in self._by_shape.get(shape(text), ())))

    def differ(self, text: str) -> bool:
        """Return whether a text is ambiguous."""
        # A single pattern is never ambiguous, so most texts need not be parsed.
        return len(self._by_shape.get(shape(text), ())) > 1 and len(self.read(text)) > 1


# By CLDR's calendarPreferenceData: where another calendar than the Gregorian comes first. Babel has no other calendar.
_CALENDARS = {
    "TH": ("Buddhist", "543 more than the Gregorian ones"),
    "IR": ("Persian", "with other months and days"),
    "AF": ("Persian", "with other months and days"),
    "SA": ("Islamic", "with other months and days"),
}


def calendar_notes(locales: Sequence[str]) -> list[str]:
    """Return a line for each locale whose people also write years of another calendar than the generated dates.

    Args:
        locales: CLDR locales.

    Example:
        >>> calendar_notes(["en_US", "th"])[0].partition(";")[0]
        'th: the generated dates are Gregorian, written with the digits 0 to 9'
        >>> calendar_notes(["en_US", "ko_KR"])
        []
    """
    notes = []
    for name in locales:
        locale = find_locale(name)
        likely = get_global("likely_subtags").get(locale.language, "")
        calendar, years = _CALENDARS.get(locale.territory or likely.rpartition("_")[2], ("", ""))
        if calendar:
            generated = "the generated dates are Gregorian, written with the digits 0 to 9"
            notes.append(f"{name}: {generated}; a model reads {calendar} years ({years}) as Gregorian, wrongly")
    return notes


def write_pair(form: DateFormat, pattern: DatePattern, day: date, readers: Readers | None) -> Pair:
    """Write a day, with its locale in front if the text is ambiguous.

    Args:
        form: the format.
        pattern: one of its patterns.
        day: the day.
        readers: of all chosen locales; None for a single locale, which is never ambiguous.
    """
    text, spans = pattern.render(day)
    if readers is not None and readers.differ(text):
        text, spans = pattern.render(day, f"[{form.locale}] ")
    return Pair(text, day.isoformat(), form.name, spans)


def draw_pairs(
    name: str, formats: Sequence[DateFormat], readable: Sequence[DateFormat], days: Sequence[date], count: int
) -> list[Pair]:
    """Draw a format, one of its patterns and a day for each pair, by a hash of its number.

    Args:
        name: of the draws.
        formats: to draw from.
        readable: which decide what is ambiguous.
        days: to draw from.
        count: number of pairs; none where there are no formats or no days.
    """
    # As in training, an ambiguous text starts with its locale.
    readers = Readers(readable) if len({form.locale for form in formats}) > 1 else None
    pairs = []
    for index in range(count if formats and days else 0):
        kind, choice, number, _ = hashed(f"{name}/{index}")
        form = formats[kind % len(formats)]
        pairs.append(write_pair(form, form.patterns[choice % len(form.patterns)], days[number % len(days)], readers))
    return pairs


class DateSource:
    """Written dates with their ISO form: endless, each drawn from its index.

    **Draws.** For each index, uniformly and independently: a locale, one of its formats, one of the format's patterns,
    and a day of the part. Locales are therefore equally frequent, and so are the formats of a locale (see
    `selfattn.data.dates.patterns.date_patterns`). As draws are independent, pairs repeat now and then.

    **Days** are those of the years 1900 to 2099. Each day is in one part (`split_of`). A source text stands for one
    day only, so no source text and no target is in two parts.

    **Two-digit years** follow POSIX: 69-99 are 1969-1999, 00-68 are 2000-2068. A format with two-digit years is only
    used for days from 1969-01-01 to 2068-12-31.

    **Tags.** A text may stand for different days in different locales: ``11/12/08`` is 12 November in en_US and
    11 December in en_GB. If a text can be read as more than one day in the formats of all chosen locales together
    (`DatePattern.read`), its locale stands in front: ``[en_US] 11/12/08``. ``12/12/08``, ISO dates and ``11/13/08``
    (impossible in en_GB) have no tag. With one locale, no text has a tag.

    Args:
        locales: CLDR locales, or the name of one; default ``("en_US",)``.
        seed: of the draws (not of the parts); default 0.
        split: ``"train"`` (default), ``"valid"`` or ``"test"``.
        without: years that are withheld from all parts; default none.

    Raises:
        UserError: an unknown, unusable or repeated locale, or none at all; too few years are left.

    Example:
        >>> source = DateSource()
        >>> [(pair.source, pair.target, pair.tag) for pair in source.pairs(2)]
        [('FRI, FEB 27, 2082', '2082-02-27', 'en_US medium weekday'), ('Dec 26, 2030', '2030-12-26', 'en_US medium')]
        >>> source.pairs(1, start=1) == source.pairs(2)[1:]
        True
    """

    def __init__(
        self,
        locales: str | Sequence[str] = ("en_US",),
        *,
        seed: int = 0,
        split: Split = "train",
        without: Collection[int] = (),
    ) -> None:
        locales = (locales,) if isinstance(locales, str) else tuple(locales)
        names = [str(find_locale(name)) for name in locales]
        if not names or len(set(names)) < len(names):
            raise UserError(f"locales {','.join(locales)}: name at least one, and each once")
        self.locales = tuple(names)
        self.seed = seed
        self.split = split
        self._formats = [formats_of(name) for name in names]
        self._days, self._two_digit_days = _days_left(split, frozenset(without))
        if not self._two_digit_days:
            raise UserError("no year from 1969 to 2068 is left, which two-digit years stand for; leave one in")

    def pairs(self, count: int, start: int = 0) -> list[Pair]:
        """Return the pairs with the indices from `start` (default 0) to ``start + count - 1``."""
        return [self._pair(index) for index in range(start, start + count)]

    def _pair(self, index: int) -> Pair:
        where, kind, choice, number = hashed(f"{self.seed}/{self.split}/{index}")
        formats = self._formats[where % len(self.locales)]
        form = formats[kind % len(formats)]
        pattern = form.patterns[choice % len(form.patterns)]
        days = self._days if pattern.years == YEARS else self._two_digit_days
        readers = readers_of(self.locales) if len(self.locales) > 1 else None
        return write_pair(form, pattern, days[number % len(days)], readers)


@lru_cache(maxsize=8)
def _days_left(split: Split, without: frozenset[int]) -> tuple[tuple[date, ...], tuple[date, ...]]:
    """Return the days of a part, and those among them that two-digit years may stand for."""
    days = tuple(day for day in split_days()[split] if day.year not in without)
    return days, tuple(day for day in days if day.year in TWO_DIGIT_YEARS)


@lru_cache(maxsize=8)
def readers_of(locales: tuple[str, ...]) -> Readers:
    """Return what parses the dates of several locales.

    Example:
        >>> sorted(map(str, readers_of(("en_US", "en_GB")).read("11/12/08")))
        ['2008-11-12', '2008-12-11']
    """
    return Readers(chain.from_iterable(map(formats_of, locales)))
