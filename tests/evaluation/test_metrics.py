"""Metrics by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.evaluation.metrics.exact import CharacterErrorRate, edit_distance, exact_matches


def test_exact_match_is_character_by_character() -> None:
    assert exact_matches(["a", "a ", "", "A"], ["a", "a", "", "a"]) == [True, False, True, False]
    with pytest.raises(ValueError, match="zip"):
        exact_matches(["a"], [])


@pytest.mark.parametrize(
    ("first", "second", "edits"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("abc", "abc", 0),
        ("abc", "adc", 1),
        ("kitten", "sitting", 3),
        ("2008-11-13", "2008-1-13", 1),
        ("ab", "ba", 2),
    ],
)
def test_edit_distance_by_hand(first: str, second: str, edits: int) -> None:
    assert edit_distance(first, second) == edits


@given(st.text("ab-", max_size=8), st.text("ab-", max_size=8), st.text("ab-", max_size=8))
def test_edit_distance_is_a_metric(a: str, b: str, c: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


def test_error_rate_counts_edits_over_all_target_characters() -> None:
    # 1 edit in 4 characters and 0 in 6: not the mean of 1/4 and 0.
    assert CharacterErrorRate().of(["abxd", "abcdef"], ["abcd", "abcdef"]) == 0.1
    with pytest.raises(ValueError, match="at least one character"):
        CharacterErrorRate().of(["a"], [""])
