"""What can be counted - units, spans of time, currencies - with CLDR's pattern for each plural form, and its numbers.

Digits are Latin.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from babel import Locale
from babel.numbers import get_currency_precision, get_decimal_symbol, get_group_symbol

from selfattn.data.phrases.text import Chance, Segment, Segments, cut, tables, text_of, tidy, words

_TABLE = 1000  # numbers whose plural form is looked up
# Those in daily use, by CLDR's names.
_IN_DAILY_USE = {
    "length": "kilometer meter centimeter millimeter mile foot inch",
    "mass": "tonne kilogram gram pound ounce",
    "volume": "liter milliliter cubic-meter",
    "area": "square-meter square-kilometer hectare",
    "temperature": "celsius",
    "angle": "degree",
    "speed": "kilometer-per-hour meter-per-second",
    "digital": "gigabyte megabyte byte",
    "power": "watt kilowatt",
    "energy": "kilocalorie kilowatt-hour",
    "electric": "volt",
    "frequency": "megahertz",
}
UNITS = tuple(f"{quantity}-{unit}" for quantity, units in _IN_DAILY_USE.items() for unit in units.split())
TIME_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")


class Amount(NamedTuple):
    """A decimal number: ``Amount(1234, 2)`` is 12.34."""

    digits: int
    places: int = 0


def modest(chance: Chance) -> Amount:
    """Draw how many: from 0 to 99,999, all lengths alike, a sixth of them with one decimal.

    Example:
        >>> modest(Chance(3 + 6 * 41))
        Amount(digits=141, places=0)
    """
    size = chance.below(6)
    if size == 0:
        return Amount(10 * chance.below(100) + 1 + chance.below(9), 1)
    low, high = ((0, 10), (10, 100), (100, 1000), (1000, 10_000), (10_000, 100_000))[size - 1]
    return Amount(low + chance.below(high - low))


class Numbers:
    """How a locale writes numbers.

    Args:
        locale: the locale.

    Example:
        >>> numbers = Numbers(Locale("de"))
        >>> numbers.text(Amount(1234567, 2)), numbers.plural(Amount(1))
        ('12.345,67', 'one')
    """

    def __init__(self, locale: Locale) -> None:
        self.locale = locale
        self.decimal = tidy(get_decimal_symbol(locale))
        self.group = tidy(get_group_symbol(locale))
        percent = str(tables(locale)["number_symbols"]["latn"].get("percentSign", "%"))
        self._percent = _around(locale.percent_formats[None], percent)
        self._sizes: tuple[int, int] = locale.decimal_formats[None].grouping
        self._rule: Any = locale.plural_form
        self._plurals = [str(self._rule(number)) for number in range(_TABLE)]
        counts = Counter(self._plurals[:101])
        self.rare = frozenset(number for number in range(101) if counts[self._plurals[number]] < 5)
        """The numbers up to 100 that share their plural form with few others, so that it must be learned for each."""

    def text(self, amount: Amount) -> str:
        """Write a number."""
        digits, places = amount
        if not places:
            return self._grouped(digits)
        whole, rest = divmod(digits, 10**places)
        return f"{self._grouped(whole)}{self.decimal}{rest:0{places}}"

    def plural(self, amount: Amount) -> str:
        """Return CLDR's plural category of a number: zero, one, two, few, many or other."""
        digits, places = amount
        if not places and digits < _TABLE:
            return self._plurals[digits]
        return str(self._rule(Decimal(digits).scaleb(-places)))

    def number(self, amount: Amount) -> Segments:
        """Write a number as one segment."""
        return [Segment(self.text(amount), ("number",))]

    def percent(self, amount: Amount) -> Segments:
        """Write a percentage."""
        before, after = self._percent
        return [*words(before, ("percent",)), Segment(self.text(amount), ("number",)), *words(after, ("percent",))]

    def money_pattern(self, currency: str) -> tuple[str, str]:
        """Return what stands before and after an amount of money with the currency's symbol.

        By CLDR's rule of currency spacing (which Babel leaves out) there is a space between the number and a symbol
        that ends in a letter there: ``CHF 5.00``, but ``$5.00``.
        """
        symbol = tidy(tables(self.locale)["currency_symbols"].get(currency, currency))
        before, after = _around(self.locale.currency_formats["standard"], "")
        if before.endswith("¤") and _parted(symbol[-1]):
            before += " "
        if after.startswith("¤") and _parted(symbol[0]):
            after = " " + after
        return before.replace("¤", symbol), after.replace("¤", symbol)

    def _grouped(self, whole: int) -> str:
        size, others = self._sizes  # such as 3 and then 2 in Hindi; a locale that does not group has a huge one
        left, grouped = str(whole), ""
        while len(left) > size:
            left, grouped, size = left[:-size], f"{self.group}{left[-size:]}{grouped}", others
        return left + grouped


def _around(pattern: Any, percent: str) -> tuple[str, str]:
    before, after = (tidy(text.replace("%", percent)) for text in (pattern.prefix[0], pattern.suffix[0]))
    return before, after


def _parted(character: str) -> bool:
    return unicodedata.category(character)[0] not in "SZ"


_SAMPLES = (*(Amount(number) for number in range(104)), *(Amount(number, 1) for number in (1, 5, 11, 15, 25)))

Forms = dict[str, tuple[Segments, bool, Segments]]


@dataclass(frozen=True)
class Counted:
    """Something that can be counted, in both languages.

    Args:
        name: what it is, such as ``"length-meter long"``.
        forms: for each side, and there for each plural category, what stands before the number, whether the number
            is written, and what stands after it.
        numbers: for each side how numbers are written.
        places: digits after the decimal sign that are always written; default None, as many as are needed.
    """

    name: str
    forms: tuple[Forms, Forms]
    numbers: tuple[Numbers, Numbers]
    places: int | None = None

    def write(self, amount: Amount, side: int) -> Segments:
        """Write an amount of it in the source (0) or target (1) language."""
        before, written, after = self._form(amount, side)
        return [*before, Segment(self.numbers[side].text(amount), ("number",)), *after] if written else before

    def tells(self, amount: Amount) -> bool:
        """Whether the number can be read off: words without it (``a day``) do for whole numbers only."""
        return not amount.places or (self._form(amount, 0)[1] and self._form(amount, 1)[1])

    def _form(self, amount: Amount, side: int) -> tuple[Segments, bool, Segments]:
        forms = self.forms[side]
        return forms.get(self.numbers[side].plural(amount)) or forms["other"]

    @cached_property
    def samples(self) -> tuple[list[str], list[str]]:
        """Its texts for some amounts on either side."""
        some = _SAMPLES if self.places is None else [Amount(number, self.places) for number in range(104)]
        amounts = [amount for amount in some if self.tells(amount)]
        first, second = ([text_of(self.write(amount, side)) for amount in amounts] for side in (0, 1))
        return first, second


def distinct(found: Iterable[Counted], seen: dict[str, str] | None = None) -> list[Counted]:
    """Keep what can be told apart: whose source texts stand for one amount of one thing only.

    What loses the number on either side is left out too. Of two that share a text, the first stays.

    Args:
        found: in the order of preference.
        seen: source texts that are taken already, with their target; those found are added.
    """
    seen = {} if seen is None else seen
    kept = []
    for item in found:
        sources, targets = item.samples
        pairs = dict(zip(sources, targets, strict=True))
        if len(pairs) < len(sources) or len(set(targets)) < len(targets):
            continue
        if any(seen.get(source, target) != target for source, target in pairs.items()) or pairs.keys() <= seen.keys():
            continue
        seen |= pairs
        kept.append(item)
    return kept


def forms_of(patterns: dict[str, str], field: str = "unit") -> Forms | None:
    """Compile plural patterns such as ``{"one": "{0} day", "other": "{0} days"}``; None without ``other``.

    Example:
        >>> before, written, after = forms_of({"other": "{0} days ago"})["other"]
        >>> before, written, text_of(after)
        ([], True, ' days ago')
    """
    if "other" not in patterns:
        return None
    found: Forms = {}
    for category, pattern in patterns.items():
        pieces = cut(pattern)
        if 0 in pieces:
            place = pieces.index(0)
            before, after = (
                [w for p in part for w in words(str(p), (field,))] for part in (pieces[:place], pieces[place + 1 :])
            )
            found[category] = (before, True, after)
        else:
            found[category] = (list(words(tidy(pattern), ("number", field))), False, [])
    return found


def unit_forms(locale: Locale, unit: str, length: str) -> Forms | None:
    """Compile CLDR's patterns of a unit in one length; where CLDR has no long ones, they are its short ones."""
    table = tables(locale)["unit_patterns"].get(unit, {})
    for name in dict.fromkeys((length, "short")):
        patterns = {key: text for key, text in table.get(name, {}).items() if key != "per"}
        if "other" in patterns:
            return forms_of(patterns)
    return None


def per_pattern(locale: Locale, unit: str) -> str | None:
    """Return CLDR's pattern for so much of anything in each unit, such as ``{0} per day``; None where it has none."""
    table = tables(locale)["unit_patterns"].get(unit, {})
    return table.get("long", {}).get("per") or table.get("short", {}).get("per") or None


def relative_forms(locale: Locale, unit: str, length: str, direction: str) -> Forms | None:
    """Compile the patterns of a span from now: ``in 3 days`` (future) or ``3 days ago`` (past)."""
    table = tables(locale)["date_fields"]
    found = table.get(unit if length == "long" else f"{unit}-{length}") or table.get(unit, {})
    return forms_of(dict(found.get(direction, {})))


def currency_forms(locale: Locale, currency: str) -> Forms | None:
    """Compile the patterns of a currency by name: ``3 US dollars``."""
    data = tables(locale)
    names = dict(data["currency_names_plural"].get(currency, {}))
    if not names and currency in data["currency_names"]:
        names = {"other": data["currency_names"][currency]}
    if "other" not in names:
        return None
    patterns, forms = data["currency_unit_patterns"], {}
    for category in sorted({*names, *patterns, "other"}):
        pattern = str(patterns.get(category) or patterns["other"])
        forms[category] = pattern.replace("{1}", names.get(category) or names["other"])
    return forms_of(forms, "currency")


def money_forms(numbers: Numbers, currency: str) -> Forms:
    """Compile the pattern of a currency by symbol: ``$3.00``."""
    before, after = (list(words(text, ("currency",))) for text in numbers.money_pattern(currency))
    return {"other": (before, True, after)}


def countables(
    numbers: tuple[Numbers, Numbers], names: Iterable[str], make: Callable[[Numbers, str], Any], places: bool = False
) -> list[Counted]:
    """Make what both languages have a pattern for."""
    found = []
    for name in names:
        source, target = (make(side, name) for side in numbers)
        if source and target:
            found.append(Counted(name, (source, target), numbers, get_currency_precision(name) if places else None))
    return found
