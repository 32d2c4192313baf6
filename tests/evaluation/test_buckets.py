"""Metrics by hand; test items in buckets, and what is estimated on each."""

import pytest

from selfattn.data.dates.source import DateSource
from selfattn.data.pairs import Pair, Span
from selfattn.evaluation.buckets import by_length, evaluate_outputs, span_fields
from selfattn.evaluation.metrics import CharacterErrorRate, ExactMatch, edit_distance, make_metric
from selfattn.runs.evaluate import evaluation_lines
from selfattn.tasks.dates import Dates
from selfattn.tasks.translation import Translation

DATES = DateSource(split="test").pairs(211)


# --- divisions --------------------------------------------------------------------------------------------------------


def test_length_buckets_are_of_about_one_size_where_lengths_allow_it() -> None:
    buckets = by_length([" " * length for length in range(100)])
    assert [len(places) for places in buckets.values()] == [25, 25, 25, 25]
    assert by_length(["a b", "a b c", "d"], words=str.split) == {"1": [2], "2": [0], "3": [1]}


# --- estimates --------------------------------------------------------------------------------------------------------


# --- fields -----------------------------------------------------------------------------------------------------------


SPANS = (Span("unit", (0, 0), (1, 2)), Span("count", (0, 0), (0, 1)), Span("place", (0, 0), (6, 8)))


@pytest.mark.parametrize(
    ("prediction", "right"),
    [
        ("3일 후, 서울", "count unit place"),
        ("4일 후, 서울", "unit place"),
        ("13일 후, 서울", "unit place"),
        ("3주 후, 부산", "count"),
        ("3일 전, 서울", ""),  # not the text between the fields
        ("일 후, 서울", ""),  # one field would be empty
        ("3일 후, 서울 후, 서울", "count unit"),  # of two cuts that with more right fields
        ("3일 후, ", ""),
        ("", ""),
    ],
)
def test_fields_by_spans(prediction: str, right: str) -> None:
    found = span_fields(prediction, "3일 후, 서울", SPANS)
    assert list(found) == ["count", "unit", "place"]
    assert [field for field, is_right in found.items() if is_right] == right.split()


def test_a_field_with_two_spans_needs_both_and_of_overlapping_spans_the_longest_counts() -> None:
    twice = [Span("day", (0, 0), (0, 1)), Span("day", (0, 0), (2, 3)), Span("inside", (0, 0), (2, 2))]
    assert span_fields("1-3", "1-2", twice) == {"day": False}
    assert span_fields("1-2", "1-2", [*twice, Span("all", (0, 0), (0, 3))]) == {"all": True}
    assert span_fields("x", "y", []) == {}


def test_a_long_wrong_answer_is_judged_in_no_time() -> None:
    """Cutting it in every possible way would take years."""
    target = "a b c d e f g"
    spans = [Span(str(place), (0, 0), (place, place + 1)) for place in range(0, 13, 2)]
    assert not any(span_fields("x " * 100 + "-", target + ".", spans).values())


def test_what_repeats_what_is_said_by_the_task() -> None:
    first, second = Pair("Nov 13, 2008", "2008-11-13"), Pair("13 November 2008", "2008-11-13")
    assert Dates().repeats(first) == Dates().repeats(second)
    assert Translation().repeats(first) != Translation().repeats(second)
    assert Translation().repeats(first) == Translation().repeats(Pair("Nov 13, 2008", "another"))


def test_edit_distance_by_hand() -> None:
    pairs = {("", ""): 0, ("", "abc"): 3, ("abc", ""): 3, ("abc", "adc"): 1, ("2008-11", "2008-1"): 1, ("ab", "ba"): 2}
    assert {pair: edit_distance(*pair) for pair in pairs} == pairs


# Metrics by hand


def test_evaluation_counts_overall_and_by_tag() -> None:
    pairs = [Pair("a", "A", "x"), Pair("b", "B", "y"), Pair("c", "C", "x"), Pair("d", "D")]
    metrics = [ExactMatch(), CharacterErrorRate()]
    data = evaluate_outputs(["A", "B", "CC", "D"], pairs, metrics)
    assert data["items"] == 4
    assert data["metrics"] == {"exact_match": 0.75, "character_error_rate": 0.25}
    assert data["intervals"].keys() == data["metrics"].keys()
    assert "against" not in data
    assert {tag: (part["items"], part["exact_match"]["mean"]) for tag, part in data["by_format"].items()} == {
        "x": (2, 0.5),
        "y": (1, 1.0),
    }


def test_two_runs_are_tested_on_the_same_items() -> None:
    pairs = [Pair(str(number), f"{number:03}") for number in range(20)]
    right, wrong = [pair.target for pair in pairs], ["-"] * 5 + [pair.target for pair in pairs[5:]]
    data = evaluate_outputs(right, pairs, [ExactMatch()], against=wrong)
    assert data["against"]["p"]["exact_match"] == pytest.approx(2 * 0.5**5)  # five items of five: McNemar's test
    assert (data["metrics"], data["against"]["metrics"]) == ({"exact_match": 1.0}, {"exact_match": 0.75})
    assert data["against"]["equal"] == 15


def test_equal_outputs_are_no_evidence_and_are_called_identical() -> None:
    pairs = [Pair(str(number), f"ein Hund und {number} Katzen") for number in range(20)]
    outputs = ["ein Hund"] * 5 + [pair.target for pair in pairs[5:]]
    metrics = [make_metric(name, "de") for name in ("exact_match", "character_error_rate", "bleu", "chrf", "ter")]
    data = evaluate_outputs(outputs, pairs, metrics, against=outputs)
    assert data["against"]["p"] == dict.fromkeys(data["metrics"], 1.0)
    assert data["against"]["equal"] == 20
    shown = list(evaluation_lines(data | {"model": "a", "data": "b", "unknown_characters": 0} | {
        "against": data["against"] | {"model": "a", "run": "c"}
    }))  # fmt: skip
    assert sum("identical outputs" in line for line in shown) == 5
    assert not any("p = " in line or "p < " in line for line in shown)
