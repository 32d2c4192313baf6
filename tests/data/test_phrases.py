from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from babel import Locale

from selfattn.data.pairs import Pair, Span
from selfattn.data.phrases.calendars import Moment, date_forms, interval_forms, time_forms
from selfattn.data.phrases.counts import currency_forms, distinct, forms_of, unit_forms
from selfattn.data.phrases.kinds import Phrases
from selfattn.data.phrases.names import codes
from selfattn.data.phrases.source import CldrSource, part_of
from selfattn.data.phrases.text import Chance, Segment, aligned_pair, fill_in, text_of
from selfattn.errors import UserError

KINDS = (
    "date",
    "time",
    "date and time",
    "interval",
    "span",
    "duration",
    "unit",
    "rate",
    "currency",
    "number",
    "percent",
    "names",
    "amounts",
    "locale",
)


def known(source: str, target: str, count: int = 3000) -> dict[str, str]:
    return {pair.source: pair.target for pair in CldrSource(source, target).pairs(count)}


def test_pairs_that_must_never_change() -> None:
    assert CldrSource().pairs(3, start=3) == [
        Pair("3°C", "3°C", "unit", (Span("number", (0, 1), (0, 1)), Span("unit", (1, 3), (1, 3)))),
        Pair("7,414%", "7,414%", "percent", (Span("number", (0, 5), (0, 5)), Span("percent", (5, 6), (5, 6)))),
        Pair(
            "in 702 min.",
            "702분 후",
            "span",
            (Span("unit", (0, 2), (3, 6)), Span("number", (3, 6), (0, 3)), Span("unit", (7, 11), (3, 6))),
        ),
    ]


def test_the_same_index_gives_the_same_pair_in_every_process() -> None:
    source = CldrSource("en", "ko", seed=7)
    pairs = source.pairs(60)
    assert CldrSource("en", "ko", seed=7).pairs(20, start=40) == pairs[40:]
    assert CldrSource("en", "ko", seed=8).pairs(60) != pairs
    assert source.pairs(0) == []
    code = "from selfattn.data.phrases.source import CldrSource; print(CldrSource('en', 'ko', seed=7).pairs(60))"
    environment = {"PYTHONHASHSEED": "5", "PYTHONUTF8": "1"}
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
    assert output.decode().strip() == str(pairs)


def test_kinds_weigh_the_same_in_every_part() -> None:
    assert CldrSource().kinds == KINDS
    for split in ("train", "test"):
        counts = Counter(pair.tag for pair in CldrSource(split=split).pairs(2800))  # type: ignore[arg-type]  # a str of a loop
        assert set(counts) == set(KINDS)
        assert all(abs(count - 200) < 5 * 200**0.5 for count in counts.values()), counts


@pytest.mark.parametrize(
    ("languages", "kind", "examples"),
    [
        ("en ko", "span", {"in 3 days": "3일 후", "5 hours ago": "5시간 전", "in 1 year": "1년 후"}),
        ("ko en", "span", {"3일 후": "in 3 days", "1일 후": "in 1 day", "2주 전": "2 weeks ago"}),
        ("en ru", "span", {"in 1 day": "через 1 день", "in 3 days": "через 3 дня", "in 5 days": "через 5 дней"}),
        ("ru pl", "span", {"через 21 день": "za 21 dni", "2 дня назад": "2 dni temu"}),
        ("ar en", "span", {"خلال يومين": "in 2 days", "خلال 3 أيام": "in 3 days", "خلال 11 يومًا": "in 11 days"}),
        ("en de", "names", {"Sunday and Monday": "Sonntag und Montag", "Sunday or Monday": "Sonntag oder Montag"}),
        ("fr ja", "names", {"lundi et mardi": "月曜日、火曜日", "lundi ou mardi": "月曜日または火曜日"}),
        ("en ko", "percent", {"35%": "35%"}),
        ("en de", "percent", {"35%": "35 %"}),
        ("en fr", "time", {"3:05 PM": "15:05", "15:05": "15:05"}),
        ("he en", "span", {"בעוד יומיים": "in 2 days"}),
    ],
)
def test_what_a_phrase_should_be(languages: str, kind: str, examples: dict[str, str]) -> None:
    found: dict[str, str] = {}
    draw = phrases(languages).kinds[kind]
    for number in range(60_000):
        # Consecutive numbers go through all small choices in turn.
        draft = draw(Chance(number * 7919))
        if draft:
            found[text_of(draft.write(0))] = text_of(draft.write(1))
        if found.keys() >= examples.keys():
            break
    assert {source: found.get(source) for source in examples} == examples


def phrases(languages: str) -> Phrases:
    source, target = languages.split()
    return Phrases((Locale.parse(source), Locale.parse(target)), "common")


def test_two_ends_of_an_interval_have_fields_of_their_own() -> None:
    form = next(form for form in interval_forms((Locale("en"), Locale("ko"))) if form.name == "yMMMd M")
    ends = (Moment(2008, 9, 3), Moment(2008, 11, 13))
    pair = aligned_pair(form.write(ends, 0), form.write(ends, 1), "interval")
    assert (pair.source, pair.target) == ("Sep 3 – Nov 13, 2008", "2008년 9월 3일 ~ 11월 13일")
    assert [(s.field, pair.source[slice(*s.source)], pair.target[slice(*s.target)]) for s in pair.spans] == [
        ("month", "Sep", "9"),
        ("day", "3", "3"),
        ("month", "Nov", "11"),
        ("day", "13", "13"),
        ("year", "2008", "2008"),
    ]


def test_a_month_at_both_ends_of_one_side_only_has_two_spans() -> None:
    form = next(form for form in interval_forms((Locale("en"), Locale("de"))) if form.name == "yMd d")
    ends = (Moment(2008, 9, 3), Moment(2008, 9, 5))
    pair = aligned_pair(form.write(ends, 0), form.write(ends, 1), "interval")
    assert (pair.source, pair.target) == ("9/3/2008 – 9/5/2008", "03.–05.09.2008")
    months = [(span.source, span.target) for span in pair.spans if span.field == "month"]
    assert months == [((0, 1), (7, 9)), ((11, 12), (7, 9))]


@pytest.mark.parametrize(("target", "long", "medium"), [("de", "3. Mai 2024", "03.05.2024")])
def test_may_is_written_once_where_long_and_medium_are_the_same(target: str, long: str, medium: str) -> None:
    forms = {form.name: form for form in date_forms((Locale("en"), Locale(target)))}
    day = (Moment(2024, 5, 3, 4),)
    assert [text_of(forms[name].write(day, 0)) for name in ("long", "medium")] == ["May 3, 2024"] * 2
    assert [text_of(forms[name].write(day, 1)) for name in ("long", "medium")] == [long, medium]
    assert not forms["long"].clashes(day)
    assert forms["medium"].clashes(day)
    assert not forms["medium"].clashes((Moment(2024, 6, 3, 0),))


def test_a_clock_that_looks_like_a_number_is_left_out() -> None:
    locales = (Locale("si"), Locale("en"))  # 15.05 is five past three, and a number
    assert {"short", "Hm"} & {form.name for form in time_forms(locales)}
    assert not {"short", "Hm"} & {form.name for form in time_forms(locales, ["0.0"])}


def test_a_field_in_two_pieces_has_two_spans_and_a_joint_one_both_fields() -> None:
    source = [Segment("2", ("number",)), Segment(" "), Segment("km/h", ("unit",))]
    target = [Segment("시속", ("unit",)), Segment(" "), Segment("2", ("number",)), Segment("킬로미터", ("unit",))]
    assert [(s.field, s.source, s.target) for s in aligned_pair(source, target, "unit").spans] == [
        ("number", (0, 1), (3, 4)),
        ("unit", (2, 6), (0, 2)),
        ("unit", (2, 6), (4, 8)),
    ]
    dual = aligned_pair([*source[:1], Segment(" days", ("unit",))], [Segment("يومان", ("number", "unit"))], "unit")
    assert [(s.field, s.source, s.target) for s in dual.spans] == [("number", (0, 1), (0, 5)), ("unit", (1, 6), (0, 5))]


def test_plural_forms() -> None:
    english = unit_forms(Locale("en"), "duration-day", "long")
    assert english is not None
    assert {key: text_of([*before, *after]) for key, (before, _, after) in english.items()} == {
        "one": " day",
        "other": " days",
    }
    assert [segment.fields for segment in english["one"][2]] == [(), ("unit",)]
    assert set(unit_forms(Locale("ru"), "duration-day", "long") or ()) == {"one", "few", "many", "other"}
    won = currency_forms(Locale("ko"), "USD")
    assert won is not None
    assert text_of(won["other"][2]) == " 미국 달러"
    assert unit_forms(Locale("en"), "length-no-such", "long") is None
    assert forms_of({"one": "{0} day"}) is None


def test_what_is_not_told_apart_is_left_out() -> None:
    items = phrases("en de")._units
    first = items[0]
    assert distinct(items) == items
    assert distinct([first, *items]) == items
    for languages in ("en ko", "ar en", "si en"):
        taken: dict[str, str] = {}
        table = phrases(languages)
        for item in (*table._counted, *table._named, *table._money, *table._relative):
            for source, target in zip(*item.samples, strict=True):
                assert taken.setdefault(source, target) == target


def test_a_pattern_is_filled_in_its_own_order() -> None:
    parts = [[Segment("3", ("number",))], [Segment("day", ("unit",))]]
    assert text_of(fill_in((1, "당 ", 0), parts)) == "day당 3"
    assert fill_in((" per ", 1), parts, ("per",)) == [
        Segment(" "),
        Segment("per", ("per",)),
        Segment(" "),
        *parts[1],
    ]


def test_only_for_training_is_what_stands_alone() -> None:
    for split in ("valid", "test"):
        for pair in CldrSource("en", "ar", split=split).pairs(1500):  # type: ignore[arg-type]  # a str of a loop
            assert part_of(pair.target) == split
            if pair.tag in ("span", "unit"):
                assert pair.source.split()[pair.source.startswith("in ")] not in ("0", "1", "2"), pair


def test_every_name_occurs_in_training() -> None:
    texts = "\n".join(known("en", "ko", 6000))
    english = Locale("en")
    for code in codes("common")["territory"]:
        assert english.territories[code] in texts
    for code in codes("common")["language"]:
        assert english.languages[code] in texts


def test_all_names() -> None:
    everything = codes("all")
    for field, some in codes("common").items():
        assert set(some) < set(everything[field])
    assert len(everything["territory"]) > 200
    source = CldrSource("en", "ko", names="all")
    many = {span.source for pair in source.pairs(500) for span in pair.spans}
    assert len(many) > 20


def test_bad_arguments() -> None:
    with pytest.raises(UserError, match="unknown locale '123': try en_US"):
        CldrSource("en", "123")
    with pytest.raises(UserError, match="unknown locale 'en_UX': did you mean "):
        CldrSource("en_UX", "ko")
    with pytest.raises(UserError, match="no such set of names: 'few'; choose common or all"):
        CldrSource(names="few")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="split must be"):
        CldrSource(split="dev")  # type: ignore[arg-type]  # wrong on purpose
    for count, start in ((-1, 0), (1, -1)):
        with pytest.raises(ValueError, match="must not be negative"):
            CldrSource().pairs(count, start)
    assert CldrSource("en-US", "ko_KR").source == "en_US"
