"""The formats of dates in one locale, from CLDR (through Babel)."""

from __future__ import annotations

import difflib
from dataclasses import replace
from functools import lru_cache

from babel import Locale, UnknownLocaleError
from babel.localedata import locale_identifiers

from selfattn.data.dates.patterns import DatePattern, compile_pieces
from selfattn.errors import UserError

ISO = "y-MM-dd"
# What CLDR does not list but English writes.
ENGLISH_DAY_FIRST = {"day first": "d MMMM y", "day first weekday": "EEEE, d MMMM y"}
ENGLISH_ORDINAL = {
    "ordinal": ("MMMM d, y", "d 'of' MMMM y"),
    "ordinal weekday": ("EEEE, MMMM d, y", "EEEE, d 'of' MMMM y"),
}


def find_locale(name: str) -> Locale:
    """Return the CLDR locale of this name (``ko_KR``; ``ko-KR`` is understood too).

    Raises:
        UserError: no such locale; the message names the closest ones.

    Example:
        >>> str(find_locale("zh-CN"))
        'zh_Hans_CN'
    """
    try:
        return Locale.parse(name.replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        wanted = name.replace("-", "_").casefold()
        names = {known.casefold(): known for known in locale_identifiers()}
        kin = [known for known in names if known.split("_")[0] == wanted.split("_")[0]]
        close = difflib.get_close_matches(wanted, kin or names, n=3)
        hint = f"did you mean {', '.join(names[c] for c in close)}?" if close else "try en_US, ko_KR or fr_FR"
        raise UserError(f"unknown locale {name!r}: {hint}") from None


@lru_cache(maxsize=64)
def date_patterns(name: str) -> dict[str, tuple[DatePattern, ...]]:
    """Return the formats of a locale: for each format's name the patterns to draw from, all equally likely.

    The formats are the four CLDR lengths, the medium one with its weekday (CLDR's skeleton ``yMMMEd``), and ISO;
    English has also the day first written out and ordinals, each with and without weekday. ("full" without its
    weekday is CLDR's "long".) A format that writes every date as an earlier one does is left out: where short
    and medium are the same, there is only a "medium".

    A format with letters is written as is (half of its patterns), and in upper and in lower case (the other
    half); a casing that changes nothing, or that would change the length of the text, is left out.

    Args:
        name: a CLDR locale.

    Raises:
        UserError: unknown locale, or one with a date pattern that has not just a year, a month and a day.

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
    wanted = {name: [parse(text, locale)] for name, text in texts.items()}
    if locale.language == "en":
        wanted |= {n: [with_ordinals(parse(text, locale)) for text in some] for n, some in ENGLISH_ORDINAL.items()}
    formats: dict[str, tuple[DatePattern, ...]] = {}
    seen: set[DatePattern] = set()
    for format_name, patterns in wanted.items():
        new = [pattern for pattern in patterns if pattern not in seen]
        seen.update(new)
        if new:
            formats[format_name] = tuple(choice for plain in new for choice in casings(plain, locale.language))
    return formats


def casings(plain: DatePattern, language: str) -> list[DatePattern]:
    """Return the pattern as is and in its other casings, as is repeated so that it makes up half (or all)."""
    others = [cased for case in ("upper", "lower") if (cased := plain.cased(case, language))]
    return [plain] * max(1, len(others)) + others


def parse(pattern: str, locale: Locale) -> DatePattern:
    """Turn a CLDR pattern into a `DatePattern`, each of its texts rendered by Babel itself.

    Args:
        pattern: CLDR pattern of the fields y, M or L, d, E or c, and G (in the Gregorian calendar a fixed text).
        locale: whose names of months, weekdays and eras are used.

    Raises:
        UserError: the pattern has other fields, or has not year, month and day just once.
    """
    pieces = compile_pieces(pattern, locale) or ()
    if sorted(piece.field for piece in pieces if piece.field not in ("", "weekday")) != ["day", "month", "year"]:
        raise UserError(
            f"locale {locale}: its date pattern {pattern!r} is not made of a year, a month and a day, and maybe "
            "a weekday; choose another locale"
        )
    return DatePattern(tuple(replace(p, lenient=pattern != ISO) if p.fields else p for p in pieces))


def with_ordinals(pattern: DatePattern) -> DatePattern:
    """Return the English pattern with the day as an ordinal: 13th for 13."""
    endings = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
    ordinals = tuple(f"{day}{endings.get(day, 'th')}" for day in range(1, 32))
    return pattern.with_field("day", texts=ordinals)
