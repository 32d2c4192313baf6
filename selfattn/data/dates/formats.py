"""Date formats of a locale, from CLDR (through Babel)."""

from __future__ import annotations

import difflib
from dataclasses import replace
from functools import lru_cache

from babel import Locale, UnknownLocaleError
from babel.localedata import locale_identifiers

from selfattn.data.dates.patterns import DatePattern, compile_pieces
from selfattn.errors import UserError

ISO = "y-MM-dd"
# Formats that English uses and CLDR does not list.
ENGLISH_DAY_FIRST = {"day first": "d MMMM y", "day first weekday": "EEEE, d MMMM y"}
ENGLISH_ORDINAL = {
    "ordinal": ("MMMM d, y", "d 'of' MMMM y"),
    "ordinal weekday": ("EEEE, MMMM d, y", "EEEE, d 'of' MMMM y"),
}


def find_locale(name: str) -> Locale:
    """Return the CLDR locale of a name, such as ``ko_KR`` or ``ko-KR``.

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
    """Return a pattern in all its casings; its own casing is repeated so that it makes up half."""
    others = [cased for case in ("upper", "lower") if (cased := plain.cased(case, language))]
    return [plain] * max(1, len(others)) + others


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
        raise UserError(
            f"locale {locale}: its date pattern {pattern!r} is not made of a year, a month and a day, and maybe "
            "a weekday; choose another locale"
        )
    return DatePattern(tuple(replace(p, lenient=pattern != ISO) if p.fields else p for p in pieces))


def with_ordinals(pattern: DatePattern) -> DatePattern:
    """Write the day of an English pattern as an ordinal: 13th for 13."""
    endings = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
    ordinals = tuple(f"{day}{endings.get(day, 'th')}" for day in range(1, 32))
    return pattern.with_field("day", texts=ordinals)
