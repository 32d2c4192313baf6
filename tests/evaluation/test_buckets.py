"""Metrics by hand, in every form of Unicode, and means over tags; test items in buckets, and their estimates."""

from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn import compare_outputs
from selfattn.data.pairs import Pair, Span
from selfattn.errors import UserError
from selfattn.evaluation.buckets import evaluate_outputs, span_fields
from selfattn.evaluation.metrics import (
    CharacterErrorRate,
    ExactMatch,
    MacroExactMatch,
    MacroPhoneErrorRate,
    MacroWordErrorRate,
    PairMetric,
    PhoneErrorRate,
    WordErrorRate,
    decomposed_note,
    edit_distance,
    make_metric,
    of_each,
)
from selfattn.evaluation.significance import score_counts
from selfattn.runs.evaluate import evaluation_lines
from selfattn.tasks.dates import Dates
from selfattn.tasks.translation import Translation

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
def test_fields_by_spans(prediction, right):
    found = span_fields(prediction, "3일 후, 서울", SPANS)
    assert list(found) == ["count", "unit", "place"]
    assert [field for field, is_right in found.items() if is_right] == right.split()


def test_a_field_with_two_spans_needs_both_and_of_overlapping_spans_the_longest_counts():
    twice = [Span("day", (0, 0), (0, 1)), Span("day", (0, 0), (2, 3)), Span("inside", (0, 0), (2, 2))]
    assert span_fields("1-3", "1-2", twice) == {"day": False}
    assert span_fields("1-2", "1-2", [*twice, Span("all", (0, 0), (0, 3))]) == {"all": True}
    assert span_fields("x", "y", []) == {}


def test_a_long_wrong_answer_is_judged_in_no_time():
    """Cutting it in every possible way would take years."""
    target = "a b c d e f g"
    spans = [Span(str(place), (0, 0), (place, place + 1)) for place in range(0, 13, 2)]
    assert not any(span_fields("x " * 100 + "-", target + ".", spans).values())


def test_what_repeats_what_is_said_by_the_task():
    first, second = Pair("Nov 13, 2008", "2008-11-13"), Pair("13 November 2008", "2008-11-13")
    assert Dates().repeats(first) == Dates().repeats(second)
    assert Translation().repeats(first) != Translation().repeats(second)
    assert Translation().repeats(first) == Translation().repeats(Pair("Nov 13, 2008", "another"))


def test_edit_distance_by_hand():
    pairs = {("", ""): 0, ("", "abc"): 3, ("abc", ""): 3, ("abc", "adc"): 1, ("2008-11", "2008-1"): 1, ("ab", "ba"): 2}
    assert {pair: edit_distance(*pair) for pair in pairs} == pairs


def test_evaluation_counts_overall_and_by_tag():
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


def test_two_runs_are_tested_on_the_same_items_and_equal_outputs_are_no_evidence():
    pairs = [Pair(str(number), f"ein Hund und {number} Katzen") for number in range(20)]
    right, wrong = [pair.target for pair in pairs], ["ein Hund"] * 5 + [pair.target for pair in pairs[5:]]
    data = evaluate_outputs(right, pairs, [ExactMatch()], against=wrong)
    assert data["against"]["p"]["exact_match"] == pytest.approx(2 * 0.5**5)  # five items of five: McNemar's test
    assert (data["metrics"], data["against"]["metrics"]) == ({"exact_match": 1.0}, {"exact_match": 0.75})
    assert data["against"]["equal"] == 15
    metrics = [make_metric(name, "de") for name in ("exact_match", "character_error_rate", "bleu", "chrf", "ter")]
    data = evaluate_outputs(wrong, pairs, metrics, against=wrong)
    assert data["against"]["p"] == dict.fromkeys(data["metrics"], 1.0)
    assert data["against"]["equal"] == 20
    against = data["against"] | {"model": "a", "run": "c"}
    shown = list(evaluation_lines(data | {"model": "a", "data": "b", "unknown_characters": 0, "against": against}))
    assert sum("identical outputs" in line for line in shown) == 5
    assert not any("p = " in line or "p < " in line for line in shown)


# Error rates of pronunciations, means over tags, and metrics that see source and tag

TAGS = ("kor", "jpn", "fre")
ITEMS = st.lists(st.tuples(st.text("ab ", max_size=5), st.text("ab", min_size=1, max_size=4), st.sampled_from(TAGS)))


@given(ITEMS.filter(bool))
def test_a_macro_average_is_the_mean_over_the_tags_that_are_there(items):
    outputs = [output for output, _, _ in items]
    pairs = [Pair("", target, tag) for _, target, tag in items]
    for macro, plain in (
        (MacroExactMatch(), ExactMatch()),
        (MacroWordErrorRate(), WordErrorRate()),
        (MacroPhoneErrorRate(), PhoneErrorRate()),
    ):
        scores = []
        for tag in {pair.tag for pair in pairs}:
            places = [place for place, pair in enumerate(pairs) if pair.tag == tag]
            scores.append(plain.of([outputs[place] for place in places], [pairs[place] for place in places]))
        assert macro.of(outputs, pairs) == pytest.approx(np.mean(scores))


def test_a_mean_over_tags_needs_tags():
    with pytest.raises(UserError, match=r"`metric` macro_exact_match: a mean over tags, but no pair has one"):
        MacroExactMatch().of(["a"], [Pair("", "a")])
    with pytest.raises(UserError, match="no pair has one"):
        MacroExactMatch().of(["a"], ["a"])


class Copies(PairMetric):
    """Share of outputs that are their source, and of the right tag."""

    name = "copies"
    is_mean = True

    def count_pairs(self, outputs, pairs):
        """Count copies."""
        return of_each([output == pair.source and pair.tag == "x" for output, pair in zip(outputs, pairs, strict=True)])


def test_a_metric_may_see_source_and_tag():
    pairs = [Pair("a", "b", "x"), Pair("c", "d", "x"), Pair("e", "f", "y")]
    outputs = {"copier": [["a", "c", "e"]], "other": [["b", "c", "e"]]}
    counts = Copies().count_runs(outputs, pairs)
    scores = score_counts(counts, Copies()).estimates()
    assert [round(score.mean, 3) for score in scores.values()] == [0.667, 0.333]
    assert Copies().of(["a"], ["a"]) == 0  # references alone have no source


# What looks the same counts as the same: outputs and references are compared in Unicode's form NFC

COMPOSED = ("exact_match", "character_error_rate", "chrf", "word recall", "word accuracy", "word_error_rate")
TEXTS = st.lists(st.text("한국어 가각é́e a", min_size=1, max_size=9).filter(str.strip), min_size=1, max_size=4)


@pytest.mark.parametrize("name", [*COMPOSED, "phone_error_rate"])
@given(texts=TEXTS, wrong=TEXTS)
def test_a_score_is_the_same_in_every_form_of_unicode(name, texts, wrong):
    metric = make_metric(name)
    size = min(len(texts), len(wrong))
    texts = [normalize("NFC", text) for text in texts[:size]]
    outputs = [normalize("NFC", text) for text in wrong[:size]]
    expected = metric.counts(outputs, texts).tolist()
    for form in ("NFC", "NFD"):
        for other in ("NFC", "NFD"):
            changed = [normalize(form, text) for text in outputs], [normalize(other, text) for text in texts]
            assert metric.counts(*changed).tolist() == expected


def test_korean_outputs_that_are_taken_apart_are_right_and_warned_about(tmp_path, capsys):
    right = [f"한국어 문장 {number}" for number in range(60)]
    (tmp_path / "right.txt").write_text("\n".join(right), "utf-8")
    (tmp_path / "out.txt").write_text(normalize("NFD", "\n".join([*right[:50], *["틀림"] * 10])), "utf-8")
    compare_outputs(tmp_path / "right.txt", {"a": [tmp_path / "out.txt"]}, out=tmp_path / "out", metric="exact_match")
    assert "a 83\xa0%" in (tmp_path / "out" / "report.md").read_text("utf-8")
    said = capsys.readouterr()
    assert "out.txt: 60 texts are not in Unicode form NFC; shares and character metrics compose" in said.err + said.out
    assert decomposed_note("right.txt", right) is None
