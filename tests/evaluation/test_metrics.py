"""Metrics by hand."""

import pytest

from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.evaluate import evaluate_outputs
from selfattn.evaluation.metrics.exact import CharacterErrorRate, ExactMatch, edit_distance


def test_exact_match_is_character_by_character() -> None:
    assert ExactMatch().counts(["a", "a ", "", "A"], ["a", "a", "", "a"])[:, 0].tolist() == [1, 0, 1, 0]
    with pytest.raises(ValueError, match="zip"):
        ExactMatch().counts(["a"], [])


def test_edit_distance_by_hand() -> None:
    pairs = {("", ""): 0, ("", "abc"): 3, ("abc", ""): 3, ("abc", "adc"): 1, ("2008-11", "2008-1"): 1, ("ab", "ba"): 2}
    assert {pair: edit_distance(*pair) for pair in pairs} == pairs


def test_error_rate_counts_edits_over_all_target_characters() -> None:
    # 1 edit in 4 characters and 0 in 6: not the mean of 1/4 and 0.
    assert CharacterErrorRate().of(["abxd", "abcdef"], ["abcd", "abcdef"]) == 0.1
    with pytest.raises(ValueError, match="at least one character"):
        CharacterErrorRate().of(["a"], [""])


def test_evaluation_counts_overall_and_by_tag() -> None:
    pairs = [Pair("a", "A", "x"), Pair("b", "B", "y"), Pair("c", "C", "x"), Pair("d", "D")]
    metrics = [ExactMatch(), CharacterErrorRate()]
    data = evaluate_outputs(["A", "B", "CC", "D"], pairs, metrics)
    assert data["items"] == 4
    assert data["metrics"] == {"exact_match": 0.75, "character_error_rate": 0.25}
    assert data["intervals"].keys() == {"exact_match"}
    assert {tag: (part["items"], part["exact_match"]["mean"]) for tag, part in data["by_format"].items()} == {
        "x": (2, 0.5),
        "y": (1, 1.0),
    }
    with pytest.raises(ValueError, match="at least one; got 0 and 0"):
        evaluate_outputs([], [], metrics)
