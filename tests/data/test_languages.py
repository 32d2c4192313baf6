"""Languages are understood under all their names, or refused."""

import pytest
from babel.localedata import locale_identifiers

from selfattn.data import languages
from selfattn.data.dates.patterns import find_locale
from selfattn.data.languages import read_language
from selfattn.data.readers.rows import layout_of
from selfattn.errors import SettingError


@pytest.mark.parametrize("names", [
    "ko kor kor_Hang ko-KR KO Korean korean ko_KR.UTF-8",
    "ja jpn jpn_Jpan ja_JP Japanese",
    "de deu ger de-AT deu_Latn German",
    "zh zho chi cmn zh-Hans zh_TW Chinese",
    "nb nob nob_Latn nb_NO",
    "ar arb arb_Arab Arabic",
])  # fmt: skip
def test_all_names_of_a_language_mean_the_same(names: str) -> None:
    first, *others = names.split()
    assert {read_language(name).code for name in others} == {first}


def test_every_locale_of_the_cldr_is_a_language() -> None:
    assert len({read_language(name).script for name in locale_identifiers() if name != "root"}) > 30


@pytest.mark.parametrize(("name", "hint"), [
    ("jp", "its language is ja"),
    ("cz", "its language is cs"),
    ("Japanisch", "ja"),
    ("kor_Hanj", "did you mean ko"),
    ("xx", "such as"),
    ("", "such as"),
    ("en_US_nonsense", "such as"),
    ("../../etc", "such as"),
])  # fmt: skip
def test_an_unknown_language_is_refused_in_a_line(name: str, hint: str) -> None:
    with pytest.raises(SettingError, match=hint) as refused:
        read_language(name)
    assert repr(name) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_script_is_the_one_in_the_name_or_the_usual_one() -> None:
    scripts = {name: read_language(name).script for name in ("sr", "sr_Latn", "zh_HK", "yue", "und", "ja_Latn", "sh")}
    expected = ("Cyrl", "Latn", "Hant", "Hant", "Zzzz", "Latn", "Latn")
    assert tuple(scripts.values()) == expected


def test_phrases_and_dates_take_the_same_names() -> None:
    assert {find_locale(name).language for name in ("ko", "kor", "kor_Hang", "Korean")} == {"ko"}


def test_a_long_first_line_is_no_heading_and_reads_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(map(len, languages.language_names())) <= languages.LONGEST_NAME
    with pytest.raises(SettingError, match="look like names of columns"):
        layout_of("a.tsv:1", ["Deutsch", "한국어"], None, ("1", "2"))
    monkeypatch.setattr(languages, "language_names", None)  # reading them all takes half a second
    assert layout_of("a.tsv:1", ["A sentence.", "Ein Satz von mehr als dreißig Zeichen."], None, ("1", "2")).width
    assert languages.turned_side("kor", "en", ("en", "ko"))
