"""Dates: formats, draws, parts, spans, and probes that training never shows."""

import random
import re
import subprocess
import sys
from datetime import date, timedelta
from itertools import product

import pytest
from babel import Locale
from babel.dates import format_date
from babel.localedata import locale_identifiers

from selfattn.data.dates import source
from selfattn.data.dates.patterns import TWO_DIGIT_YEARS, YEARS, date_patterns, find_locale, parse, recase
from selfattn.data.dates.source import DateSource, EmbeddedDates, formats_of, readers_of, split_of
from selfattn.data.pairs import without_marks
from selfattn.data.phrases import CldrSource
from selfattn.errors import UserError

LOCALES = [
    *("en_US", "en_GB", "en_CA", "ko_KR", "fr_FR", "de_DE", "ja_JP", "ar_EG", "ar_SA", "th_TH", "fa_IR", "he_IL"),
    *("zh_Hans_CN", "zh_Hant_TW", "tr_TR", "vi_VN", "eu_ES", "ckb", "lt_LT", "hu_HU", "el_GR", "hi_IN", "my", "dz"),
    *("hy", "mn_MN", "ca_ES@valencia", "root"),
]


def some_days(count, years=YEARS):
    first, last = date(years.start, 1, 1), date(years.stop - 1, 12, 31)
    chance = random.Random(3)
    return [first, last] + [first + timedelta(days=chance.randrange((last - first).days)) for _ in range(count)]


def all_patterns(locale):
    return list(dict.fromkeys(p for patterns in date_patterns(locale).values() for p in patterns))


@pytest.mark.parametrize("name", LOCALES)
def test_the_rendering_is_babels(name):
    locale = Locale.parse(name)
    for length in ("full", "long", "medium", "short"):
        pattern = parse(locale.date_formats[length].pattern, locale)
        assert pattern in all_patterns(name)
        for day in some_days(120, pattern.years):
            assert pattern.render(day)[0] == without_marks(format_date(day, length, locale))


@pytest.mark.parametrize("name", LOCALES)
def test_other_casings_are_those_of_the_whole_text_with_every_character_in_its_place(name):
    language = Locale.parse(name).language
    for pattern, case in product(all_patterns(name), ("upper", "lower")):
        cased = pattern.cased(case, language)
        for day in some_days(15, pattern.years):
            text, spans = pattern.render(day)
            if cased is not None:
                assert cased.render(day) == (recase(text, case, language), spans)
            else:  # nothing new, or (Greek) not one character for one
                assert recase(text, case, language) == text or language == "el"


def test_equal_formats_are_one_under_the_first_name():
    # ISO is the short format of Sweden and the medium one of Lithuania.
    assert "iso" not in date_patterns("sv_SE")
    assert {"short", "iso"}.isdisjoint(date_patterns("lt_LT"))
    assert "short" not in date_patterns("ja_JP")
    # British English has the day first anyway.
    assert [name for name in date_patterns("en_GB") if "day first" in name] == []


@pytest.mark.parametrize(
    ("read", "argument", "message"),
    [
        (find_locale, "en_UX", "unknown locale 'en_UX': .*en_US"),
        (find_locale, "kr-KR", "unknown locale 'kr-KR': .*ko_KR"),
        (find_locale, "", "unknown locale '': .*try en_US"),
        (find_locale, "../etc", "unknown locale '../etc': .*try en_US"),
        (DateSource, [], "locales : name at least one, and each once"),
        (DateSource, ["en_US", "en-US"], "locales en_US,en-US: name at least one, and each once"),
        *(
            (
                lambda text: parse(text, Locale.parse("de_DE")),
                text,
                f"locale de_DE: its date pattern {text!r} is",
            )
            for text in ("MMMM y", "d.M.y.M", "d.M.y Q", "d.M.Y", "")  # not just year, month and day
        ),
    ],
)
def test_locales_and_patterns_that_cannot_be_used(read, argument, message):
    with pytest.raises(UserError, match=message) as refused:
        read(argument)
    assert "\n" not in str(refused.value)


MIXED = ("en_US", "en_GB", "ko_KR", "ja_JP", "de_DE", "tr_TR", "ar_EG")


@pytest.mark.parametrize(
    ("locales", "tags"),
    [(("en_US",), False), (MIXED, True), (("ar_EG", "he_IL", "fa_IR"), False), (("eu_ES", "th_TH", "vi_VN"), True)],
)
def test_spans_show_year_month_and_day(locales, tags):
    tagged = 0
    for pair in DateSource(locales, seed=5).pairs(700):
        day = date.fromisoformat(pair.target)
        assert [span.target for span in pair.spans] == [(0, 4), (5, 7), (8, 10)]
        year, month, number = (pair.source[slice(*span.source)] for span in pair.spans)
        assert year in (str(day.year), str(day.year)[2:])
        assert re.fullmatch(f"0?{day.day}(st|nd|rd|th)?", number, re.IGNORECASE)
        names = [format_date(day, code, pair.tag.split()[0]) for code in ("M", "MM", "MMM", "MMMM")]
        assert month.casefold() in [name.casefold() for name in names] or pair.tag.startswith("tr_TR")
        tagged += pair.source.startswith("[")
    assert bool(tagged) == tags


def test_two_digit_years_stay_in_their_window_and_others_do_not():
    years = {"en_US short": set(), "en_US long": set()}
    for pair in DateSource().pairs(20_000):
        if pair.tag in years:
            years[pair.tag].add(int(pair.target[:4]))
    assert years["en_US short"] == set(TWO_DIGIT_YEARS)
    assert years["en_US long"] == set(YEARS)


def test_the_pairs_do_not_depend_on_the_process():
    code = (
        "from selfattn.data.dates.source import DateSource\nfrom selfattn.data.phrases import CldrSource\n"
        "print(DateSource(['en_US', 'ja_JP']).pairs(30), CldrSource('en', 'ko', seed=7).pairs(60))"
    )
    environment = {"PYTHONHASHSEED": "1", "PYTHONUTF8": "1"}
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
    pairs = DateSource(["en_US", "ja_JP"]).pairs(30), CldrSource("en", "ko", seed=7).pairs(60)
    assert output.decode().strip() == f"{pairs[0]} {pairs[1]}"


@pytest.mark.parametrize(
    ("locales", "text", "days"),
    [
        # What each locale writes, with numbers read as numbers.
        (["en_US", "en_GB"], "03/04/05", ["2005-03-04", "2005-04-03"]),
        (["en_US", "en_GB"], "4/4/05", ["2005-04-04"]),
        (["en_US", "en_GB"], "13/4/05", ["2005-04-13"]),
        (["en_US", "ja_JP"], "03/04/05", ["2003-04-05", "2005-03-04"]),
        (["en_US", "ja_JP"], "3/4/05", ["2005-03-04"]),  # a year has two digits or four
        (["de_DE", "mn_MN"], "03.04.05", ["2003-04-05", "2005-04-03"]),
        (["de_DE", "ko_KR"], "03.04.05", ["2005-04-03"]),  # Korean has spaces: 03. 4. 5.
        (["en_US", "es_CL"], "03-04-05", ["2005-04-03"]),  # ISO has four digits, or it is not ISO
        (["en_US"], "2/30/05", []),
        (["en_US"], "Friday, March 4, 2005", ["2005-03-04"]),
        (["en_US"], "Monday, March 4, 2005", []),
        (["en_US"], "march 4TH, 2005", []),  # no mixed case
        (["pl_PL", "hr_HR"], "10 lis 2005", ["2005-11-10"]),  # lis is November; Croatian for October: 10. lis
    ],
)
def test_readings(locales, text, days):
    assert sorted(map(str, readers_of(tuple(locales)).read(text))) == days


@pytest.mark.parametrize("name", sorted(locale_identifiers())[::61])
def test_any_locale_will_do_and_reads_its_texts_in_one_way(name):
    for pair in DateSource([name]).pairs(60):
        assert readers_of((name,)).read(pair.source) == {date.fromisoformat(pair.target)}


PROBED = ("en_US", "en_GB", "ko_KR", "fr_FR")
WITHHELD = (1943, *range(2050, 2060))


def test_withheld_years_are_in_no_part_and_make_up_a_probe():
    splits, plain = EmbeddedDates(("en_US", "ko_KR"), 3, WITHHELD), EmbeddedDates(("en_US", "ko_KR"), 3)
    for part in ("train", "valid", "test"):
        shown, all_years = ({int(pair.target[:4]) for pair in one.draw(part, 3, 0, 600)} for one in (splits, plain))
        assert shown.isdisjoint(WITHHELD)
        assert all_years > set(WITHHELD)
    probes = splits.probes()
    assert {int(pair.target[:4]) for pair in probes["withheld years"]} == set(WITHHELD)
    assert all(pair.target[:4] in pair.source for pair in probes["withheld years"])
    assert {name: probes[name] for name in plain.probes()} == plain.probes()
    assert splits.settings["withheld_years"] == [*WITHHELD]


@pytest.mark.parametrize("probe", [source.unseen_years, source.unseen_formats])
def test_what_can_be_read_as_two_days_has_its_locale_in_front(probe):
    pairs = probe(PROBED, 401)
    tagged = [pair for pair in pairs if pair.source.startswith("[")]
    assert tagged
    for pair in tagged:
        front, _, text = pair.source.partition(" ")
        assert front == f"[{pair.tag[:5]}]"
        numbers = re.search(r"([0-9]+)/([0-9]+)/", text)  # such as 3/4/2110 AD, or Mon, 3/4/2110
        first, second = map(int, numbers.groups())
        assert first != second
        assert max(first, second) <= 12
    assert not any(pair.source.startswith("[") for pair in probe("en_US", 201))


def test_years_and_formats_of_probes_are_none_of_training():
    pairs = source.unseen_years(PROBED, 401)
    years = {date.fromisoformat(pair.target).year for pair in pairs}
    assert all(1800 <= year < 1900 or 2100 <= year < 2200 for year in years)
    assert min(years) < 1810 < 2190 < max(years)
    assert {pair.tag for pair in pairs} < {form.name for locale in PROBED for form in formats_of(locale)}
    assert "en_US short" not in {pair.tag for pair in pairs}  # writes two digits
    known = [pattern for patterns in date_patterns("en_US").values() for pattern in patterns]
    for pair in source.unseen_formats("en_US", 201):
        day = date.fromisoformat(pair.target)
        assert split_of(day) == "test"
        assert not any(pattern.render(day)[0] == pair.source for pattern in known if day.year in pattern.years)
