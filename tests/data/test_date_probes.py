"""Dates that training never shows: their years, their formats, and their gold spans."""

import re
from collections.abc import Callable
from datetime import date

import pytest

from selfattn.data.dates.patterns import date_patterns
from selfattn.data.dates.source import EmbeddedDates, formats_of, split_of, unseen_formats, unseen_years
from selfattn.data.pairs import Pair

LOCALES = ("en_US", "en_GB", "ko_KR", "fr_FR")
Probe = Callable[[str | tuple[str, ...], int], list[Pair]]
PROBES = pytest.mark.parametrize("probe", [unseen_years, unseen_formats])


@PROBES
@pytest.mark.parametrize("locales", ["en_US", LOCALES])
def test_targets_are_iso_dates_and_spans_lead_to_their_fields(probe: Probe, locales: str | tuple[str, ...]) -> None:
    for pair in probe(locales, 101):
        day = date.fromisoformat(pair.target)
        year, month, number = pair.spans
        assert pair.source[slice(*year.source)] == pair.target[slice(*year.target)] == str(day.year)
        assert int(pair.target[slice(*month.target)]) == day.month
        written = "".join(filter(str.isdigit, pair.source[slice(*number.source)]))
        assert int(written) == int(pair.target[slice(*number.target)]) == day.day
        assert pair.source[slice(*month.source)]


WITHHELD = (1943, *range(2050, 2060))


def test_withheld_years_are_in_no_part_and_make_up_a_probe() -> None:
    splits, plain = EmbeddedDates(("en_US", "ko_KR"), 3, WITHHELD), EmbeddedDates(("en_US", "ko_KR"), 3)
    for part in ("train", "valid", "test"):
        shown, all_years = ({int(pair.target[:4]) for pair in one.draw(part, 3, 0, 1000)} for one in (splits, plain))
        assert shown.isdisjoint(WITHHELD)
        assert all_years > set(WITHHELD)
    probes = splits.probes()
    assert {int(pair.target[:4]) for pair in probes["withheld years"]} == set(WITHHELD)
    assert all(pair.target[:4] in pair.source for pair in probes["withheld years"])
    assert {name: probes[name] for name in plain.probes()} == plain.probes()
    assert splits.settings["withheld_years"] == [*WITHHELD]


@PROBES
def test_what_can_be_read_as_two_days_has_its_locale_in_front(probe: Probe) -> None:
    pairs = probe(LOCALES, 401)
    tagged = [pair for pair in pairs if pair.source.startswith("[")]
    assert tagged
    for pair in tagged:
        front, _, text = pair.source.partition(" ")
        assert front == f"[{pair.tag[:5]}]"
        numbers = re.search(r"([0-9]+)/([0-9]+)/", text)  # such as 3/4/2110 AD, or Mon, 3/4/2110
        assert numbers is not None
        first, second = map(int, numbers.groups())
        assert first != second
        assert max(first, second) <= 12
    assert not any(pair.source.startswith("[") for pair in probe("en_US", 201))


def test_years_are_outside_those_of_training_and_formats_are_those_of_training() -> None:
    pairs = unseen_years(LOCALES, 401)
    years = {date.fromisoformat(pair.target).year for pair in pairs}
    assert all(1800 <= year < 1900 or 2100 <= year < 2200 for year in years)
    assert min(years) < 1810
    assert max(years) > 2190
    assert {pair.tag for pair in pairs} < {form.name for locale in LOCALES for form in formats_of(locale)}
    assert "en_US short" not in {pair.tag for pair in pairs}  # writes two digits


def test_formats_are_none_of_training_and_days_are_those_of_the_test() -> None:
    pairs = unseen_formats("en_US", 201)
    assert {split_of(date.fromisoformat(pair.target)) for pair in pairs} == {"test"}
    known = [pattern for patterns in date_patterns("en_US").values() for pattern in patterns]
    for pair in pairs:
        day = date.fromisoformat(pair.target)
        assert not any(pattern.render(day)[0] == pair.source for pattern in known if day.year in pattern.years)
