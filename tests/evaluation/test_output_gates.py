"""Gates on outputs and on the data: collapsed outputs, tests that training has seen, models far below the published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.data.dates.source import DateSource
from selfattn.data.pairs import Pair
from selfattn.data.readers.pair_files import read_pairs
from selfattn.data.splits import book_split
from selfattn.evaluation.gates.output_gates import (
    baseline_gate,
    endings,
    output_gates,
    repetition,
    repetition_rate,
    variety,
)
from selfattn.evaluation.gates.overlap import overlap
from selfattn.models.presets import PRESETS
from selfattn.results.gates import Baseline
from selfattn.tasks.baselines import DATES

TARGETS = [pair.target for pair in DateSource(split="test").pairs(101)]


def failed(outputs: list[str], *, finished: bool = True) -> list[str]:
    gates = output_gates(outputs, TARGETS, [finished] * len(outputs))
    return [gate.name for gate in gates if not gate.passed]


def test_right_outputs_pass() -> None:
    assert failed(TARGETS) == []


def test_wrong_but_sensible_outputs_pass() -> None:
    """A poor model is no broken one: wrong dates, but dates, and different ones."""
    assert failed(TARGETS[1:] + TARGETS[:1]) == []


@pytest.mark.parametrize(
    ("output", "gates"),
    [
        ("2008-11-13", ["variety"]),  # the same answer to everything
        ("", ["variety"]),
        ("0000000000", ["repetition", "variety"]),
        ("08-08-08-08-08-08-08", ["repetition", "variety"]),
    ],
)
def test_a_collapsed_output_is_caught(output: str, gates: list[str]) -> None:
    assert failed([output] * len(TARGETS)) == gates


def test_going_round_in_circles_is_caught_even_where_every_output_differs() -> None:
    assert failed([target + target[-2:] * 30 for target in TARGETS]) == ["repetition"]


def test_outputs_that_never_end_are_caught() -> None:
    assert failed(TARGETS, finished=False) == ["endings"]
    assert endings([True] * 95 + [False] * 5).passed
    assert not endings([True] * 94 + [False] * 6).passed
    assert "94 of 100 outputs" in endings([True] * 94 + [False] * 6).reason


def test_without_ends_known_there_is_no_such_gate() -> None:
    assert [gate.name for gate in output_gates(["a"], ["a"])] == ["repetition", "variety"]


def test_repetition_by_hand() -> None:
    """Five letters have two 4-grams; in ``aaaaa`` the second repeats the first."""
    assert repetition_rate(["abcde"]) == 0
    assert repetition_rate(["aaaaa"]) == 0.5
    assert repetition_rate(["aaaaa", "abcde"]) == 0.25
    assert repetition_rate(["aaa", ""]) == 0  # no 4-gram at all
    assert repetition_rate([[7, 8, 7, 8, 7]], n=2) == 0.5
    assert repetition_rate([]) == 0


def test_targets_that_repeat_allow_outputs_to_repeat() -> None:
    songs = ["la la la la la la"] * 3
    assert repetition(songs, songs).passed
    assert not repetition(songs, ["do re mi fa so la"] * 3).passed
    assert repetition(songs, songs).limit == pytest.approx(repetition_rate(songs) + 0.1)


@given(st.lists(st.text(alphabet="ab-", max_size=12), min_size=1, max_size=7))
def test_what_equals_its_targets_passes(texts: list[str]) -> None:
    assert all(gate.passed for gate in output_gates(texts, texts))
    assert 0 <= repetition_rate(texts) < 1


def test_few_different_targets_ask_for_few_different_outputs() -> None:
    assert variety(["yes"] * 9 + ["no"], ["yes", "no"] * 5).value == 1
    assert variety(["yes"] * 10, ["yes", "no"] * 5).passed


def test_gates_need_outputs_with_targets() -> None:
    for gate in (repetition, variety):
        with pytest.raises(ValueError, match="at least one; got 0 and 0"):
            gate([], [])
        with pytest.raises(ValueError, match="got 2 and 1"):
            gate(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="at least one output"):
        endings([])


# --- published figures ------------------------------------------------------------------------------------------------


BASELINE = DATES["transformer"]
MUCH = {"examples": 2_000_000, "distinct": 2_000_000}


def test_a_model_far_below_the_published_fails() -> None:
    gate = baseline_gate(BASELINE, 0.2, **MUCH)
    assert gate is not None
    assert not gate.passed
    assert "exact_match 0.2 after 2,000,000 training pairs, at least 0.95 expected (Saito 2018" in gate.reason
    assert "0.999" in gate.reason
    assert "135,000 pairs" in gate.reason
    near = baseline_gate(BASELINE, 0.96, **MUCH)
    assert near is not None
    assert near.passed


@pytest.mark.parametrize(
    ("examples", "distinct", "asked"),
    [
        (135_000, 45_000, True),
        (480_000, 480_000, True),  # twelve epochs of 40,000, all of them new
        (134_999, 45_000, False),
        (20_000, 20_000, False),  # a quick run
        (4_000_000, 1_000, False),  # few examples, again and again
        (4_000_000, 44_999, False),
    ],
)
def test_a_model_trained_on_less_than_the_published_is_not_asked(examples: int, distinct: int, asked: bool) -> None:
    gate = baseline_gate(BASELINE, 0.0, examples=examples, distinct=distinct)
    assert (gate is not None) == asked


def test_what_is_not_said_of_the_training_counts_as_none() -> None:
    assert baseline_gate(Baseline("bleu", 38.0, "x", examples=1), 0.0) is None
    assert baseline_gate(Baseline("bleu", 38.0, "x", distinct=1), 0.0) is None


def test_where_less_is_better_a_baseline_is_held_from_above() -> None:
    baseline = Baseline("ter", 40.0, "Smith 2026: 38")
    low, high = (baseline_gate(baseline, value, better="lower") for value in (39.0, 41.0))
    assert low is not None
    assert high is not None
    assert (low.passed, high.passed) == (True, False)
    assert high.reason == "ter 41, at most 40 expected (Smith 2026: 38)"


def test_baselines_are_asked_of_models_with_attention_and_name_their_source() -> None:
    assert DATES.keys() == {"rnn with attention", "transformer"}
    for baseline in DATES.values():
        assert baseline.distinct <= baseline.examples
        assert "2018" in baseline.source


def test_kinds_of_presets() -> None:
    kinds = {name: preset.config.architecture for name, preset in PRESETS.items()}
    assert kinds["rnn-plain"] == kinds["rnn-peeky"] == "rnn without attention"
    assert kinds["decoder-only"] == kinds["rnn-encoder-transformer-decoder"] == "transformer"
    for name, preset in PRESETS.items():
        assert preset.attention == (kinds[name] != "rnn without attention")


# --- overlap of training and test -------------------------------------------------------------------------------------


def told(*, items: str, exact: str, casefolded: str, targets: str) -> str:
    return (
        f"of {items} test sources {exact} are in the training data word for word, {casefolded} when case is ignored; "
        f"of the targets {targets}"
    )


def test_overlap_counts_test_pairs_by_hand() -> None:
    train = [Pair("May 1", "05-01"), Pair("JUNE 2", "06-02"), Pair("June 2", "x"), Pair("Straße", "s")]
    test = [Pair("May 1", "05-01"), Pair("May 1", "05-01"), Pair("june 2", "y"), Pair("STRASSE", "z"), Pair("new", "s")]
    gate = overlap(train, test)
    assert (gate.name, gate.passed, gate.value, gate.limit) == ("overlap", False, 4 / 5, 0.01)
    assert gate.reason == told(items="5", exact="2", casefolded="4", targets="3")


def test_a_test_that_training_has_seen_is_caught() -> None:
    source = DateSource(split="test").pairs(200)
    planted = source[:100] + DateSource().pairs(500)
    gate = overlap(planted, source)
    assert not gate.passed
    assert gate.value >= 0.5
    shouted = [Pair(pair.source.swapcase(), pair.target) for pair in source]
    found = overlap(shouted, source)
    assert found.value == 1
    assert "200 when case is ignored" in found.reason
    assert "200 are in the training data word for word" not in found.reason
    assert not found.passed


def test_the_dates_of_training_and_test_do_not_overlap() -> None:
    found = overlap(iter(DateSource().pairs(2000)), DateSource(split="test").pairs(500))
    assert found.reason == told(items="500", exact="0", casefolded="0", targets="0")
    assert found.passed


def test_known_targets_fail_nothing_but_are_told() -> None:
    found = overlap([Pair(f"a{number}", "yes") for number in range(9)], [Pair("b", "yes")])
    assert found.passed
    assert found.reason.endswith("of the targets 1")


def test_overlap_needs_a_test() -> None:
    with pytest.raises(ValueError, match="at least one test pair"):
        overlap([], [])


def test_the_overlap_of_the_book_is_as_its_description_says(shared_data: Callable[[str], Path]) -> None:
    """Its own split: 1,405 test rows word for word in training, 2,438 when case is ignored, 4,641 targets."""
    found = overlap(*book_split(read_pairs(shared_data("dates/date.txt"))))
    assert found.reason == told(items="5,000", exact="1,405", casefolded="2,438", targets="4,641")
    assert not found.passed


# --- at the limit -----------------------------------------------------------------------------------------------------


def test_who_just_reaches_a_limit_passes() -> None:
    numbers = [str(number) for number in range(100)]
    pairs = [Pair(number, number) for number in numbers]
    known = 1 - 1 / 7  # of the seven 4-grams of ten like characters all but the first are known
    for reached, missed in (
        (endings([True] * 19 + [False]), endings([True] * 18 + [False])),
        (variety(["a"] * 10, numbers[:10]), variety(["a"] * 11, numbers[:11])),
        (repetition(["0" * 10], ["2008-11-13"], above=known), repetition(["0" * 10], ["2008-11-13"], above=0.857)),
        (overlap(pairs[:1], pairs), overlap(pairs[:2], pairs)),
        (baseline_gate(Baseline("bleu", 38.0, "x"), 38.0), baseline_gate(Baseline("bleu", 38.0, "x"), 37.9)),
        (
            baseline_gate(Baseline("ter", 38.0, "x"), 38.0, better="lower"),
            baseline_gate(Baseline("ter", 38.0, "x"), 38.1, better="lower"),
        ),
    ):
        assert reached is not None
        assert missed is not None
        assert (reached.passed, missed.passed) == (True, False), missed.name
        assert reached.value == reached.limit
    for others, passed in ((8, True), (7, False)):  # 0.857 / 9 is less than 0.1, 0.857 / 8 is more
        assert repetition(["0" * 10] + ["abcdefg"] * others, ["abcdefg"] * (others + 1)).passed == passed
