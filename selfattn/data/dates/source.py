"""The dates task: an endless, deterministic source of written dates and their ISO form.

Made with Babel from CLDR, so nothing is downloaded; the same index gives the same pair on every machine with the
same CLDR (Babel's version belongs in the record of a run).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterable, Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple, get_args

from selfattn.data.dates.formats import date_patterns, find_locale
from selfattn.data.dates.patterns import TWO_DIGIT_YEARS, YEARS, DatePattern, shape
from selfattn.data.pairs import DrawnPairs, Pair, Span, indices
from selfattn.data.splits import Split
from selfattn.errors import UserError


def split_of(day: date) -> Split:
    """Return the part that a calendar day belongs to: about 90 % train, 5 % valid, 5 % test.

    The part is a hash of the day, so it is fixed once and for all: it depends on no seed, locale or version.

    Example:
        >>> split_of(date(2008, 11, 13))
        'train'
    """
    digest = hashlib.sha256(f"selfattn dates/{day.isoformat()}".encode()).digest()
    hand = int.from_bytes(digest[:8], "big") % 20
    return "test" if hand == 0 else "valid" if hand == 1 else "train"


def days_of(years: range) -> list[date]:
    """Return every day of some years, in their order.

    Example:
        >>> len(days_of(range(2000, 2002)))
        731
    """
    first, end = date(years.start, 1, 1), date(years.stop, 1, 1)
    return [first + timedelta(days=number) for number in range((end - first).days)]


@lru_cache(maxsize=1)
def split_days() -> dict[Split, tuple[date, ...]]:
    """Return the days of the years 1900 to 2099 that belong to each part."""
    parts: dict[Split, list[date]] = {"train": [], "valid": [], "test": []}
    for day in days_of(YEARS):
        parts[split_of(day)].append(day)
    return {split: tuple(some) for split, some in parts.items()}


class DateFormat(NamedTuple):
    """A way to write dates.

    Attributes:
        name: as in `Pair.tag`, such as ``"en_US full"``.
        locale: its CLDR locale.
        patterns: to draw from, all equally likely.
    """

    name: str
    locale: str
    patterns: tuple[DatePattern, ...]


def formats_of(locale: str) -> list[DateFormat]:
    """Return the formats of a locale, see `selfattn.data.dates.formats.date_patterns`."""
    return [DateFormat(f"{locale} {name}", locale, patterns) for name, patterns in date_patterns(locale).items()]


class Readers:
    """The patterns by which a text may be read as a date.

    Args:
        formats: with the patterns.
    """

    def __init__(self, formats: Iterable[DateFormat]) -> None:
        self._by_shape: dict[str, list[DatePattern]] = {}
        patterns = dict.fromkeys(pattern for date_format in formats for pattern in date_format.patterns)
        for pattern in patterns:  # equal texts have equal shapes, so no other pattern can read them
            for form in pattern.shapes():
                self._by_shape.setdefault(form, []).append(pattern)

    def read(self, text: str) -> set[date]:
        """Return every day that a text (without a tag) stands for in some pattern."""
        return {day for pattern in self._by_shape.get(shape(text), ()) for day in pattern.read(text)}

    def differ(self, text: str) -> bool:
        """Say whether a text can be read as several days."""
        # A single pattern reads a text in one way, which most texts allow to skip the reading.
        return len(self._by_shape.get(shape(text), ())) > 1 and len(self.read(text)) > 1


def write_pair(form: DateFormat, pattern: DatePattern, day: date, readers: Readers | None) -> Pair:
    """Write a day down, with its locale in front where the text can be read as several days.

    Args:
        form: the format.
        pattern: one of its patterns.
        day: the day.
        readers: of all chosen locales; None where there is only one, which reads a text in one way.
    """
    text, spans = pattern.render(day)
    if readers is not None and readers.differ(text):
        tag = f"[{form.locale}] "
        text = tag + text
        shifted = ((start + len(tag), end + len(tag)) for start, end in (span.source for span in spans))
        spans = tuple(Span(span.field, source, span.target) for span, source in zip(spans, shifted, strict=True))
    return Pair(text, day.isoformat(), form.name, spans)


class DateSource:
    """Written dates with their ISO form, as many as wanted, each found by its index.

    **What is drawn.** For every index independently: a locale, one of its formats, one of the format's patterns
    and casings, and a day of the part; each choice uniform. So locales weigh the same, and the formats of a locale
    weigh the same, however many patterns they have. Which formats a locale has: see
    `selfattn.data.dates.formats.date_patterns`. Being independent, draws repeat now and then.

    **Days** are those of the years 1900 to 2099, each in train, valid or test once and for all (`split_of`).
    No day is in two parts; as a source text stands for one day only, no source text and no target is either.

    **Two-digit years** are read as POSIX does: 69-99 are 1969-1999, 00-68 are 2000-2068. A format with two-digit
    years is only used for days from 1969-01-01 to 2068-12-31.

    **Tags.** A text may stand for different days in different locales: ``11/12/08`` is 12 November in en_US and
    11 December in en_GB. Precisely: the readings of a text in a locale are all days that it stands for in some
    format of that locale, in some casing, numbers being read as numbers (`DatePattern.read`: leading zeros make no
    difference, nor does a year of two digits for one of four; ISO alone is strict). If the readings in all chosen
    locales, taken together, are more than one day, the text carries its locale in front: ``[en_US] 11/12/08``. So
    ``12/12/08`` and ISO have no tag, nor has ``11/13/08``, which has no reading in en_GB; with one locale nothing
    has.

    Args:
        locales: CLDR locales, or the name of one; default ``("en_US",)``.
        seed: of the draws (not of the parts); default 0.
        split: ``"train"`` (default), ``"valid"`` or ``"test"``.
        without: years whose days are left out of all parts; default none.

    Raises:
        UserError: an unknown, unusable or repeated locale, or none at all; too few years are left.
        ValueError: another `split`.

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
        if split not in get_args(Split):
            raise ValueError(f"split must be 'train', 'valid' or 'test', not {split!r}")
        locales = (locales,) if isinstance(locales, str) else tuple(locales)
        names = [str(find_locale(name)) for name in locales]
        if not names:
            raise UserError("no locale given: name at least one, such as en_US")
        if len(set(names)) < len(names):
            raise UserError(f"a locale is given twice: {', '.join(locales)}; name each once")
        self.locales = tuple(names)
        self.seed = seed
        self.split = split
        self._formats = [formats_of(name) for name in names]
        self._days = split_days()[split]
        if without:
            self._days = tuple(day for day in self._days if day.year not in without)
        self._two_digit_days = tuple(day for day in self._days if day.year in TWO_DIGIT_YEARS)
        if not self._two_digit_days:
            raise UserError("no year from 1969 to 2068 is left, which two-digit years stand for; leave one in")

    @property
    def formats(self) -> tuple[str, ...]:
        """The names of the formats, as they stand in `Pair.tag`: ``"en_US full"`` and so on."""
        return tuple(form.name for formats in self._formats for form in formats)

    def pairs(self, count: int, start: int = 0) -> list[Pair]:
        """Return the pairs with the indices from `start` to ``start + count - 1``.

        Args:
            count: how many.
            start: index of the first; default 0.

        Raises:
            ValueError: a negative number.
        """
        return list(self.drawn(count, start))

    def drawn(self, count: int, start: int = 0) -> DrawnPairs:
        """Return what `pairs` does, each pair made when it is asked for."""
        return DrawnPairs(self._pair, indices(count, start))

    def readings(self, text: str) -> set[date]:
        """Return every day that `text` (without a tag) stands for in some chosen locale.

        Example:
            >>> sorted(map(str, DateSource(["en_US", "en_GB"]).readings("11/12/08")))
            ['2008-11-12', '2008-12-11']
        """
        return _readers(self.locales).read(text)

    def _pair(self, index: int) -> Pair:
        # A hash as the source of chance: random access, and the same numbers in every version of Python.
        digest = hashlib.sha256(f"{self.seed}/{self.split}/{index}".encode()).digest()
        where, kind, choice, number = struct.unpack(">4Q", digest)
        formats = self._formats[where % len(self.locales)]
        form = formats[kind % len(formats)]
        pattern = form.patterns[choice % len(form.patterns)]
        days = self._days if pattern.years == YEARS else self._two_digit_days
        readers = _readers(self.locales) if len(self.locales) > 1 else None
        return write_pair(form, pattern, days[number % len(days)], readers)


@lru_cache(maxsize=8)
def _readers(locales: tuple[str, ...]) -> Readers:
    return Readers(form for name in locales for form in formats_of(name))
