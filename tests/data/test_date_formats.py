import random
import re
from datetime import date, timedelta
from itertools import product

import pytest
from babel import Locale
from babel.dates import format_date

from selfattn.data.dates.patterns import YEARS, DatePattern, date_patterns, find_locale, parse, recase
from selfattn.data.pairs import without_marks
from selfattn.errors import UserError

LOCALES = [
    *("en_US", "en_GB", "en_CA", "ko_KR", "fr_FR", "de_DE", "ja_JP", "ar_EG", "ar_SA", "th_TH", "fa_IR", "he_IL"),
    *("zh_Hans_CN", "zh_Hant_TW", "tr_TR", "vi_VN", "eu_ES", "ckb", "lt_LT", "hu_HU", "el_GR", "hi_IN", "my", "dz"),
    *("hy", "mn_MN", "ca_ES@valencia", "root"),
]


def some_days(count: int, years: range = YEARS) -> list[date]:
    first, last = date(years.start, 1, 1), date(years.stop - 1, 12, 31)
    chance = random.Random(3)
    return [first, last] + [first + timedelta(days=chance.randrange((last - first).days)) for _ in range(count)]


def all_patterns(locale: str) -> list[DatePattern]:
    return list(dict.fromkeys(p for patterns in date_patterns(locale).values() for p in patterns))


@pytest.mark.parametrize("name", LOCALES)
def test_the_rendering_is_babels(name: str) -> None:
    locale = Locale.parse(name)
    for length in ("full", "long", "medium", "short"):
        pattern = parse(locale.date_formats[length].pattern, locale)
        assert pattern in all_patterns(name)
        for day in some_days(120, pattern.years):
            assert pattern.render(day)[0] == without_marks(format_date(day, length, locale))


@pytest.mark.parametrize("name", LOCALES)
def test_other_casings_are_those_of_the_whole_text_with_every_character_in_its_place(name: str) -> None:
    language = Locale.parse(name).language
    for pattern, case in product(all_patterns(name), ("upper", "lower")):
        cased = pattern.cased(case, language)
        for day in some_days(15, pattern.years):
            text, spans = pattern.render(day)
            if cased is not None:
                assert cased.render(day) == (recase(text, case, language), spans)
            else:  # nothing new, or (Greek) not one character for one
                assert recase(text, case, language) == text or language == "el"


def test_equal_formats_are_one_under_the_first_name() -> None:
    # ISO is the short format of Sweden and the medium one of Lithuania.
    assert "iso" not in date_patterns("sv_SE")
    assert {"short", "iso"}.isdisjoint(date_patterns("lt_LT"))
    assert "short" not in date_patterns("ja_JP")
    # British English has the day first anyway.
    assert [name for name in date_patterns("en_GB") if "day first" in name] == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("en_UX", "en_US"),
        ("kr-KR", "ko_KR"),
        ("", "try en_US"),
        ("../etc", "try en_US"),
    ],
)
def test_an_unknown_locale_is_named_with_close_ones(name: str, hint: str) -> None:
    with pytest.raises(UserError) as error:
        find_locale(name)
    assert str(error.value).startswith(f"unknown locale {name!r}: ")
    assert hint in str(error.value).partition(": ")[2]
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("pattern", ["MMMM y", "d.M.y.M", "d.M.y Q", "d.M.Y", ""])
def test_a_pattern_without_just_year_month_and_day_cannot_be_used(pattern: str) -> None:
    with pytest.raises(UserError, match=f"locale de_DE: its date pattern {re.escape(repr(pattern))} is not made of"):
        parse(pattern, Locale.parse("de_DE"))
