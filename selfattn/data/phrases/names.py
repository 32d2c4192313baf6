"""Names of territories, languages and currencies, and lists of names, in two languages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from babel import Locale
from babel.languages import get_territory_language_info
from babel.localedata import locale_identifiers
from babel.numbers import get_territory_currencies

from selfattn.data.phrases.text import Pattern, Segment, Segments, cut, tidy

Which = Literal["common", "all"]

# The countries of the Group of Twenty: few enough to learn by heart, from every continent.
G20 = ("AR", "AU", "BR", "CA", "CN", "DE", "FR", "GB", "ID", "IN", "IT", "JP", "KR", "MX", "RU", "SA", "TR", "US", "ZA")
# An official language counts as common where at least this share of people speaks it.
_SHARE = 20.0


class Name(NamedTuple):
    """A name in both languages.

    Args:
        code: CLDR's code, such as ``KR``, ``ko`` or ``KRW``.
        field: ``"territory"``, ``"language"``, ``"currency"``, ``"weekday"`` or ``"month"``.
        texts: the name in the source and in the target language.
    """

    code: str
    field: str
    texts: tuple[str, str]

    def write(self, side: int) -> Segments:
        """Write the name in the source (0) or target (1) language."""
        return [Segment(self.texts[side], (self.field,))]


def codes(which: Which) -> dict[str, tuple[str, ...]]:
    """Return the codes of the territories, languages and currencies whose names are used.

    ``"common"`` has the countries of the Group of Twenty, their official languages (those that at least a fifth of
    the people speak, by CLDR), and their currencies. ``"all"`` has every territory of two letters with a currency of
    its time, every language of two letters that Babel has a locale for, and the currencies of these territories.

    Example:
        >>> codes("common")["language"]
        ('ar', 'de', 'en', 'es', 'fr', 'hi', 'id', 'it', 'ja', 'ko', 'pt', 'ru', 'tr', 'zh')
    """
    territories: Iterable[str] = G20
    if which == "all":
        territories = [code for code in sorted(Locale("en").territories) if len(code) == 2 and _currencies(code)]
        languages = {name for name in locale_identifiers() if len(name) == 2}
    else:
        languages = {language for code in territories for language in _official(code)}
    currencies = {currency for code in territories for currency in _currencies(code)}
    return {
        "territory": tuple(territories),
        "language": tuple(sorted(languages)),
        "currency": tuple(sorted(currencies)),
    }


def _official(territory: str) -> list[str]:
    known = set(locale_identifiers())
    return [
        language
        for language, facts in get_territory_language_info(territory).items()
        if facts["official_status"] in ("official", "de_facto_official")
        and float(facts["population_percent"] or 0) >= _SHARE
        and language in known
    ]


def _currencies(territory: str) -> list[str]:
    try:
        return [str(code) for code in get_territory_currencies(territory)]
    except KeyError:  # such as the region 419 or the unknown territory ZZ
        return []


def names(locales: tuple[Locale, Locale], which: Which) -> dict[str, list[Name]]:
    """Return the names of each field that both languages have, no two with the same source text."""
    wanted = codes(which)
    tables = {
        "territory": [locale.territories for locale in locales],
        "language": [locale.languages for locale in locales],
        "currency": [locale.currencies for locale in locales],
        "weekday": [locale.days["stand-alone"]["wide"] for locale in locales],
        "month": [locale.months["stand-alone"]["wide"] for locale in locales],
    }
    seen: set[str] = set()
    found: dict[str, list[Name]] = {}
    for field, (source, target) in tables.items():
        some = [
            Name(str(code), field, (tidy(source[code]), tidy(target[code])))
            for code in wanted.get(field) or sorted(source)
            if code in source and code in target
        ]
        first = {name.texts[0]: name for name in reversed(some) if name.texts[0] not in seen}
        found[field] = [name for name in some if first.get(name.texts[0]) is name]
        seen.update(first)
    return found


def list_patterns(locales: tuple[Locale, Locale], style: str, most: int) -> dict[int, tuple[Pattern, Pattern]]:
    """Return how a list of 2, 3, ... up to `most` members is put together in either language.

    Example:
        >>> patterns = list_patterns((Locale("en"), Locale("ko")), "standard", 3)
        >>> patterns[3]
        ((0, ', ', 1, ', and ', 2), (0, ', ', 1, ' 및 ', 2))
    """
    source, target = (_list_style(locale, style) for locale in locales)
    return {count: (cut(_whole(source, count)), cut(_whole(target, count))) for count in range(2, most + 1)}


def _list_style(locale: Locale, style: str) -> dict[str, str]:
    # What a locale's table lacks it has from these, by CLDR's root; Babel falls back for whole tables only.
    chain = {"unit": ("standard", "unit-short", "unit"), "unit-short": ("standard", "unit-short")}
    found: dict[str, str] = {}
    for name in chain.get(style, ("standard", style)):
        found |= dict(locale.list_patterns.get(name, {}))
    return found


def _whole(patterns: dict[str, str], count: int) -> str:
    members = [f"{{{number}}}" for number in range(count)]
    if count == 2 and "2" in patterns:
        return patterns["2"].format(*members)
    text = patterns["start"].format(*members[:2])
    for member in members[2:-1]:
        text = patterns["middle"].format(text, member)
    return patterns["end"].format(text, members[-1])
