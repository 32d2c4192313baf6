"""What can be counted - units, spans of time, currencies - with CLDR's pattern for each plural form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from babel import Locale
from babel.numbers import get_currency_precision

from selfattn.data.phrases.numbers import Amount, Numbers
from selfattn.data.phrases.text import Segment, Segments, cut, tables, text_of, tidy, words

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
TIMES = ("year", "month", "week", "day", "hour", "minute", "second")
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
    patterns = data["currency_unit_patterns"]

    def written(category: str) -> str:
        pattern = str(patterns.get(category) or patterns["other"])
        return pattern.replace("{1}", names.get(category) or names["other"])

    return forms_of({category: written(category) for category in sorted({*names, *patterns, "other"})}, "currency")


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
