from random import Random

import pytest
from babel import Locale

from selfattn.data.phrases import UNITS, CldrSource, Segment, aligned_pair, kinds_of, part_of, text_of

KINDS = ("date", "time", "date and time", "span", "unit", "price", "list")


def test_all_kinds_are_drawn() -> None:
    assert {pair.tag for pair in CldrSource().pairs(300)} == set(CldrSource().kinds) == set(KINDS)


@pytest.mark.parametrize(
    ("languages", "kind", "examples"),
    [
        ("en ko", "span", {"in 3 days": "3일 후", "5 hours ago": "5시간 전", "in 1 year": "1년 후"}),
        ("en ru", "span", {"in 1 day": "через 1 день", "in 3 days": "через 3 дня", "in 5 days": "через 5 дней"}),
        ("ar en", "span", {"خلال يومين": "in 2 days", "خلال 3 أيام": "in 3 days", "خلال 11 يومًا": "in 11 days"}),
        ("en ko", "price", {"7 euros": "7 유로", "9 US dollars": "9 미국 달러"}),
        ("en de", "unit", {"3 meters": "3 Meter", "3 km²": "3 km²"}),
        ("en de", "list", {"Sunday and Monday": "Sonntag und Montag", "Sunday or Monday": "Sonntag oder Montag"}),
        ("en fr", "time", {"3:05 PM": "15:05", "11:59 AM": "11:59"}),
    ],
)
def test_what_a_phrase_should_be(languages: str, kind: str, examples: dict[str, str]) -> None:
    source, target = map(Locale.parse, languages.split())
    draw, chance, pairs = kinds_of((source, target))[kind], Random(0), dict[str, str]()
    for _ in range(60_000):
        if (draft := draw(chance)) and (text := text_of(draft.write(0))) in examples:
            pairs[text] = text_of(draft.write(1))
            if len(pairs) == len(examples):
                break
    assert pairs == examples


@pytest.mark.parametrize("language", ["ko", "ja", "zh", "vi", "ar"])
def test_a_unit_without_a_long_form_takes_its_short_one(language: str) -> None:
    """CLDR inherits "37년" from the short form; Babel wrote "37 duration-year"."""
    draw, chance = kinds_of((Locale("en"), Locale(language)))["list"], Random(0)
    texts = [text_of(draft.write(1)) for _ in range(3000) if (draft := draw(chance))]
    assert not [text for text in texts if any(unit in text for unit in UNITS)]


def test_may_is_written_once_where_long_and_medium_are_the_same() -> None:
    """English writes May 3, 2024 for both; German has 3. Mai 2024 and 03.05.2024."""
    draw, chance = kinds_of((Locale("en"), Locale("de")))["date"], Random(0)
    targets = [text_of(d.write(1)) for _ in range(5000) if (d := draw(chance)) and text_of(d.write(0))[:4] == "May "]
    assert len(targets) > 50
    assert all(". Mai " in target for target in targets)


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


def test_amounts_with_a_plural_form_to_themselves_are_for_training() -> None:
    for split in ("valid", "test"):
        for pair in CldrSource("en", "ar", split=split).pairs(400):  # type: ignore[arg-type]  # a str of a loop
            assert part_of(pair.target) == split
            if pair.tag in ("span", "unit"):
                assert pair.source.split()[pair.source.startswith("in ")] not in ("0", "1", "2"), pair
