"""The kinds of phrases of the CLDR corpus, each a function that draws one by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

from selfattn.data.phrases import calendars as days
from selfattn.data.phrases.counts import (
    TIMES,
    UNITS,
    Counted,
    countables,
    currency_forms,
    distinct,
    money_forms,
    per_pattern,
    relative_forms,
    unit_forms,
)
from selfattn.data.phrases.names import Name, Which, codes, list_patterns, names
from selfattn.data.phrases.numbers import Amount, Numbers, modest
from selfattn.data.phrases.text import Chance, Draft, Locales, Pattern, Segment, Segments, cut, fill, in_slot, tables

Draw = Callable[[Chance], Draft | None]

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
        self._names = names(locales, which)
        self._count(which)
        self.kinds: dict[str, Draw] = {name: draw for name, draw in self._kinds() if draw}

    def _count(self, which: Which) -> None:
        """Compile all that is counted; what is mistaken for something earlier is left out."""
        seen: dict[str, str] = {}

        def units(names: Iterable[str], length: str) -> list[Counted]:
            return countables(self.numbers, names, lambda n, name: unit_forms(n.locale, name, length))

        def spans(direction: str, length: str) -> list[Counted]:
            return countables(self.numbers, TIMES, lambda n, name: relative_forms(n.locale, name, length, direction))

        times = [f"duration-{name}" for name in TIMES]
        self._times = {length: {item.name: item for item in units(times, length)} for length in UNIT_LENGTHS}
        self._units = distinct(units(UNITS, "long"), seen)
        long_times = distinct(self._times["long"].values(), seen)
        currencies = codes(which)["currency"]
        named = countables(self.numbers, currencies, lambda n, name: currency_forms(n.locale, name))
        self._named = distinct(named, seen)
        self._money = distinct(countables(self.numbers, currencies, money_forms, places=True), seen)
        self._short = distinct(units(UNITS, "short"), seen)
        self._counted = [*self._units, *self._short, *long_times, *distinct(self._times["short"].values(), seen)]
        relative = [spans(direction, length) for length in UNIT_LENGTHS for direction in ("future", "past")]
        self._relative = distinct(chain.from_iterable(relative), seen)
        self._per = self._rates()

    def _kinds(self) -> list[tuple[str, Draw | None]]:
        clock = f"0{self.numbers[0].decimal}0"
        dates, times = days.date_forms(self.locales), days.time_forms(self.locales, [clock])
        whole = [form for form in dates if {"year", "day"} <= form.sides[0][0].told]
        short = [form for form in times if "second" not in form.sides[0][0].told]
        intervals = days.interval_forms(self.locales)
        glue = days.glues(self.locales)
        return [
            ("date", partial(days.draw_single, dates, "date") if dates else None),
            ("time", partial(days.draw_single, times, "time") if times else None),
            ("date and time", partial(days.draw_both, whole, short, glue) if whole and short else None),
            ("interval", partial(days.draw_interval, intervals) if intervals else None),
            ("span", self._span if self._relative else None),
            ("duration", self._duration()),
            ("unit", partial(self._one, self._counted) if self._counted else None),
            ("rate", self._rate if self._per else None),
            ("currency", self._currency if self._named or self._money else None),
            ("number", self._number),
            ("percent", self._percent),
            ("names", self._list()),
            ("amounts", self._amounts()),
            ("locale", self._locale()),
        ]

    def _one(self, items: list[Counted], chance: Chance) -> Draft | None:
        return self._draft(chance.pick(items), modest(chance))

    def _draft(self, item: Counted, amount: Amount) -> Draft | None:
        if not item.tells(amount):
            return None
        closed = not amount.places and amount.digits in self._rare
        return Draft(partial(item.write, amount), closed)

    def _span(self, chance: Chance) -> Draft | None:
        item = chance.pick(self._relative)
        return self._draft(item, Amount(1 + chance.below(chance.pick((31, 366, 999)))))

    def _duration(self) -> Draw | None:
        choices = []
        for length, style in (("long", "unit"), ("short", "unit-short")):
            table = self._times[length]
            for some in _DURATIONS:
                items = [table.get(f"duration-{name}") for name in some]
                found = [item for item in items if item]
                if len(found) == len(some) and distinct(found) == found and self._told_short(length, found):
                    choices.append((found, [_MOST[name] for name in some[1:]], list_patterns(self.locales, style, 3)))
        if not choices:
            return None

        def draw(chance: Chance) -> Draft:
            items, most, patterns = chance.pick(choices)
            amounts = [Amount(1 + chance.below(count)) for count in (99, *most)]
            return Draft(partial(_listed, patterns[len(items)], [*zip(items, amounts, strict=True)]))

        return draw

    def _told_short(self, length: str, items: list[Counted]) -> bool:
        """Whether some member is always written otherwise than in full."""
        full = self._times["long"]
        return length == "long" or any(
            item.name in full and not {*item.samples[0]} & {*full[item.name].samples[0]} for item in items
        )

    def _rates(self) -> list[tuple[Counted, tuple[Pattern, Pattern]]]:
        known = {name.split("-", 1)[1] for locale in self.locales for name in tables(locale)["unit_patterns"]}
        items = [item for item in self._units if item.name.split("-")[0] not in ("speed", "temperature", "angle")]
        found: list[tuple[Counted, tuple[Pattern, Pattern]]] = []
        seen: set[str] = set()
        for unit in _PER:
            per = [per_pattern(locale, f"duration-{unit}") for locale in self.locales]
            if not (per[0] and per[1]) or per[0] in seen:
                continue
            seen.add(per[0])
            patterns = cut(per[0]), cut(per[1])
            found += [
                (item, patterns)
                for item in [*items, *self._named, *self._money]
                if f"{item.name.split('-', 1)[-1]}-per-{unit}" not in known
            ]
        return found

    def _rate(self, chance: Chance) -> Draft | None:
        item, patterns = chance.pick(self._per)
        amount = self._amount(item, chance)
        if not item.tells(amount):
            return None
        return Draft(lambda side: fill(patterns[side], [item.write(amount, side)], ("per",)))

    def _amount(self, item: Counted, chance: Chance) -> Amount:
        if item.places is None:
            return modest(chance)
        whole = chance.below(10 ** (1 + chance.below(5)))
        return Amount(whole * 10**item.places + chance.below(10**item.places), item.places)

    def _currency(self, chance: Chance) -> Draft | None:
        item = chance.pick(chance.pick([some for some in (self._named, self._money) if some]))
        return self._draft(item, self._amount(item, chance))

    def _number(self, chance: Chance) -> Draft | None:
        places = max(0, chance.below(4) - 1)
        digits = chance.below(10 ** (2 + chance.below(5)))
        if places:
            digits = 10 * (digits % 10**5) + 1 + chance.below(9)
        amount = Amount(digits, places)
        return Draft(lambda side: self.numbers[side].number(amount))

    def _percent(self, chance: Chance) -> Draft | None:
        places, whole = chance.below(3), chance.below(chance.pick((101, 10_000)))
        fraction = chance.below(10**places // 10 or 1) * 10 + 1 + chance.below(9) if places else 0
        amount = Amount(whole * 10**places + fraction, places)
        return Draft(lambda side: self.numbers[side].percent(amount))

    def _list(self) -> Draw | None:
        """Lists of 2 to 4 names of one field, joined by and, or by or where the source says which."""
        fields = [some for some in self._names.values() if len(some) > 3]
        both = list_patterns(self.locales, "standard", 4)
        either = list_patterns(self.locales, "or", 4)
        apart = all(both[count][0] != either[count][0] for count in both)
        styles = [both, both, either if apart else both]
        if not fields:
            return None

        def draw(chance: Chance) -> Draft:
            count = chance.pick((2, 3, 3, 4))
            members = chance.several(chance.pick(fields), count)
            return Draft(partial(_named, chance.pick(styles)[count], members))

        return draw

    def _amounts(self) -> Draw | None:
        items = [*self._units, *self._named, *self._money]
        patterns = list_patterns(self.locales, "standard", 3)
        if len(items) < 3:
            return None

        def draw(chance: Chance) -> Draft:
            count = chance.pick((2, 2, 3))
            members = [(item, self._small(item, chance)) for item in chance.several(items, count)]
            return Draft(partial(_listed, patterns[count], members))

        return draw

    def _small(self, item: Counted, chance: Chance) -> Amount:
        number = chance.below(10 ** (1 + chance.below(3)))
        return Amount(number) if item.places is None else Amount(number * 10**item.places, item.places)

    def _locale(self) -> Draw | None:
        """Names of locales as Babel writes them, and two of them joined."""
        languages, territories = self._names["language"], self._names["territory"]
        patterns = list_patterns(self.locales, "standard", 2)
        if not (languages and territories):
            return None

        def draw(chance: Chance) -> Draft | None:
            some = [(chance.pick(languages), chance.pick(territories)) for _ in range(chance.pick((1, 2, 2, 2)))]
            if len(set(some)) < len(some):
                return None
            return Draft(partial(_locales, patterns[2], some))

        return draw


def _listed(patterns: tuple[Pattern, Pattern], members: list[tuple[Counted, Amount]], side: int) -> Segments:
    parts = [in_slot(item.write(amount, side), slot) for slot, (item, amount) in enumerate(members)]
    return fill(patterns[side], parts)


def _named(patterns: tuple[Pattern, Pattern], members: list[Name], side: int) -> Segments:
    parts = [[Segment(name.texts[side], (name.field,), slot)] for slot, name in enumerate(members)]
    return fill(patterns[side], parts)


def _locales(patterns: tuple[Pattern, Pattern], some: list[tuple[Name, Name]], side: int) -> Segments:
    parts = [
        [
            Segment(language.texts[side], ("language",), slot),
            Segment(" ("),
            Segment(territory.texts[side], ("territory",), slot),
            Segment(")"),
        ]
        for slot, (language, territory) in enumerate(some)
    ]
    return parts[0] if len(parts) == 1 else fill(patterns[side], parts)
