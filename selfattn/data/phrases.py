"""The embedded corpus for translation: endless phrases in any two languages of CLDR, without a download.

A kind of phrases, such as dates or prices, draws one at random, and Babel writes it in both languages. Runs of
characters say what they stand for, so that two texts make a pair with gold alignment.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from itertools import chain, product
from itertools import count as count_up
from random import Random
from typing import Any, NamedTuple, Self

from babel import Locale
from babel.lists import format_list
from babel.numbers import format_currency, format_decimal, get_currency_precision, get_territory_currencies
from babel.units import format_unit

from selfattn.data.dates.patterns import TWO_DIGIT_YEARS, PatternPiece, compile_pieces, find_locale
from selfattn.data.pairs import Pair, Span
from selfattn.data.splits import EndlessSplits, Split, split_at

_SPACES = str.maketrans(dict.fromkeys("\u00a0\u202f\u2009\u3000", " "))
_NUMBER = re.compile(r"\d(?:.*\d)?")


class Segment(NamedTuple):
    """A run of characters.

    Attributes:
        text: the characters.
        fields: names of what the text stands for; empty for connecting text.
        slot: separates fields of the same name, such as the numbers of two amounts.
    """

    text: str
    fields: tuple[str, ...] = ()
    slot: int = 0


Segments = list[Segment]
Pattern = tuple[str | int, ...]
Range = tuple[int, int]


def tidy(text: str) -> str:
    """Return the text in NFC, with plain spaces for CLDR's no-break and thin spaces.

    Example:
        >>> tidy("3:05\\u202fPM")
        '3:05 PM'
    """
    return unicodedata.normalize("NFC", text).translate(_SPACES)


def cut(pattern: str) -> Pattern:
    """Cut a CLDR pattern at its placeholders.

    Example:
        >>> cut("{1} at {0}")
        (1, ' at ', 0)
    """
    parts = re.split(r"\{(\d)\}", tidy(pattern))
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts) if part)


def fill_in(pattern: Pattern, parts: Sequence[Segments]) -> Segments:
    """Put segments into the placeholders of a pattern."""
    segments: Segments = []
    for piece in pattern:
        segments += parts[piece] if isinstance(piece, int) else [Segment(piece)]
    return segments


def amount_segments(text: str, field: str) -> Segments:
    """Split a written amount into its number and the words around it.

    Args:
        text: an amount as Babel writes it.
        field: what the words stand for.

    Returns:
        The segments. Text without a number, such as the Arabic "two days", stands for number and field.

    Example:
        >>> [segment[:2] for segment in amount_segments("in 3 days", "unit")]
        [('in', ('unit',)), (' ', ()), ('3', ('number',)), (' ', ()), ('days', ('unit',))]
    """
    number = _NUMBER.search(text := tidy(text))
    if number is None:
        return list(_words(text, ("number", field)))
    before = text[: number.start()]
    after = text[number.end() :]
    return [*_words(before, (field,)), Segment(number[0], ("number",)), *_words(after, (field,))]


def _words(text: str, fields: tuple[str, ...]) -> Iterator[Segment]:
    core = text.strip()
    before, _, after = text.partition(core) if core else (text, "", "")
    for part, names in ((before, ()), (core, fields), (after, ())):
        if part:
            yield Segment(part, names)


def text_of(segments: Segments) -> str:
    """Return the text alone.

    Example:
        >>> text_of([Segment("3", ("number",)), Segment(" "), Segment("days", ("unit",))])
        '3 days'
    """
    return "".join([segment.text for segment in segments])


def aligned_pair(source: Segments, target: Segments, tag: str) -> Pair:
    """Join both sides into a pair, with a span wherever the two sides share a field in the same slot.

    A field in two pieces on one side (``in 3 days``) has a span for each piece.

    Example:
        >>> pair = aligned_pair([Segment("3", ("number",)), Segment(" days", ("unit",))],
        ...                [Segment("3", ("number",)), Segment("일", ("unit",))], "unit")
        >>> pair.target, [(span.field, span.source, span.target) for span in pair.spans]
        ('3일', [('number', (0, 1), (0, 1)), ('unit', (1, 6), (1, 2))])
    """
    targets = list(_places(target))
    spans: dict[tuple[Range, Range], Span] = {}
    for field, here in _places(source):
        for target_field, there in targets:
            if field == target_field:  # of several fields in one place, the first names it, and the last orders it
                spans[here, there] = spans.pop((here, there), Span(field[0], here, there))
    return Pair(text_of(source), text_of(target), tag, tuple(spans.values()))


def _places(segments: Segments) -> Iterator[tuple[tuple[str, int], Range]]:
    """Yield every field with its slot, and its range of characters."""
    end = 0
    for text, fields, slot in segments:
        start = end
        end = end + len(text)
        for field in fields:
            yield (field, slot), (start, end)


LENGTHS = ("full", "long", "medium", "short")
TIMES = ("year", "month", "week", "day", "hour", "minute", "second")
UNITS = [
    *("length-kilometer", "length-meter", "length-centimeter", "length-millimeter", "length-mile", "length-foot"),
    *("length-inch", "mass-tonne", "mass-kilogram", "mass-gram", "mass-pound", "mass-ounce", "volume-liter"),
    *("volume-milliliter", "volume-cubic-meter", "area-square-meter", "area-square-kilometer", "area-hectare"),
    *("temperature-celsius", "angle-degree", "speed-kilometer-per-hour", "speed-meter-per-second"),
    *("digital-gigabyte", "digital-megabyte", "digital-byte", "power-watt", "power-kilowatt", "energy-kilocalorie"),
    *("energy-kilowatt-hour", "electric-volt", "frequency-megahertz", *(f"duration-{unit}" for unit in TIMES)),
]
# The Group of Twenty: its countries, their currencies and their official languages.
TERRITORIES = (
    *("AR", "AU", "BR", "CA", "CN", "DE", "FR", "GB", "ID", "IN"),
    *("IT", "JP", "KR", "MX", "RU", "SA", "TR", "US", "ZA"),
)
CURRENCIES = sorted(set[str]().union(*(get_territory_currencies(code, date(2020, 1, 1)) for code in TERRITORIES)))
LANGUAGES = ("ar", "de", "en", "es", "fr", "hi", "id", "it", "ja", "ko", "pt", "ru", "tr", "zh")
_FIRST_DAY = date(1900, 1, 1)
_DAYS = 69_396  # to the end of 2089
_SAMPLES = (*range(6), 11, 12, 21, 100, Decimal("1.5"))  # every plural form of every language is among these

Locales = tuple[Locale, Locale]
Number = int | Decimal


class Draft(NamedTuple):
    """A phrase before it is written.

    Attributes:
        write: returns the segments in the source (0) or target (1) language.
        train_only: whether other phrases do not show how to write this one.
    """

    write: Callable[[int], Segments]
    train_only: bool = False


class Counted(NamedTuple):
    """Something that can be counted.

    Attributes:
        write: writes a number of it in a locale.
        field: what its words stand for: ``"unit"`` or ``"currency"``.
        locales: of source and target.
        places: decimals that are always written; None for as many as the number has.
    """

    write: Callable[[Number, Locale], str]
    field: str
    locales: Locales
    places: int | None = None

    def segments(self, number: Number, side: int) -> Segments:
        """Write a number of it in the source (0) or target (1) language."""
        return amount_segments(self.write(number, self.locales[side]), self.field)

    def shows(self, number: Number) -> bool:
        """Whether both texts tell the number. Words without digits (``a day``) cannot tell a fraction."""
        return isinstance(number, int) or all(any(map(str.isdecimal, self.write(number, x))) for x in self.locales)


Draw = Callable[[Random], Draft | None]
Pieces = tuple[PatternPiece, ...]


@dataclass(frozen=True)
class DateForms:
    """Formats of dates, or of times, in the languages of source and target.

    Attributes:
        forms: of each length of CLDR its name, and the format of each side; the source tells all that the target tells.
    """

    forms: Sequence[tuple[str, tuple[Pieces, Pieces]]]

    @classmethod
    def of_tables(cls, tables: Sequence[Mapping[str, Any]], locales: Locales) -> Self:
        """Compile CLDR's tables of formats, one for each side."""
        forms = []
        for length in LENGTHS:
            source = cls._compiled(tables[0][length].pattern, locales[0])
            target = cls._compiled(tables[1][length].pattern, locales[1])
            if source and target:
                fields = set[str]().union(*(piece.fields for piece in source))
                is_told = fields.issuperset(chain.from_iterable(piece.fields for piece in target))
                if is_told and ("hour" not in fields or "period" in fields):
                    forms.append((length, (source, target)))
        return cls(forms)

    @staticmethod
    def _compiled(pattern: str, locale: Locale) -> Pieces:
        """Compile a pattern; empty where it has unknown fields, such as time zones, or a year of two digits."""
        pieces = compile_pieces(pattern, locale) or ()
        if any(piece.field == "year" and piece.first == TWO_DIGIT_YEARS.start for piece in pieces):
            return ()
        return tuple(replace(piece, texts=tuple(map(tidy, piece.texts))) for piece in pieces)

    def draw(self, chance: Random) -> Draft | None:
        """Draw a day of 1900 to 2089 or a time; None where an earlier format writes it the same, but another target."""
        day = _FIRST_DAY + timedelta(days=chance.randrange(_DAYS))
        hour = chance.randrange(24)
        minute = chance.randrange(60)
        second = chance.randrange(60)
        values = {"year": day.year, "month": day.month, "day": day.day, "weekday": day.weekday(), "": 0}
        values |= {"hour": hour, "period": hour, "minute": minute, "second": second}

        def write(place: int, side: int) -> Segments:
            return [Segment(p.texts[values[p.field] - p.first], p.fields) for p in self.forms[place][1][side]]

        place = chance.randrange(len(self.forms))
        sides = write(place, 0), write(place, 1)
        source, target = map(text_of, sides)
        if any(text_of(write(k, 0)) == source and text_of(write(k, 1)) != target for k in range(place)):
            return None
        return Draft(sides.__getitem__)


@lru_cache(maxsize=16)
def kinds_of(locales: Locales) -> dict[str, Draw]:
    """Return the kinds of phrases of two languages, by name; a kind that one language has no data for is left out.

    Args:
        locales: of source and target.

    Example:
        >>> kinds = kinds_of((Locale("en"), Locale("ko")))
        >>> draft = kinds["span"](Random(0))
        >>> text_of(draft.write(0)), text_of(draft.write(1))
        ('21 minutes ago', '21분 전')
    """
    targets: dict[str, str] = {}
    long = _distinct([Counted(partial(_unit, name, "long"), "unit", locales) for name in UNITS], targets)
    short = _distinct([Counted(partial(_unit, name, "short"), "unit", locales) for name in UNITS], targets)
    named = [Counted(partial(_price, code, "name"), "currency", locales) for code in CURRENCIES]
    signed = [
        Counted(partial(_price, code, "standard"), "currency", locales, get_currency_precision(code))
        for code in CURRENCIES
    ]
    prices = _distinct([*named, *signed], targets)
    choices = product(("long", "short"), ("future", "past"), TIMES)
    spans = _distinct([Counted(partial(_span, *choice), "unit", locales) for choice in choices], targets)
    rare = set[int]()
    for locale in locales:
        forms = [str(locale.plural_form(number)) for number in range(101)]
        rare |= {number for number, form in enumerate(forms) if forms.count(form) < 5}
    dates = DateForms.of_tables([locale.date_formats for locale in locales], locales)
    times = DateForms.of_tables([locale.time_formats for locale in locales], locales)
    draws: dict[str, tuple[Draw, Iterable[object]]] = {
        "date": (dates.draw, dates.forms),
        "time": (times.draw, times.forms),
        "date and time": (partial(_date_and_time, dates, times, locales), dates.forms and times.forms),
        "span": (partial(_amount, spans, _small_number, rare), spans),
        "unit": (partial(_amount, [*long, *short], _any_number, rare), long),
        "price": (partial(_amount, prices, _any_number, rare), prices),
        "list": (partial(_list, _names(locales), [*long, *prices], _list_patterns(locales)), (1,)),
    }
    return {name: draw for name, (draw, material) in draws.items() if material}


def _unit(name: str, length: Any, number: Number, locale: Locale) -> str:
    # Babel lacks the long forms that CLDR takes over from the short ones, and writes the identifier of the unit.
    text = format_unit(number, name, length, locale=locale)
    return format_unit(number, name, "short", locale=locale) if name in text else text


def _price(code: str, style: Any, number: Number, locale: Locale) -> str:
    return format_currency(number, code, locale=locale, format_type=style, currency_digits=style == "standard")


def _span(length: str, direction: str, unit: str, number: Number, locale: Locale) -> str:
    fields: Any = locale._data["date_fields"]  # type: ignore[attr-defined]  # Babel has no public function for a number of any size
    patterns = fields.get(f"{unit}-{length}", {}).get(direction) or fields[unit][direction]
    pattern: str = patterns.get(locale.plural_form(number)) or patterns["other"]
    return pattern.replace("{0}", format_decimal(number, locale=locale))


def _distinct(items: Iterable[Counted], kept: dict[str, str]) -> list[Counted]:
    """Keep the items whose source texts each stand for one amount of one thing. Of two equal ones the first stays.

    Args:
        items: in the order of preference.
        kept: source texts of kept items with their targets; those of further kept items are added.
    """
    distinct = []
    for item in items:
        samples = [number for number in _SAMPLES if item.shows(number)]
        sides = [[text_of(item.segments(number, side)) for number in samples] for side in (0, 1)]
        texts = dict(zip(*sides, strict=True))
        clashes = any(kept.get(source, target) != target for source, target in texts.items())
        if not clashes and len(texts) == len(set(texts.values())) == len(samples) and not texts.keys() <= kept.keys():
            kept |= texts
            distinct.append(item)
    return distinct


def _small_number(chance: Random) -> Number:
    return 1 + chance.randrange(chance.choice((31, 366, 999)))


def _any_number(chance: Random) -> Number:
    """Draw a number of 1 to 5 digits, all lengths equally likely; one in six has a decimal."""
    digits = chance.randrange(6)
    if not digits:
        return Decimal(10 * chance.randrange(100) + chance.randrange(1, 10)) / 10
    return chance.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits)


def _amount(items: list[Counted], size: Callable[[Random], Number], rare: set[int], chance: Random) -> Draft | None:
    """Draw an amount. One with a rare plural form is for training only, for no other amount shows that form."""
    item = chance.choice(items)
    number = size(chance)
    if item.places:
        number = Decimal(int(number) * 10**item.places + chance.randrange(10**item.places)).scaleb(-item.places)
    return Draft(partial(item.segments, number), number in rare) if item.shows(number) else None


def _date_and_time(dates: DateForms, times: DateForms, locales: Locales, chance: Random) -> Draft | None:
    form = chance.choice(dates.forms)
    day = DateForms([form]).draw(chance)
    time = times.draw(chance)
    if day is None or time is None:
        return None
    patterns = [cut(str(locale.datetime_formats[form[0]]).replace("'", "")) for locale in locales]
    return Draft(lambda side: fill_in(patterns[side], [time.write(side), day.write(side)]))


def _names(locales: Locales) -> list[list[tuple[Segments, Segments]]]:
    """Return names of countries, languages, weekdays and months, each in both languages."""
    fields: dict[str, tuple[Iterable[Any], Callable[[Locale], Mapping[Any, str]]]] = {
        "territory": (TERRITORIES, lambda x: x.territories),
        "language": (LANGUAGES, lambda x: x.languages),
        "weekday": (range(7), lambda x: x.days["stand-alone"]["wide"]),
        "month": (range(1, 13), lambda x: x.months["stand-alone"]["wide"]),
    }
    names = []
    for field, (codes, table) in fields.items():
        source, target = map(table, locales)
        in_both = [(source[code], target[code]) for code in codes if code in source and code in target]
        names.append([([Segment(tidy(here), (field,))], [Segment(tidy(there), (field,))]) for here, there in in_both])
    return [members for members in names if len(members) > 3]


def _list_patterns(locales: Locales) -> list[dict[int, tuple[Pattern, ...]]]:
    """Return how lists of 2 to 4 are joined by "and", and by "or" where the source text differs."""
    both = {}
    either = {}
    for count in (2, 3, 4):
        members = ["{0}", "{1}", "{2}", "{3}"][:count]
        both[count] = tuple(cut(format_list(members, "standard", locale)) for locale in locales)
        either[count] = tuple(cut(format_list(members, "or", locale)) for locale in locales)
    return [both, both, either] if all(both[count][0] != either[count][0] for count in both) else [both]


def _list(
    names: list[list[tuple[Segments, Segments]]],
    things: list[Counted],
    styles: list[dict[int, tuple[Pattern, ...]]],
    chance: Random,
) -> Draft:
    """Draw a list of 2 to 4 names of one field, or of 2 or 3 amounts."""
    members: list[Callable[[int], Segments]]
    if names and (chance.randrange(2) or len(things) < 3):
        chosen = chance.sample(chance.choice(names), chance.choice((2, 3, 3, 4)))
        members = [name.__getitem__ for name in chosen]
        patterns = chance.choice(styles)
    else:
        items = chance.sample(things, chance.choice((2, 2, 3)))
        members = [partial(item.segments, chance.randrange(10 ** chance.randrange(1, 4))) for item in items]
        patterns = styles[0]

    def write(side: int) -> Segments:
        parts = [[segment._replace(slot=slot) for segment in member(side)] for slot, member in enumerate(members)]
        return fill_in(patterns[len(members)][side], parts)

    return Draft(write)


LONGEST = 80
"""Most characters of a text."""

_SAMPLE = 20_000  # phrases that the vocabulary and the longest output are taken from
_TRIES = 64  # draws of one kind before another kind is tried


def part_of(target: str) -> Split:
    """Return the part of a phrase by its target: about 80 % train, 10 % valid, 10 % test.

    Example:
        >>> part_of("3일 후")
        'train'
    """
    digest = hashlib.blake2b(f"selfattn cldr/{target}".encode(), digest_size=8).digest()
    return split_at(int.from_bytes(digest, "big") % 10)


class CldrSource:
    """Phrases in two languages from CLDR, endless, each drawn from its index.

    Every index draws a kind of phrase (all kinds equally likely) and a phrase of that kind. Babel writes the phrase in
    both languages. The kinds:

    ==============  ===========================================  ===============================
    kind            example                                      in Korean
    ==============  ===========================================  ===============================
    date            Wed, May 4, 2089                             2089년 5월 4일 (수)
    time            10:22 PM                                     PM 10:22
    date and time   February 3, 2024, 12:22 AM                   2024년 2월 3일 AM 12:22
    span            in 3 days                                    3일 후
    unit            517 kilometers per hour                      시속 517킬로미터
    price           7,502 Mexican pesos                          7,502 멕시코 페소
    list            Australia, Mexico, or Russia                 오스트레일리아, 멕시코 또는 러시아
    ==============  ===========================================  ===============================

    A kind that one of the languages has no data for is left out; see `kinds`. Digits are Latin and spaces are plain.
    Draws are independent, so phrases repeat now and then.

    **One source text has one target text.** Formats that write the same source text with different targets are not
    both used. Years have four digits, and a clock of twelve hours always tells the half of the day.

    **Parts.** A hash of the target text decides (`part_of`): 80 % of the targets are for training, 10 % for
    validation, 10 % for the test. No target and no source is in two parts. An amount whose plural form fewer than five
    of the numbers up to 100 share (the English singular, the Arabic dual) is for training only.

    **Spans** (`Pair.spans`) name year, month, day, weekday, hour, minute, second, period (half of the day), number,
    unit, currency, territory and language. A field in two pieces on one side (시속 517킬로미터) has a span for each.

    Args:
        source: CLDR locale of the source texts; default ``"en"``.
        target: CLDR locale of the target texts; default ``"ko"``.
        seed: of the draws (not of the parts); default 0.
        split: ``"train"`` (default), ``"valid"`` or ``"test"``.

    Raises:
        UserError: an unknown locale.

    Attributes:
        kinds: names of the kinds of phrases, as in `Pair.tag`.

    Example:
        >>> source = CldrSource("en", "ko")
        >>> for pair in source.pairs(3):
        ...     print(f"{pair.source} = {pair.target} ({pair.tag})")
        1 degree = 1도 (unit)
        February 2, 2010, 10:56 PM = 2010년 2월 2일 PM 10:56 (date and time)
        9,867 Saudi riyals = 9,867 사우디아라비아 리얄 (price)
        >>> source.pairs(1, start=2) == source.pairs(3)[2:]
        True
    """

    def __init__(self, source: str = "en", target: str = "ko", *, seed: int = 0, split: Split = "train") -> None:
        self.seed = seed
        self.split = split
        self._draws = kinds_of((find_locale(source), find_locale(target)))
        self.kinds = tuple(self._draws)

    def pairs(self, count: int, start: int = 0) -> list[Pair]:
        """Return the pairs with the indices from `start` (default 0) to ``start + count - 1``."""
        return [self._pair(index) for index in range(start, start + count)]

    def _pair(self, index: int) -> Pair:
        kind = ""
        for attempt in count_up():
            chance = Random(f"{self.seed}/{self.split}/{index}/{attempt}")
            choice = chance.choice(self.kinds)
            kind = kind if attempt % _TRIES else choice
            draft = self._draws[kind](chance)
            if draft is None:
                continue
            target = draft.write(1)
            if self.split == ("train" if draft.train_only else part_of(text_of(target))):
                pair = aligned_pair(draft.write(0), target, kind)
                texts = pair.source, pair.target
                if all(0 < len(text) <= LONGEST and unicodedata.is_normalized("NFC", text) for text in texts):
                    return pair
        raise AssertionError  # pragma: no cover


class EmbeddedPhrases(EndlessSplits):
    """Endless phrases of CLDR: every epoch is new, and no two parts share a source or a target.

    Args:
        source: locale of the sources.
        target: locale of the targets.
        seed: of the training pairs; validation and test are the same for every seed.

    Raises:
        UserError: an unknown locale.
    """

    def __init__(self, source: str, target: str, seed: int) -> None:
        CldrSource(source, target)  # raises for an unknown locale
        self.source = source
        self.target = target
        settings = {"kind": "cldr", "source_language": source, "target_language": target}
        super().__init__(settings, f"cldr, {source} to {target}", seed)

    def sample(self) -> Sequence[Pair]:
        """Return training pairs of seed 0."""
        return self._sample(self.source, self.target)

    @staticmethod
    @lru_cache(maxsize=8)
    def _sample(source: str, target: str) -> list[Pair]:
        return CldrSource(source, target, seed=0, split="train").pairs(_SAMPLE)

    def draw(self, part: Split, seed: int, epoch: int, count: int) -> Sequence[Pair]:
        """Return the next pairs of the source; for validation and test the first that differ in their sources."""
        phrases = CldrSource(self.source, self.target, seed=seed, split=part)
        if part == "train":
            return phrases.pairs(count, start=epoch * count)
        pairs: dict[str, Pair] = {}  # by source: a repeated test item would count twice
        indices = count_up()
        while len(pairs) < count:
            (pair,) = phrases.pairs(1, next(indices))
            pairs.setdefault(pair.source, pair)
        return list(pairs.values())
