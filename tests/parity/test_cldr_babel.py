"""The corpus writes what Babel's own functions write, plain spaces and CLDR's spacing of currencies aside."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal

import pytest
from babel import Locale
from babel.dates import format_date, format_datetime, format_interval, format_skeleton, format_time, format_timedelta
from babel.lists import format_list
from babel.numbers import format_currency, format_decimal, format_percent
from babel.units import format_unit

from selfattn.data.phrases.calendars import LENGTHS, Moment, date_forms, glues, interval_forms, time_forms
from selfattn.data.phrases.counts import Amount, Numbers
from selfattn.data.phrases.kinds import Phrases
from selfattn.data.phrases.names import list_patterns
from selfattn.data.phrases.text import Segment, fill_in, tables, text_of, tidy

LOCALES = ["en", "ko", "de", "fr", "ja", "ru", "pl", "ar", "he", "hi", "zh", "pt", "cy", "lv"]
DAYS = [date(2008, 11, 13), date(1999, 5, 1), date(2024, 12, 31)]
AMOUNTS = [Amount(number) for number in (0, 1, 2, 3, 5, 11, 21, 100, 1234, 12345, 987_654)] + [Amount(15, 1)]


def value(amount: Amount) -> Decimal:
    return Decimal(amount.digits).scaleb(-amount.places)


def plain(text: str) -> str:
    return tidy(text).replace(" ", "")


@pytest.mark.parametrize("name", LOCALES)
def test_numbers(name: str) -> None:
    numbers = Numbers(Locale(name))
    for amount in AMOUNTS:
        assert numbers.text(amount) == tidy(format_decimal(value(amount), locale=name))
        assert numbers.plural(amount) == Locale(name).plural_form(value(amount))
        percent = format_percent(value(amount) / 100, locale=name, decimal_quantization=False)
        marks = str.maketrans("", "", "\u200e\u200f\u061c")  # the sign itself has them in Arabic and Hebrew
        assert text_of(numbers.percent(amount)).translate(marks) == tidy(percent).translate(marks)


@pytest.mark.parametrize("name", LOCALES)
def test_what_is_counted(name: str) -> None:
    table = Phrases((Locale(name), Locale("en")), "common")
    for amount in AMOUNTS:
        for length, items in (("long", table._units), ("short", table._short)):
            for item in items:
                # Where CLDR has no form for this plural, Babel writes a name, and CLDR says the form "other".
                if Locale(name).plural_form(value(amount)) in tables(Locale(name))["unit_patterns"][item.name].get(
                    length, {}
                ):
                    expected = format_unit(value(amount), item.name, length, locale=name)  # type: ignore[arg-type]  # length is a str here
                    assert text_of(item.write(amount, 0)) == tidy(expected)
        for item in table._named:
            expected = format_currency(value(amount), item.name, locale=name, format_type="name", currency_digits=False)
            assert text_of(item.write(amount, 0)) == tidy(expected)
        for item in table._money:
            money = Amount(amount.digits, item.places or 0)
            expected = format_currency(value(money), item.name, locale=name)
            assert text_of(item.write(money, 0)).replace(" ", "") == plain(expected)


@pytest.mark.parametrize("name", LOCALES)
def test_spans_of_time(name: str) -> None:
    table = Phrases((Locale("en"), Locale(name)), "common")
    seconds = {"year": 31_536_000, "month": 2_592_000, "week": 604_800, "day": 86_400, "hour": 3600, "minute": 60}
    for number in (1, 2, 3, 7, 11, 22):
        written = {text_of(item.write(Amount(number), 1)) for item in table._relative}
        for unit in (*seconds, "second"):
            for sign in (1, -1):
                delta = timedelta(seconds=sign * number * seconds.get(unit, 1))
                expected = format_timedelta(delta, unit, 10**9, add_direction=True, locale=name)
                assert tidy(expected) in written


@pytest.mark.parametrize("name", LOCALES)
def test_dates_and_times(name: str) -> None:
    locales = (Locale("en"), Locale(name))
    for day in DAYS:
        for form in date_forms(locales):
            text = text_of(form.write((Moment.on(day),), 1))
            if form.name in LENGTHS:
                assert text == tidy(format_date(day, form.name, name))  # type: ignore[arg-type]  # its name is a str here
            else:
                assert text == tidy(format_skeleton(form.name, datetime(*day.timetuple()[:6]), locale=name))
    for clock in (time(0, 5, 9), time(12, 30), time(23, 59, 1)):
        moment = Moment(hour=clock.hour, minute=clock.minute, second=clock.second)
        for form in time_forms(locales):
            text = text_of(form.write((moment,), 1))
            if form.name in LENGTHS:
                assert text == tidy(format_time(clock, form.name, locale=name))  # type: ignore[arg-type]  # its name is a str here
            else:
                whole = datetime.combine(DAYS[0], clock)
                assert text == tidy(format_skeleton(form.name, whole, locale=name))


@pytest.mark.parametrize("name", LOCALES)
def test_a_date_with_a_time(name: str) -> None:
    whole = datetime(2008, 11, 13, 15, 5, 9)
    parts = [
        [Segment(tidy(format_time(whole, "medium", locale=name)))],
        [Segment(tidy(format_date(whole, "medium", name)))],
    ]
    pattern = glues((Locale("en"), Locale(name)))["medium"][1]
    assert text_of(fill_in(pattern, parts)) == tidy(format_datetime(whole, "medium", locale=name))


@pytest.mark.parametrize("name", LOCALES)
def test_intervals(name: str) -> None:
    ends = {
        "y": (datetime(2008, 11, 13), datetime(2010, 3, 5)),
        "M": (datetime(2008, 3, 13), datetime(2008, 11, 5)),
        "d": (datetime(2008, 3, 4), datetime(2008, 3, 15)),
        "a": (datetime(2008, 3, 4, 9, 5), datetime(2008, 3, 4, 15, 30)),
        "h": (datetime(2008, 3, 4, 14, 5), datetime(2008, 3, 4, 15, 30)),
        "H": (datetime(2008, 3, 4, 9, 5), datetime(2008, 3, 4, 15, 30)),
        "m": (datetime(2008, 3, 4, 9, 5), datetime(2008, 3, 4, 9, 30)),
    }
    for form in interval_forms((Locale("en"), Locale(name))):
        skeleton, letter = form.name.split()
        first, last = ends[letter]
        moments = tuple(Moment.on(end)._replace(hour=end.hour, minute=end.minute) for end in (first, last))
        assert text_of(form.write(moments, 1)) == tidy(format_interval(first, last, skeleton, locale=name)), form.name


@pytest.mark.parametrize("name", LOCALES)
def test_lists(name: str) -> None:
    members = ["alpha", "beta", "gamma", "delta"]
    for style in ("standard", "or"):
        for count, (_, pattern) in list_patterns((Locale("en"), Locale(name)), style, 4).items():
            parts = [[Segment(member)] for member in members[:count]]
            assert text_of(fill_in(pattern, parts)) == tidy(format_list(members[:count], style, name))  # type: ignore[arg-type]  # style is a str here
