import re
import subprocess
import sys
from datetime import date

import pytest
from babel.dates import format_date
from babel.localedata import locale_identifiers

from selfattn.data.dates.patterns import TWO_DIGIT_YEARS, YEARS
from selfattn.data.dates.source import DateSource, readers_of, split_of
from selfattn.data.pairs import Pair, Span
from selfattn.data.phrases import CldrSource
from selfattn.errors import UserError

MIXED = ("en_US", "en_GB", "ko_KR", "ja_JP", "de_DE", "tr_TR", "ar_EG")


@pytest.mark.parametrize(
    ("locales", "tags"),
    [(("en_US",), False), (MIXED, True), (("ar_EG", "he_IL", "fa_IR"), False), (("eu_ES", "th_TH", "vi_VN"), True)],
)
def test_spans_show_year_month_and_day(locales: tuple[str, ...], tags: bool) -> None:
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


def test_two_digit_years_stay_in_their_window_and_others_do_not() -> None:
    years: dict[str, set[int]] = {"en_US short": set(), "en_US long": set()}
    for pair in DateSource().pairs(20_000):
        if pair.tag in years:
            years[pair.tag].add(int(pair.target[:4]))
    assert years["en_US short"] == set(TWO_DIGIT_YEARS)
    assert years["en_US long"] == set(YEARS)


def test_the_pairs_do_not_depend_on_the_process() -> None:
    code = (
        "from selfattn.data.dates.source import DateSource\nfrom selfattn.data.phrases import CldrSource\n"
        "print(DateSource(['en_US', 'ja_JP']).pairs(30), CldrSource('en', 'ko', seed=7).pairs(60))"
    )
    environment = {"PYTHONHASHSEED": "1", "PYTHONUTF8": "1"}
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
    pairs = DateSource(["en_US", "ja_JP"]).pairs(30), CldrSource("en", "ko", seed=7).pairs(60)
    assert output.decode().strip() == f"{pairs[0]} {pairs[1]}"


def test_pairs_that_must_never_change() -> None:
    spans = (Span("year", (22, 26), (0, 4)), Span("month", (11, 16), (5, 7)), Span("day", (17, 20), (8, 10)))
    pair = Pair("Wednesday, March 6th, 1918", "1918-03-06", "en_US ordinal weekday", spans)
    assert DateSource(seed=0).pairs(1, start=14) == [pair]


def test_no_day_and_no_text_is_in_two_parts() -> None:
    parts = [DateSource(MIXED, split=split).pairs(700) for split in ("train", "valid", "test")]
    for part, split in zip(parts, ("train", "valid", "test"), strict=True):
        assert {split_of(date.fromisoformat(pair.target)) for pair in part} == {split}
    for field in ("source", "target"):
        texts = [{getattr(pair, field) for pair in part} for part in parts]
        assert len(set.union(*texts)) == sum(map(len, texts))


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
def test_readings(locales: list[str], text: str, days: list[str]) -> None:
    assert sorted(map(str, readers_of(tuple(locales)).read(text))) == days


@pytest.mark.parametrize("name", sorted(locale_identifiers())[::61])
def test_any_locale_will_do_and_reads_its_texts_in_one_way(name: str) -> None:
    for pair in DateSource([name]).pairs(60):
        assert readers_of((name,)).read(pair.source) == {date.fromisoformat(pair.target)}


def test_bad_arguments() -> None:
    for locales in ([], ["en_US", "en-US"]):
        with pytest.raises(UserError, match=f"locales {','.join(locales)}: name at least one, and each once"):
            DateSource(locales)
