"""The kinds of phrases of the CLDR corpus, each a function that draws one by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

from selfattn.data.phrases import calendars as days
from selfattn.data.phrases.counts import (
    TIME_UNITS,
    UNITS,
    Amount,
    Counted,
    Numbers,
    countables,
    currency_forms,
    distinct,
    modest,
    money_forms,
    per_pattern,
    relative_forms,
    unit_forms,
)
from selfattn.data.phrases.names import Name, Which, codes, list_patterns, names
from selfattn.data.phrases.text import Chance, Draft, Locales, Pattern, Segment, Segments, cut, fill_in, in_slot, tables

Draw = Callable[[Chance], Draft | None]
Patterns = tuple[Pattern, Pattern]

UNIT_LENGTHS = ("long", "short")
# Spans of time that are written together, with the most that the later ones count.
_DURATIONS = (
    ("year", "month"),
    ("week", "day"),
    ("day", "hour"),
    ("hour", "minute"),
    ("minute", "second"),
    ("day", "hour", "minute"),
    ("hour", "minute", "second"),
)
_MOST = {"month": 11, "day": 6, "hour": 23, "minute": 59, "second": 59}
_PER = ("second", "minute", "hour", "day", "week", "month", "year")


class Phrases:
    """All kinds of phrases for a pair of languages.

    Args:
        locales: source and target.
        which: which names are used.
    """

    def __init__(self, locales: Locales, which: Which) -> None:
        self.locales = locales
        source, target = (Numbers(locale) for locale in locales)
        self.numbers = (source, target)
        self._rare = source.rare | target.rare
        self._count(codes(which)["currency"])
        self.kinds = {name: draw for name, draw in self._kinds(names(locales, which)).items() if draw}

    def _count(self, currencies: Iterable[str]) -> None:
        """Compile all that is counted; what is mistaken for something earlier is left out."""
        seen: dict[str, str] = {}

        def units(names: Iterable[str], length: str) -> list[Counted]:
            return countables(self.numbers, names, lambda n, name: unit_forms(n.locale, name, length))

        def spans(length: str, direction: str) -> list[Counted]:
            return countables(
                self.numbers, TIME_UNITS, lambda n, name: relative_forms(n.locale, name, length, direction)
            )

        times = [f"duration-{name}" for name in TIME_UNITS]
        self._times = {length: {item.name: item for item in units(times, length)} for length in UNIT_LENGTHS}
        self._units = distinct(units(UNITS, "long"), seen)
        long_times = distinct(self._times["long"].values(), seen)
        named = countables(self.numbers, currencies, lambda n, name: currency_forms(n.locale, name))
        self._named = distinct(named, seen)
        self._money = distinct(countables(self.numbers, currencies, money_forms, places=True), seen)
        self._short = distinct(units(UNITS, "short"), seen)
        self._counted = [*self._units, *self._short, *long_times, *distinct(self._times["short"].values(), seen)]
        relative = [spans(length, direction) for length in UNIT_LENGTHS for direction in ("future", "past")]
        self._relative = distinct(chain.from_iterable(relative), seen)

    def _kinds(self, names: Mapping[str, list[Name]]) -> dict[str, Draw | None]:
        clock = f"0{self.numbers[0].decimal}0"
        dates, times = days.date_forms(self.locales), days.time_forms(self.locales, [clock])
        whole = [form for form in dates if {"year", "day"} <= form.sides[0][0].told]
        short = [form for form in times if "second" not in form.sides[0][0].told]
        lists = list_patterns(self.locales, "standard", 4)
        things = [*self._units, *self._named, *self._money]
        return {
            "date": _from(days.draw_one, dates),
            "time": _from(days.draw_one, times),
            "date and time": _from(days.draw_both, whole, short, days.glues(self.locales)),
            "interval": _from(days.draw_one, days.interval_forms(self.locales)),
            "span": _from(self._span, self._relative),
            "duration": _from(_duration, self._durations()),
            "unit": _from(self._one, self._counted),
            "rate": _from(_rate, self._rates()),
            "currency": _from(self._currency, [some for some in (self._named, self._money) if some]),
            "number": self._number,
            "percent": self._percent,
            "names": _from(_names, [some for some in names.values() if len(some) > 3], self._styles(lists)),
            "amounts": _from(_amounts, things if len(things) > 2 else [], lists),
            "locale": _from(_locale, names["language"], names["territory"], lists[2]),
        }

    def _one(self, items: list[Counted], chance: Chance) -> Draft | None:
        return self._draft(chance.pick(items), modest(chance))

    def _draft(self, item: Counted, amount: Amount) -> Draft | None:
        if not item.tells(amount):
            return None
        closed = not amount.places and amount.digits in self._rare
        return Draft(partial(item.write, amount), closed)

    def _span(self, items: list[Counted], chance: Chance) -> Draft | None:
        item = chance.pick(items)
        return self._draft(item, Amount(1 + chance.below(chance.pick((31, 366, 999)))))

    def _durations(self) -> list[tuple[list[Counted], list[int], Patterns]]:
        """Times that are written together, with the most that each counts, and the patterns that join them."""
        found = []
        for length, style in (("long", "unit"), ("short", "unit-short")):
            table, patterns = self._times[length], list_patterns(self.locales, style, 3)
            for some in _DURATIONS:
                items = [table[f"duration-{name}"] for name in some if f"duration-{name}" in table]
                if len(items) == len(some) and distinct(items) == items and self._told_short(length, items):
                    found.append((items, [99, *(_MOST[name] for name in some[1:])], patterns[len(some)]))
        return found

    def _told_short(self, length: str, items: list[Counted]) -> bool:
        """Whether some member is always written otherwise than in full."""
        full = self._times["long"]
        return length == "long" or any(
            item.name in full and not {*item.samples[0]} & {*full[item.name].samples[0]} for item in items
        )

    def _rates(self) -> list[tuple[Counted, Patterns]]:
        """What is counted in each unit of time, with the patterns that say so."""
        known = {name.split("-", 1)[1] for locale in self.locales for name in tables(locale)["unit_patterns"]}
        items = [item for item in self._units if item.name.split("-")[0] not in ("speed", "temperature", "angle")]
        found: list[tuple[Counted, Patterns]] = []
        seen: set[str] = set()
        for unit in _PER:
            source, target = (per_pattern(locale, f"duration-{unit}") for locale in self.locales)
            if source and target and source not in seen:
                seen.add(source)
                found += [
                    (item, (cut(source), cut(target)))
                    for item in [*items, *self._named, *self._money]
                    if f"{item.name.split('-', 1)[-1]}-per-{unit}" not in known
                ]
        return found

    def _currency(self, kinds: list[list[Counted]], chance: Chance) -> Draft | None:
        item = chance.pick(chance.pick(kinds))
        return self._draft(item, _amount(item, chance))

    def _number(self, chance: Chance) -> Draft:
        places = max(0, chance.below(4) - 1)
        digits = chance.below(10 ** (2 + chance.below(5)))
        if places:
            digits = 10 * (digits % 10**5) + 1 + chance.below(9)
        return Draft(lambda side: self.numbers[side].number(Amount(digits, places)))

    def _percent(self, chance: Chance) -> Draft:
        places, whole = chance.below(3), chance.below(chance.pick((101, 10_000)))
        fraction = chance.below(10**places // 10 or 1) * 10 + 1 + chance.below(9) if places else 0
        return Draft(lambda side: self.numbers[side].percent(Amount(whole * 10**places + fraction, places)))

    def _styles(self, both: dict[int, Patterns]) -> list[dict[int, Patterns]]:
        """How names are joined: by and, or a third of them by or, where the source says which."""
        either = list_patterns(self.locales, "or", 4)
        return [both, both, either if all(both[count][0] != either[count][0] for count in both) else both]


def _from(draw: Callable[..., Draft | None], *choices: object) -> Draw | None:
    """Hand a draw what it chooses from; None where there is nothing."""
    return partial(draw, *choices) if all(choices) else None


def _duration(choices: list[tuple[list[Counted], list[int], Patterns]], chance: Chance) -> Draft:
    items, most, patterns = chance.pick(choices)
    amounts = [Amount(1 + chance.below(count)) for count in most]
    members = [partial(item.write, amount) for item, amount in zip(items, amounts, strict=True)]
    return Draft(partial(_joined, patterns, members))


def _rate(choices: list[tuple[Counted, Patterns]], chance: Chance) -> Draft | None:
    item, patterns = chance.pick(choices)
    amount = _amount(item, chance)
    if not item.tells(amount):
        return None
    return Draft(lambda side: fill_in(patterns[side], [item.write(amount, side)], ("per",)))


def _amount(item: Counted, chance: Chance) -> Amount:
    if item.places is None:
        return modest(chance)
    whole = chance.below(10 ** (1 + chance.below(5)))
    return Amount(whole * 10**item.places + chance.below(10**item.places), item.places)


def _names(fields: list[list[Name]], styles: list[dict[int, Patterns]], chance: Chance) -> Draft:
    """Draw a list of 2 to 4 names of one field."""
    count = chance.pick((2, 3, 3, 4))
    members = [name.write for name in chance.several(chance.pick(fields), count)]
    return Draft(partial(_joined, chance.pick(styles)[count], members))


def _amounts(items: list[Counted], lists: dict[int, Patterns], chance: Chance) -> Draft:
    """Draw a list of 2 or 3 round amounts of different things."""
    count = chance.pick((2, 2, 3))
    members = []
    for item in chance.several(items, count):
        number = chance.below(10 ** (1 + chance.below(3)))
        amount = Amount(number * 10 ** (item.places or 0), item.places or 0)
        members.append(partial(item.write, amount))
    return Draft(partial(_joined, lists[count], members))


def _locale(languages: list[Name], territories: list[Name], patterns: Patterns, chance: Chance) -> Draft | None:
    """Draw the name of a locale as Babel writes it, or two of them joined."""
    some = [(chance.pick(languages), chance.pick(territories)) for _ in range(chance.pick((1, 2, 2, 2)))]
    if len(set(some)) < len(some):
        return None
    return Draft(partial(_joined, patterns, [partial(_locale_name, *names) for names in some]))


def _locale_name(language: Name, territory: Name, side: int) -> Segments:
    return [*language.write(side), Segment(" ("), *territory.write(side), Segment(")")]


def _joined(patterns: Patterns, members: Sequence[Callable[[int], Segments]], side: int) -> Segments:
    """Put the members together, the fields of each in a slot of its own; one stays alone."""
    parts = [in_slot(write(side), slot) for slot, write in enumerate(members)]
    return fill_in(patterns[side], parts) if len(parts) > 1 else parts[0]
