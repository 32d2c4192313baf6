"""Phrases of the CLDR, and languages under all their names."""

from random import Random

import pytest
from babel import Locale
from babel.localedata import locale_identifiers

from selfattn.data import languages
from selfattn.data.dates.patterns import find_locale
from selfattn.data.languages import read_language
from selfattn.data.phrases import UNITS, CldrSource, Segment, aligned_pair, kinds_of, part_of, text_of
from selfattn.data.readers.rows import layout_of
from selfattn.errors import SettingError

KINDS = ("date", "time", "date and time", "span", "unit", "price", "list")


@pytest.mark.parametrize(
    ("languages", "kind", "seed", "examples"),  # the seeds are those with which these are drawn early
    [
        ("en ko", "span", 7, {"in 3 days": "3일 후", "5 hours ago": "5시간 전", "in 1 year": "1년 후"}),
        ("en ru", "span", 34, {"in 1 day": "через 1 день", "in 3 days": "через 3 дня", "in 5 days": "через 5 дней"}),
        ("ar en", "span", 15, {"خلال يومين": "in 2 days", "خلال 3 أيام": "in 3 days", "خلال 11 يومًا": "in 11 days"}),
        ("en ko", "price", 21, {"7 euros": "7 유로", "9 US dollars": "9 미국 달러"}),
        ("en de", "unit", 40, {"3 meters": "3 Meter", "3 km²": "3 km²"}),
        ("en de", "list", 35, {"Sunday and Monday": "Sonntag und Montag", "Sunday or Monday": "Sonntag oder Montag"}),
        ("en fr", "time", 21, {"3:05 PM": "15:05", "11:59 AM": "11:59"}),
    ],
)
def test_what_a_phrase_should_be(languages, kind, seed, examples):
    source, target = map(Locale.parse, languages.split())
    draw, chance, pairs = kinds_of((source, target))[kind], Random(seed), dict[str, str]()
    for _ in range(60_000):
        if (draft := draw(chance)) and (text := text_of(draft.write(0))) in examples:
            pairs[text] = text_of(draft.write(1))
            if len(pairs) == len(examples):
                break
    assert pairs == examples


@pytest.mark.parametrize("language", ["ko", "zh", "ar"])
def test_a_unit_without_a_long_form_takes_its_short_one(language):
    """CLDR inherits "37년" from the short form; Babel wrote "37 duration-year"."""
    draw, chance = kinds_of((Locale("en"), Locale(language)))["list"], Random(0)
    texts = [text_of(draft.write(1)) for _ in range(300) if (draft := draw(chance))]
    assert not [text for text in texts if any(unit in text for unit in UNITS)]


def test_may_is_written_once_where_long_and_medium_are_the_same():
    """English writes May 3, 2024 for both; German has 3. Mai 2024 and 03.05.2024."""
    draw, chance = kinds_of((Locale("en"), Locale("de")))["date"], Random(0)
    targets = [text_of(d.write(1)) for _ in range(5000) if (d := draw(chance)) and text_of(d.write(0))[:4] == "May "]
    assert len(targets) > 50
    assert all(". Mai " in target for target in targets)


def test_a_field_in_two_pieces_has_two_spans_and_a_joint_one_both_fields():
    source = [Segment("2", ("number",)), Segment(" "), Segment("km/h", ("unit",))]
    target = [Segment("시속", ("unit",)), Segment(" "), Segment("2", ("number",)), Segment("킬로미터", ("unit",))]
    assert [(s.field, s.source, s.target) for s in aligned_pair(source, target, "unit").spans] == [
        ("number", (0, 1), (3, 4)),
        ("unit", (2, 6), (0, 2)),
        ("unit", (2, 6), (4, 8)),
    ]
    dual = aligned_pair([*source[:1], Segment(" days", ("unit",))], [Segment("يومان", ("number", "unit"))], "unit")
    assert [(s.field, s.source, s.target) for s in dual.spans] == [("number", (0, 1), (0, 5)), ("unit", (1, 6), (0, 5))]


def test_all_kinds_are_drawn_and_amounts_with_a_plural_form_to_themselves_are_for_training():
    assert {pair.tag for pair in CldrSource().pairs(300)} == set(CldrSource().kinds) == set(KINDS)
    for split in ("valid", "test"):
        for pair in CldrSource("en", "ar", split=split).pairs(400):
            assert part_of(pair.target) == split
            if pair.tag in ("span", "unit"):
                assert pair.source.split()[pair.source.startswith("in ")] not in ("0", "1", "2"), pair


# Languages are understood under all their names, or refused


@pytest.mark.parametrize("names", [
    "ko kor kor_Hang ko-KR KO Korean korean ko_KR.UTF-8",
    "ja jpn jpn_Jpan ja_JP Japanese",
    "de deu ger de-AT deu_Latn German",
    "zh zho chi cmn zh-Hans zh_TW Chinese",
    "nb nob nob_Latn nb_NO",
    "ar arb arb_Arab Arabic",
])  # fmt: skip
def test_all_names_of_a_language_mean_the_same(names):
    first, *others = names.split()
    assert {read_language(name).code for name in others} == {first}
    assert {find_locale(name).language for name in others if name.isalpha()} == {first}  # for dates, too


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
def test_an_unknown_language_is_refused_in_a_line(name, hint):
    with pytest.raises(SettingError, match=hint) as refused:
        read_language(name)
    assert repr(name) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_script_is_the_one_in_the_name_or_the_usual_one():
    scripts = {name: read_language(name).script for name in ("sr", "sr_Latn", "zh_HK", "yue", "und", "ja_Latn", "sh")}
    expected = ("Cyrl", "Latn", "Hant", "Hant", "Zzzz", "Latn", "Latn")
    assert tuple(scripts.values()) == expected
    assert len({read_language(name).script for name in locale_identifiers() if name != "root"}) > 30


def test_a_long_first_line_is_no_heading_and_reads_no_names(monkeypatch):
    assert max(map(len, languages.language_names())) <= languages.LONGEST_NAME
    with pytest.raises(SettingError, match="look like names of columns"):
        layout_of("a.tsv:1", ["Deutsch", "한국어"], None, ("1", "2"))
    monkeypatch.setattr(languages, "language_names", None)  # reading them all takes half a second
    assert layout_of("a.tsv:1", ["A sentence.", "Ein Satz von mehr als dreißig Zeichen."], None, ("1", "2")).width
    assert languages.turned_side("kor", "en", ("en", "ko"))
