"""Gold links and the alignment error rate."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.errors import UserError
from selfattn.evaluation.alignment.links import (
    AlignmentCounts,
    Links,
    count_alignment,
    diagonal,
    parse_links,
    read_gold,
)


def test_error_rate_by_hand() -> None:
    """Och and Ney 2003: four links, of which one is sure, two more are possible and one is wrong; two are sure."""
    gold = Links(sure=frozenset({(0, 0), (3, 3)}), possible=frozenset({(1, 1), (1, 2)}))
    counts = count_alignment([{(0, 0), (1, 1), (1, 2), (2, 2)}], [gold])
    assert counts == AlignmentCounts(links=4, sure=2, in_sure=1, in_possible=3)
    assert counts.precision == 3 / 4
    assert counts.recall == 1 / 2
    assert counts.aer == pytest.approx(1 - (1 + 3) / (4 + 2))


def test_counts_of_sentences_are_added_before_anything_is_divided() -> None:
    first, second = Links(frozenset({(0, 0)})), Links(frozenset({(0, 0), (1, 1), (2, 2)}))
    counts = count_alignment([{(0, 0)}, set()], [first, second])
    assert counts.recall == 1 / 4
    assert counts.precision == 1
    assert counts == count_alignment([{(0, 0)}], [first]) + count_alignment([set()], [second])


def test_nothing_to_measure_is_none_not_a_figure() -> None:
    nothing = count_alignment([set()], [Links()])
    assert (nothing.aer, nothing.precision, nothing.recall) == (None, None, None)
    extra = count_alignment([{(0, 0)}], [Links(possible=frozenset({(0, 0)}))])
    assert (extra.aer, extra.recall) == (0, None)


@given(st.integers(1, 40), st.integers(1, 40))
def test_the_diagonal_links_every_target_word_once_and_in_order(source: int, target: int) -> None:
    links = sorted((place, word) for word, place in diagonal(source, target))
    assert [word for word, _ in links] == list(range(target))
    places = [place for _, place in links]
    assert places == sorted(places)
    assert set(places) <= set(range(source))
    # Turned end for end it is itself, but where the middle of a target word falls between two source words.
    between = {word for word in range(target) if (2 * word + 1) * source % (2 * target) == 0}
    assert all(places[-1 - word] == source - 1 - places[word] for word in range(target) if word not in between)


def test_the_diagonal_by_hand() -> None:
    assert diagonal(4, 2) == {(1, 0), (3, 1)}
    assert diagonal(5, 0) == set()


# --- files ------------------------------------------------------------------------------------------------------------


def test_links_are_read_from_either_base() -> None:
    assert parse_links("0-0 3p2") == parse_links("1-1  4p3", base=1) == Links(frozenset({(0, 0)}), frozenset({(3, 2)}))
    assert parse_links("") == Links()
    assert parse_links("2-1 2p1").possible == {(2, 1)}  # a sure link is possible anyway


def test_a_wrong_base_is_found_out() -> None:
    with pytest.raises(UserError, match=r"0-1: a position below 1; does this file count from 0\?"):
        parse_links("0-1", base=1)
    with pytest.raises(UserError, match=r"2-2: outside its sentences of 2 and 2 words; does this file count from 1\?"):
        parse_links("1-1 2-2", lengths=(2, 2))


@pytest.mark.parametrize(("name", "pairs", "sure", "extra"), [("enfr", 447, 4038, 13400), ("roen", 248, 6198, 0)])
def test_real_gold_has_the_counts_of_its_description(
    shared_data: Callable[[str], Path], name: str, pairs: int, sure: int, extra: int
) -> None:
    sentences, path = (shared_data(f"alignments/{name}/{name}.{ending}") for ending in ("src-tgt", "gold"))
    gold = [pair.links for pair in read_gold(path, sentences=sentences, base=1)]
    counts = len(gold), sum(len(links.sure) for links in gold), sum(len(links.possible - links.sure) for links in gold)
    assert counts == (pairs, sure, extra)
    assert count_alignment([links.possible for links in gold], gold).aer == 0
    with pytest.raises(UserError, match=r"does this file count from 1\?"):
        read_gold(path, sentences=sentences, base=0)
