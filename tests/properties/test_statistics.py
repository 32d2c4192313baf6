"""Laws of comparisons, for any scores."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from selfattn.evaluation.significance import score_runs

NUMBERS = st.floats(-3, 3, allow_subnormal=False, width=32)


@st.composite
def models(draw, *, count=2):
    """Scores of some models, of 0 and 1 or of any numbers."""
    items = draw(st.integers(1, 23))
    values = draw(st.sampled_from([st.sampled_from([0.0, 1.0]), NUMBERS]))
    shapes = [(draw(st.integers(1, 5)), items) for _ in range(count)]
    return {name: draw(arrays(np.float64, shape, elements=values)) for name, shape in zip("abc", shapes, strict=False)}


def shares(scores):
    return all(bool(np.isin(one, (0, 1)).all()) for one in scores.values())


def same(first, second):
    return first == pytest.approx(second, rel=1e-6, abs=1e-9)


@given(models())
def test_a_difference_seen_from_the_other_side_is_its_negative(scores):
    there = score_runs(scores).comparison().between("a", "b")
    turned = score_runs({"b": scores["b"], "a": scores["a"]}).comparison()
    back = turned.pairs[0].swapped()
    assert turned.between("a", "b") == back
    with pytest.raises(KeyError, match="no pair of 'a' and 'z'"):
        turned.between("a", "z")
    assert (back.first, back.second) == (there.first, there.second)
    for name in ("difference", "low", "high", "p", "p_items"):
        assert same(getattr(there, name), getattr(back, name))


@given(models(), st.randoms(use_true_random=False))
def test_the_order_of_items_and_of_seeds_is_nothing(scores, random):
    items = list(range(scores["a"].shape[1]))
    random.shuffle(items)
    mixed = {}
    for name, one in scores.items():
        seeds = list(range(len(one)))
        random.shuffle(seeds)
        mixed[name] = one[seeds][:, items]
    before, after = score_runs(scores).comparison(), score_runs(mixed).comparison()
    for name in ("difference", "low", "high", "p", "p_items", "p_holm"):
        assert same(getattr(before.pairs[0], name), getattr(after.pairs[0], name))
    for name in scores:
        one, other = before.estimates[name], after.estimates[name]
        assert all(same(x, y) for x, y in [(one.mean, other.mean), (one.low, other.low), (one.high, other.high)])


@given(models(count=3))
def test_figures_are_what_they_claim_to_be(scores):
    found = score_runs(scores).comparison()
    for name, one in found.estimates.items():
        assert one.mean == pytest.approx(scores[name].mean(), abs=1e-12)
        assert one.low <= one.mean <= one.high
        assert not shares(scores) or 0 <= one.low <= one.high <= 1
    for pair in found.pairs:
        assert pair.low <= pair.difference <= pair.high
        assert 0 <= pair.p_items <= pair.p <= pair.p_holm <= 1
        assert not shares(scores) or -1 <= pair.low <= pair.high <= 1
        if min(len(scores[pair.first]), len(scores[pair.second])) < 3:
            assert pair.word == "not told apart"
        if pair.word in ("better", "worse"):
            assert pair.p_holm < 0.05
            assert not pair.low <= 0 <= pair.high
            assert (pair.difference > 0) == (pair.word == "better")


@given(models(), st.floats(0.1, 10), st.floats(-5, 5))
def test_another_scale_changes_no_test(scores, factor, shift):
    scaled = {name: factor * one + shift for name, one in scores.items()}
    assume(not shares(scores) and not shares(scaled))  # they have a scale
    before, after = score_runs(scores).comparison().pairs[0], score_runs(scaled).comparison().pairs[0]
    assert after.difference == pytest.approx(factor * before.difference, abs=1e-9)
    assert after.high - after.low == pytest.approx(factor * (before.high - before.low), abs=1e-7, rel=1e-5)


@given(models())
def test_a_copy_is_never_better(scores):
    pair = score_runs({"a": scores["a"], "b": scores["a"].copy()}).comparison().pairs[0]
    assert (pair.difference, pair.p) == (0, 1)
    assert pair.low <= 0 <= pair.high
