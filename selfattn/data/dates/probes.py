"""Dates outside the training data: unseen years, withheld years, unseen formats."""

from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain

from selfattn.data.dates.patterns import YEARS, DatePattern, casings, date_patterns, find_locale, parse
from selfattn.data.dates.source import DateFormat, DateSource, days_of, draw_pairs, formats_of, split_days
from selfattn.data.pairs import Pair
from selfattn.errors import UserError

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
    return draw_pairs("unseen years", formats, readers, days_of(BEFORE) + days_of(AFTER), count)


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
