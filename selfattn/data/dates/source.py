"""Written dates and their ISO form, in three parts: generated, endless, with probes outside of training; or from files.

Babel's copy of CLDR makes them, so nothing is downloaded. The same index gives the same pair on every machine with the
same version of Babel, which a run records. Probes are unseen years, withheld years and unseen formats.
"""

import hashlib
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from babel.core import get_global

from selfattn.data.dates.patterns import (
    TWO_DIGIT_YEARS,
    YEARS,
    DatePattern,
    casings,
    date_patterns,
    find_locale,
    parse,
    shape,
)
from selfattn.data.pairs import Pair
from selfattn.data.readers.pairs import PairFiles
from selfattn.data.splits import EndlessSplits, FiniteSplits, Split, split_at, split_pairs
from selfattn.errors import UserError


def hash_numbers(text: str) -> tuple[int, ...]:
    """Return four numbers of 64 bits, the same in every version of Python."""
    return struct.unpack(">4Q", hashlib.sha256(text.encode()).digest())


def split_of(day: date) -> Split:
    """Return the part of a calendar day: about 90 % train, 5 % valid, 5 % test.

    The part is a hash of the day and depends on nothing else.

    Example:
        >>> split_of(date(2008, 11, 13))
        'train'
    """
    return split_at(hash_numbers(f"selfattn dates/{day.isoformat()}")[0] % 20)


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
        kind, choice, number, _ = hash_numbers(f"{name}/{index}")
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
        where, kind, choice, number = hash_numbers(f"{self.seed}/{self.split}/{index}")
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


# Unseen years.
BEFORE = range(1800, 1900)
AFTER = range(2100, 2200)
_SAMPLES = (date(2008, 1, 3), date(2013, 11, 28))  # two formats that write these alike are one
_FIELDS = set("GyMLdEc")


def unseen_years(locales: str | Sequence[str], count: int) -> list[Pair]:
    """Return dates of the years 1800 to 1899 and 2100 to 2199, in the training formats with four-digit years.

    Training has the years 1900 to 2099, so a model that memorises years, instead of copying digits, fails here.

    Args:
        locales: CLDR locales, or the name of one.
        count: number of pairs; a smaller number gives the first of them.

    Raises:
        UserError: see `DateSource`.

    Example:
        >>> [(pair.source, pair.target) for pair in unseen_years("en_US", 2)]
        [('Apr 23, 2114', '2114-04-23'), ('sunday, february 25, 1877', '1877-02-25')]
    """
    years = range(BEFORE.start, AFTER.stop)
    texts = tuple(map(str, years))
    readers = []
    formats = []
    for form in _training_formats(locales):
        changes = {"texts": texts, "first": years.start, "lenient": False}
        reader = form._replace(patterns=tuple(pattern.with_field("year", **changes) for pattern in form.patterns))
        readers.append(reader)
        if form.patterns[0].years == YEARS:
            formats.append(reader)
    return draw_pairs("unseen years", formats, readers, _unseen_days(), count)


@lru_cache(maxsize=1)
def _unseen_days() -> list[date]:
    return days_of(BEFORE) + days_of(AFTER)


def withheld_years(locales: str | Sequence[str], years: Iterable[int], count: int) -> list[Pair]:
    """Return dates of years that were withheld from training, in the training formats with four-digit years.

    Their digits occur in other years: a model that copies digits passes, a model that memorises years fails.

    Args:
        locales: CLDR locales, or the name of one.
        years: those of `DateSource`'s ``without``.
        count: number of pairs; a smaller number gives the first of them.

    Raises:
        UserError: see `DateSource`.

    Example:
        >>> [(pair.source, pair.target) for pair in withheld_years("en_US", [1943, 2057], 2)]
        [('tuesday, january 23, 2057', '2057-01-23'), ('Saturday, September 22, 2057', '2057-09-22')]
    """
    readers = _training_formats(locales)
    formats = [form for form in readers if form.patterns[0].years == YEARS]
    days = list(chain.from_iterable(days_of(range(year, year + 1)) for year in sorted(set(years))))
    return draw_pairs("withheld years", formats, readers, days, count)


def unseen_formats(locales: str | Sequence[str], count: int) -> list[Pair]:
    """Return dates of the test days in formats of CLDR that are not in the training data.

    The formats are CLDR's skeletons of a year, a month and a day, with or without weekday and era (such as ``yMd`` and
    ``GyMMMEd``), except those that write dates as a training format does. A `Pair.tag` ends with the skeleton.

    Args:
        locales: CLDR locales, or the name of one.
        count: number of pairs; a smaller number gives the first of them. None where CLDR has no further formats.

    Raises:
        UserError: see `DateSource`.

    Example:
        >>> pairs = unseen_formats("en_US", 50)
        >>> sorted({pair.tag for pair in pairs})
        ['en_US GyMMMEd', 'en_US GyMMMd', 'en_US GyMd', 'en_US yMEd', 'en_US yMd']
        >>> [(pair.source, pair.target) for pair in pairs[:2]]
        [('mon, 10/16/2079', '2079-10-16'), ('7/27/1938 ad', '1938-07-27')]
    """
    formats = list(chain.from_iterable(map(_new_formats, DateSource(locales).locales)))
    return draw_pairs("unseen formats", formats, _training_formats(locales) + formats, split_days()["test"], count)


def _training_formats(locales: str | Sequence[str]) -> list[DateFormat]:
    return list(chain.from_iterable(map(formats_of, DateSource(locales).locales)))


@lru_cache(maxsize=64)
def _new_formats(name: str) -> tuple[DateFormat, ...]:
    locale = find_locale(name)
    seen = {_written(pattern) for pattern in chain.from_iterable(date_patterns(name).values())}
    forms = []
    for skeleton, text in sorted(locale.datetime_skeletons.items()):
        if not {"y", "M", "d"} <= set(skeleton) <= _FIELDS:
            continue
        try:
            plain = parse(text.pattern, locale)
        except UserError:  # such as a quarter that the skeleton does not name
            continue
        if _written(plain) not in seen:
            seen.add(_written(plain))
            forms.append(DateFormat(f"{name} {skeleton}", name, tuple(casings(plain, locale.language))))
    return tuple(forms)


def _written(pattern: DatePattern) -> tuple[str, ...]:
    return tuple(pattern.render(day)[0] for day in _SAMPLES)


_SAMPLE = 20_000  # dates for the vocabulary and the longest output
_PROBES = 500  # dates of each probe


class EmbeddedDates(EndlessSplits):
    """Endless generated dates: every epoch is new, and no two parts share a day.

    Args:
        locales: CLDR locales.
        seed: of the training pairs; validation and test are the same for every seed.
        withheld: years that are in no part; default none.
    """

    def __init__(self, locales: Sequence[str], seed: int, withheld: Sequence[int] = ()) -> None:
        DateSource(locales, without=withheld)  # raises for an unknown locale, or where no year is left
        self.locales = tuple(locales)
        self.withheld = tuple(withheld)
        settings: dict[str, Any] = {"kind": "embedded", "locales": [*locales]}
        if withheld:
            settings["withheld_years"] = [*withheld]
        super().__init__(settings, f"embedded dates, {','.join(locales)}", seed)
        self.notes = calendar_notes(locales)

    def sample(self) -> Sequence[Pair]:
        """Return training pairs of seed 0."""
        return self._sample(self.locales, self.withheld)

    @staticmethod
    @lru_cache(maxsize=4)
    def _sample(locales: tuple[str, ...], withheld: tuple[int, ...]) -> Sequence[Pair]:
        return DateSource(locales, seed=0, split="train", without=withheld).pairs(_SAMPLE)

    def draw(self, part: Split, seed: int, epoch: int, count: int) -> Sequence[Pair]:
        """Return the next pairs of the source."""
        return DateSource(self.locales, seed=seed, split=part, without=self.withheld).pairs(count, start=epoch * count)

    def probes(self) -> Mapping[str, Sequence[Pair]]:
        """Return dates of years, and in formats, that are not in the training data."""
        probes = {
            "unseen years": unseen_years(self.locales, _PROBES),
            "withheld years": withheld_years(self.locales, self.withheld, _PROBES),
            "unseen formats": unseen_formats(self.locales, _PROBES),
        }
        return {name: pairs for name, pairs in probes.items() if pairs}


def file_dates(files: PairFiles, seed: int, validation_items: int) -> FiniteSplits:
    """Read pairs from files, and split them by source; the book's file has its own split (seed 1984, the last tenth).

    Args:
        files: of pairs.
        seed: see `FiniteSplits`.
        validation_items: see `split_pairs`.

    Raises:
        UserError: the files cannot be read, or have too few pairs.
    """
    split = {"split": "book" if files.is_book else "by source", "validation_items": validation_items}
    name = " ".join(map(str, files.paths))
    settings = {"kind": "file"} | files.settings | split
    return split_pairs(files.read(), seed, validation_items, settings, name, book=files.is_book)
