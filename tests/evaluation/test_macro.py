"""Error rates of pronunciations, means over tags, and metrics that see source and tag."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.buckets import evaluate_outputs
from selfattn.evaluation.metrics import (
    Array,
    ExactMatch,
    MacroExactMatch,
    MacroPhoneErrorRate,
    MacroWordErrorRate,
    PairMetric,
    PhoneErrorRate,
    WordErrorRate,
    of_each,
)
from selfattn.evaluation.significance import score_counts

TAGS = ("kor", "jpn", "fre")
ITEMS = st.lists(st.tuples(st.text("ab ", max_size=5), st.text("ab", min_size=1, max_size=4), st.sampled_from(TAGS)))


@given(ITEMS.filter(bool))
def test_a_macro_average_is_the_mean_over_the_tags_that_are_there(items: list[tuple[str, str, str]]) -> None:
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


def test_a_language_counts_alike_however_many_words_it_has() -> None:
    pairs = [Pair("", "a", "kor")] * 30 + [Pair("", "a", "jpn")] * 2
    outputs = ["a"] * 30 + ["b"] * 2
    assert WordErrorRate().of(outputs, pairs) == 2 / 32
    assert MacroWordErrorRate().of(outputs, pairs) == 0.5
    results = evaluate_outputs(outputs, pairs, [MacroWordErrorRate()])
    low, high = results["intervals"]["macro_word_error_rate"]
    assert low <= 0.5 <= high


def test_a_mean_over_tags_needs_tags() -> None:
    with pytest.raises(UserError, match=r"`metric` macro_exact_match: a mean over tags, but no pair has one"):
        MacroExactMatch().of(["a"], [Pair("", "a")])
    with pytest.raises(UserError, match="no pair has one"):
        MacroExactMatch().of(["a"], ["a"])


class Copies(PairMetric):
    """Share of outputs that are their source, and of the right tag."""

    name = "copies"
    is_mean = True

    def count_pairs(self, outputs: Sequence[str], pairs: Sequence[Pair]) -> Array:
        """Count copies."""
        return of_each([output == pair.source and pair.tag == "x" for output, pair in zip(outputs, pairs, strict=True)])


def test_a_metric_may_see_source_and_tag() -> None:
    pairs = [Pair("a", "b", "x"), Pair("c", "d", "x"), Pair("e", "f", "y")]
    outputs = {"copier": [["a", "c", "e"]], "other": [["b", "c", "e"]]}
    counts = Copies().count_runs(outputs, pairs)
    scores = score_counts(counts, Copies()).estimates()
    assert [round(score.mean, 3) for score in scores.values()] == [0.667, 0.333]
    assert Copies().of(["a"], ["a"]) == 0  # references alone have no source
