"""Dates, times, and intervals of either: CLDR's formats that two languages share, compiled to write segments fast."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, partial
from typing import NamedTuple

from babel import Locale

from selfattn.data.dates.patterns import TWO_DIGIT_YEARS, YEARS, PatternPiece, compile_pieces
from selfattn.data.phrases.text import Chance, Draft, Locales, Pattern, Segment, Segments, cut, fill_in, text_of, tidy

LENGTHS = ("full", "long", "medium", "short")
DATE_SKELETONS = ("yMd", "yMMMEd", "yMMMM", "MMMd")
TIME_SKELETONS = ("hm", "Hm", "Hms", "hms")
# Skeletons of intervals with the fields that may be the largest to differ.
INTERVALS = {"yMMMd": "dMy", "yMMMEd": "dMy", "yMd": "dMy", "yMMMM": "My", "MMMd": "dM", "hm": "ahm", "Hm": "Hm"}
_FIRST_YEAR, _YEARS = 1900, 190


class Moment(NamedTuple):
    """A day and a time of day; what a pattern does not write is not looked at."""

    year: int = YEARS.start
    month: int = 1
    day: int = 1
    weekday: int = 0
    hour: int = 0
    minute: int = 0
    second: int = 0

    @classmethod
    def on(cls, day: date) -> Moment:
        """Return the beginning of a day.

        Example:
            >>> Moment.on(date(2008, 11, 13)).weekday
            3
        """
        return cls(day.year, day.month, day.day, day.weekday())


@dataclass(frozen=True)
class Writer:
    """One pattern in one language.

    Args:
        pieces: in their order.

    Example:
        >>> from selfattn.data.phrases.text import text_of
        >>> writer = compile_pattern("d MMM y, h:mm a", Locale("en"))
        >>> text_of(writer.write(Moment(2008, 11, 13, hour=15)))
        '13 Nov 2008, 3:00 PM'
    """

    pieces: tuple[PatternPiece, ...]

    def write(self, moment: Moment, second: frozenset[str] = frozenset()) -> Segments:
        """Write a moment, the fields named `second` in slot 1, others in slot 0."""
        return [
            Segment(texts[moment[place] - first], fields, int(fields[0] in second)) if fields else Segment(texts[0])
            for place, first, fields, texts in self._places
        ]

    @cached_property
    def _places(self) -> list[tuple[int, int, tuple[str, ...], tuple[str, ...]]]:
        """Of each piece the place in a moment and the first value there, its fields and its texts."""
        places = {name: place for place, name in enumerate(Moment._fields)} | {"period": 4, "": 0}
        return [(places[piece.field], piece.first, piece.fields, piece.texts) for piece in self.pieces]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The fields in their order, one for each piece that is not fixed."""
        return tuple(piece.field for piece in self.pieces if piece.fields)

    @cached_property
    def told(self) -> frozenset[str]:
        """All that the pattern tells."""
        return frozenset(field for piece in self.pieces for field in piece.fields)

    @cached_property
    def signature(self) -> str:
        """What all its texts have in common; two patterns that ever write the same text have the same one.

        Example:
            >>> compile_pattern("d. MMM y", Locale("de")).signature
            '0. <month> 0000'
        """
        return "".join(map(_mark, self.pieces))


def _mark(piece: PatternPiece) -> str:
    """What all texts of a piece have in common."""
    if not piece.fields:
        return piece.texts[0]
    if not piece.texts[-1].isdecimal():
        return f"<{piece.field}>"
    return "0000" if piece.field == "year" else "0"


def compile_pattern(pattern: str, locale: Locale) -> Writer | None:
    """Compile a CLDR pattern; None where it has fields that are not known here, or a year of two digits.

    Args:
        pattern: see `selfattn.data.dates.patterns.compile_pieces`.
        locale: whose names are used, as Babel writes them.
    """
    pieces = compile_pieces(pattern, locale)
    if pieces is None or any(piece.field == "year" and piece.first == TWO_DIGIT_YEARS.start for piece in pieces):
        return None
    return Writer(tuple(replace(piece, texts=tuple(map(tidy, piece.texts))) for piece in pieces))


@dataclass(frozen=True)
class Form:
    """A format in both languages.

    Args:
        name: CLDR's name of the length or skeleton; of an interval also the largest field that differs.
        sides: for source and target the pattern, or for an interval those of its two ends.
        rivals: earlier formats that may write the same source text.
    """

    name: str
    sides: tuple[tuple[Writer, ...], tuple[Writer, ...]]
    rivals: list[Form] = field(default_factory=list, compare=False, repr=False)

    def write(self, moments: tuple[Moment, ...], side: int) -> Segments:
        """Write a moment, or an interval, in the source (0) or target (1) language."""
        writers = self.sides[side]
        if len(moments) == 1:
            return writers[0].write(moments[0])
        return [*writers[0].write(moments[0]), *writers[1].write(moments[1], self.second)]

    @property
    def second(self) -> frozenset[str]:
        """What both languages write at both ends of an interval: those at the end are fields of their own."""
        return frozenset.intersection(*(writer.told for writers in self.sides for writer in writers))

    @cached_property
    def signature(self) -> str:
        """What all its source texts have in common."""
        return "".join(writer.signature for writer in self.sides[0])

    @cached_property
    def order(self) -> tuple[tuple[str, ...], ...]:
        """The fields of its source texts in their order, of an interval for each end."""
        return tuple(writer.order for writer in self.sides[0])

    def draw(self, chance: Chance) -> tuple[Moment, ...]:
        """Draw a day from 1900 to 2089, a time of day, or the ends of an interval."""
        if len(self.sides[0]) == 2:
            return _ends(self.name[-1], chance)
        if "hour" in self.sides[0][0].told:
            return (Moment(hour=chance.below(24), minute=chance.below(60), second=chance.below(60)),)
        return (Moment.on(_day(chance)),)

    def clashes(self, moments: tuple[Moment, ...]) -> bool:
        """Whether an earlier format writes the same source text, and another target."""
        return any(
            text_of(rival.write(moments, 0)) == text_of(self.write(moments, 0))
            and text_of(rival.write(moments, 1)) != text_of(self.write(moments, 1))
            for rival in self.rivals
        )


def told_apart(forms: Iterable[Form], taken: Iterable[str] = ()) -> list[Form]:
    """Keep the formats whose source tells all of the target, and that are not mistaken for each other.

    Args:
        forms: in the order of preference: of two with equal source patterns the first stays.
        taken: signatures of source texts that stand for something else.
    """
    kept: list[Form] = []
    for form in forms:
        told, wanted = (frozenset.union(*(writer.told for writer in writers)) for writers in form.sides)
        same = [other for other in kept if other.signature == form.signature]
        if not wanted <= told or ("hour" in told and "period" not in told) or form.signature in taken:
            continue
        if any(other.sides[0] == form.sides[0] or other.order != form.order for other in same):
            continue
        kept.append(Form(form.name, form.sides, same))
    return kept


def _form(name: str, patterns: Iterable[Iterable[str]], locales: Locales) -> Form | None:
    """Compile a format; None where one of its patterns cannot be used."""
    sides = [[compile_pattern(one, locale) for one in some] for some, locale in zip(patterns, locales, strict=True)]
    source, target = (tuple(writer for writer in side if writer) for side in sides)
    return Form(name, (source, target)) if sides == [list(source), list(target)] and source and target else None


def _forms(table: str, names: Iterable[str], locales: Locales) -> Iterator[Form]:
    """Compile the formats of these names that a table of both locales has."""
    found = [getattr(locale, table) for locale in locales]
    for name in names:
        if all(name in formats for formats in found):
            form = _form(name, [[formats[name].pattern] for formats in found], locales)
            if form:
                yield form


def date_forms(locales: Locales) -> list[Form]:
    """Return the formats of dates: CLDR's lengths, and skeletons for numbers, weekdays, and parts of a date."""
    skeletons = _forms("datetime_skeletons", DATE_SKELETONS, locales)
    return told_apart([*_forms("date_formats", LENGTHS, locales), *skeletons])


def time_forms(locales: Locales, taken: Iterable[str] = ()) -> list[Form]:
    """Return the formats of times of day: CLDR's short and medium, and both clocks, with and without seconds."""
    skeletons = _forms("datetime_skeletons", TIME_SKELETONS, locales)
    return told_apart([*_forms("time_formats", ("short", "medium"), locales), *skeletons], taken)


def interval_forms(locales: Locales) -> list[Form]:
    """Return the formats of intervals, one for each skeleton and largest field that differs."""
    kept = []
    for letter in dict.fromkeys("".join(INTERVALS.values())):  # the ends show which one it is
        forms = []
        for skeleton in (name for name, letters in INTERVALS.items() if letter in letters):
            found = [locale.interval_formats.get(skeleton, {}).get(letter) for locale in locales]
            form = _form(f"{skeleton} {letter}", found, locales) if all(found) else None
            if form and all(len(writers) == 2 for writers in form.sides):
                forms.append(form)
        kept += told_apart(forms)
    return kept


def glues(locales: Locales) -> dict[str, tuple[Pattern, ...]]:
    """Return for each length how a time ({0}) and a date ({1}) are put together."""
    return {
        length: tuple(cut(str(locale.datetime_formats[length]).replace("'", "")) for locale in locales)
        for length in LENGTHS
    }


def draw_one(forms: list[Form], chance: Chance) -> Draft | None:
    """Draw a date, a time or an interval."""
    form = chance.pick(forms)
    moments = form.draw(chance)
    return None if form.clashes(moments) else Draft(partial(form.write, moments))


def draw_both(
    dates: list[Form], times: list[Form], glue: dict[str, tuple[Pattern, ...]], chance: Chance
) -> Draft | None:
    """Draw a date with a time."""
    day_form, time_form = chance.pick(dates), chance.pick(times)
    day, time = day_form.draw(chance), time_form.draw(chance)
    if day_form.clashes(day) or time_form.clashes(time):
        return None
    patterns = glue.get(day_form.name) or glue["medium"]
    return Draft(lambda side: fill_in(patterns[side], [time_form.write(time, side), day_form.write(day, side)]))


def _day(chance: Chance) -> date:
    """Draw a year, a month, and a day of the month."""
    year, month = _FIRST_YEAR + chance.below(_YEARS), 1 + chance.below(12)
    return date(year, month, 1 + chance.below(calendar.monthrange(year, month)[1]))


def _ends(letter: str, chance: Chance) -> tuple[Moment, Moment]:
    """Draw two moments, the first before the second, of which `letter` is the largest field that differs."""
    if letter in "yMd":
        first, last = _day(chance), _day(chance)
        if letter == "y":
            last = _in(first.year + 1 + chance.below(10), last.month, last.day)
        elif letter == "M":
            early, late = _ordered(12, chance)
            first, last = _in(first.year, early + 1, first.day), _in(first.year, late + 1, last.day)
        else:
            early, late = _ordered(calendar.monthrange(first.year, first.month)[1], chance)
            first, last = first.replace(day=early + 1), first.replace(day=late + 1)
        return Moment.on(first), Moment.on(last)
    minutes = chance.below(60), chance.below(60)
    if letter == "a":
        hours = chance.below(12), 12 + chance.below(12)
    elif letter == "m":
        hours = (chance.below(24),) * 2
        minutes = _ordered(60, chance)
    else:
        hours = _ordered(24 if letter == "H" else 12, chance)
        if letter == "h" and chance.below(2):
            hours = hours[0] + 12, hours[1] + 12
    return Moment(hour=hours[0], minute=minutes[0]), Moment(hour=hours[1], minute=minutes[1])


def _ordered(count: int, chance: Chance) -> tuple[int, int]:
    early, late = sorted(chance.several(range(count), 2))
    return early, late


def _in(year: int, month: int, day: int) -> date:
    return date(year, month, min(day, calendar.monthrange(year, month)[1]))
