from __future__ import annotations

import json

import numpy as np
import pytest

from selfattn.codec import decode, encode
from selfattn.data.corpus.cleaning import CleaningOptions, clean_rows, clean_text, median_ratio, unlikely
from selfattn.data.corpus.cleaning_report import CleaningReport, CleaningStep, PartReport, SharedPairs, Tally
from selfattn.data.readers.records import BadRecord, RawPair
from selfattn.errors import UserError

DEFAULT = CleaningOptions()


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("  a b  ", "a b"),
        ("a  b", "a  b"),
        ("a\u00a0b\u202f!", "a\u00a0b\u202f!"),  # no-break spaces belong to the text
        ("\u3000あ\u00a0", "あ"),
        ("a\tb\nc\r\nd", "a b c  d"),
        ("a\x85b\u2028c\x1fd", "a b c d"),
        ("a\x00b\x07\x7f\x9fc", "abc"),
        ("\ufeffa\ufeffb", "ab"),
        ("e\x00\u0301", "é"),  # they meet only when the control character is gone
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", "한국"),  # conjoining jamo
        ("\u1112\u1161", "하"),
        ("ㅋㅋ ㅎ", "ㅋㅋ ㅎ"),  # compatibility jamo
        ("Ａ１ ﾊ ½", "Ａ１ ﾊ ½"),  # full and half width, a fraction
        ("क\u200dष", "क\u200dष"),  # a joiner is part of the spelling
    ],
)
def test_a_text_is_cleaned(text: str, clean: str) -> None:
    assert clean_text(text) == clean
    assert clean_text(clean) == clean


def test_spaces_and_the_unicode_form_are_options() -> None:
    assert clean_text("a\u00a0 \u3000b\u202f!", CleaningOptions(spaces=True)) == "a b !"
    assert clean_text("\u1112\u1161\u11ab", CleaningOptions(nfc=False)) == "\u1112\u1161\u11ab"


def test_each_row_is_kept_or_counted_for_the_first_step_that_meets_it() -> None:
    rows = [
        RawPair(1, "good", "gut"),
        BadRecord(2, "1 column(s), not 2", lines=3),
        RawPair(5, "bad \udcff", "ok"),
        RawPair(6, "  ", ""),
        RawPair(7, "text", "\u200b\u00a0"),
        RawPair(8, "x" * 11, "y"),
        RawPair(9, " e\u0301 ", "t\x00"),
        RawPair(10, "\ud800", ""),
    ]
    tally = Tally("f")
    kept = list(clean_rows(rows, CleaningOptions(max_characters=10), tally, limited=True))
    assert kept == [(1, "good", "gut"), (9, "é", "t")]
    report = tally.report("train", len(kept))
    assert report.read == 10
    assert {step.name: (step.count, step.places) for step in report.dropped} == {
        "broken": (3, ("f:2 1 column(s), not 2",)),
        "invalid UTF-8": (2, ("f:5 source", "f:10 source")),
        "empty": (2, ("f:6 source and target", "f:7 target")),
        "too long": (1, ("f:8 11 characters",)),
    }
    assert [(step.name, step.count) for step in report.changed] == [
        ("Unicode form", 1),
        ("spaces", 1),
        ("control characters", 1),
    ]


def test_the_limit_of_length_is_for_training_pairs_alone() -> None:
    row = RawPair(1, "x" * 11, "y")
    assert list(clean_rows([row], CleaningOptions(max_characters=10), Tally("f"), limited=False)) == [
        (1, "x" * 11, "y")
    ]
    assert list(clean_rows([row], CleaningOptions(max_characters=None), Tally("f"), limited=True))
    assert list(clean_rows([row], CleaningOptions(max_characters=11), Tally("f"), limited=True))


def test_lengths_are_held_against_what_the_source_lets_expect() -> None:
    # 30 characters let expect 15, both with 10 added: from 25 / 4 to 25 * 4, without the 10: up to 90
    found = [unlikely(30, target, 0.5, 4.0) for target in (1, 15, 90, 91)]
    assert found == [False, False, False, True]
    assert [unlikely(source, 10, 0.5, 4.0) for source in (140, 141)] == [False, True]
    source, target = np.array([30, 30], np.uint32), np.array([90, 91], np.uint32)
    assert unlikely(source, target, 0.5, 4.0).tolist() == [False, True]


def test_the_median_ratio_is_not_moved_by_a_few_bad_pairs() -> None:
    source = np.full(11, 20, np.uint32)
    target = np.array([10] * 8 + [2000] * 3, np.uint32)
    assert median_ratio(source, target) == 0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_characters", 0), ("max_ratio", 0.9), ("max_ratio", float("nan")), ("length_ratio", 0.0)],
)
def test_options_are_checked(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        CleaningOptions(**{name: value})  # type: ignore[arg-type]  # a setting of any type


def test_a_report_survives_json_and_reads_well() -> None:
    train = PartReport(
        "train",
        9,
        4,
        (CleaningStep("empty", 4, ("f:1", "f:2", "f:3")),),
        (CleaningStep("spaces", 1, ("f:9",)),),
        (CleaningStep("test", 1),),
    )
    report = CleaningReport((train,), (SharedPairs("test", 2, 1, 3),), 1.25)
    assert decode(CleaningReport, json.loads(json.dumps(encode(report))), file="corpus.json", advice="") == report
    assert report.lines() == [
        "train: 9 read, 4 kept, 4 left out, 1 moved to test",
        "  left out, empty: 4 (f:1; f:2; f:3; ...)",
        "  changed, spaces: 1 (f:9)",
        "test: 3 of its pairs shared with train (2 by source, 1 by target)",
        "target length expected: 1.25 characters for one of the source",
    ]
    assert report.part("train") is train
    with pytest.raises(KeyError):
        report.part("valid")


def test_a_part_without_pairs_is_refused_with_its_counts() -> None:
    with pytest.raises(UserError, match=r"f: no pair is left for test after cleaning \(empty 2; first: f:1\)"):
        PartReport("test", 2, 0, (CleaningStep("empty", 2, ("f:1",)),)).refuse_empty("f")
