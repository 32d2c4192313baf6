"""Numbers, percentages and amounts of money in one locale, as CLDR writes them (in Latin digits)."""

from __future__ import annotations

import unicodedata
from collections import Counter
from decimal import Decimal
from typing import Any, NamedTuple

from babel import Locale
from babel.numbers import get_decimal_symbol, get_group_symbol

from selfattn.data.phrases.text import Chance, Segment, Segments, tables, tidy, words

_TABLE = 1000


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
        self._percent = _around(locale.percent_formats[None], get_percent_symbol(locale))
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
        if whole < 1000:
            return str(whole)
        if self._sizes == (3, 3):
            return f"{whole:,}".replace(",", self.group)
        size, others = self._sizes  # such as 3 and then 2 in Hindi; a locale that does not group has a huge one
        left, grouped = str(whole), ""
        while len(left) > size:
            left, grouped, size = left[:-size], f"{self.group}{left[-size:]}{grouped}", others
        return left + grouped


def get_percent_symbol(locale: Locale) -> str:
    """Return the percent sign of a locale for Latin digits.

    Example:
        >>> get_percent_symbol(Locale("en"))
        '%'
    """
    return str(tables(locale)["number_symbols"]["latn"].get("percentSign", "%"))


def _around(pattern: Any, percent: str) -> tuple[str, str]:
    before, after = (tidy(text.replace("%", percent)) for text in (pattern.prefix[0], pattern.suffix[0]))
    return before, after


def _parted(character: str) -> bool:
    return unicodedata.category(character)[0] not in "SZ"
