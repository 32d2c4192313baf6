"""Items that repeat one another are no further evidence: an interval is as wide as that of the different ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.exact import ExactMatch
from selfattn.evaluation.metrics.translation import Chrf
from selfattn.evaluation.statistics.significance import compare_counts, compare_outputs, compare_scores
from selfattn.results.pairs import Comparison
from selfattn.tasks.dates import Dates
from selfattn.tasks.translation import Translation

COPIES = 9
RIGHT = np.repeat(np.random.default_rng(0).random((2, 1, 80)) < np.array([0.9, 0.8])[:, None, None], 3, axis=1)
RIGHT[:, 0, 0] ^= True  # runs that differ in one item
SCORES = {"a": RIGHT[0], "b": RIGHT[1]}


def width(found: Comparison, name: str = "a") -> float:
    one = found.estimates[name]
    assert one.low is not None
    assert one.high is not None
    return one.high - one.low


def copied(scores: Mapping[str, npt.NDArray[np.bool_]]) -> dict[str, npt.NDArray[np.bool_]]:
    return {name: np.repeat(own, COPIES, axis=1) for name, own in scores.items()}


LABELS = np.repeat(np.arange(80), COPIES).tolist()


@pytest.mark.parametrize("seeds", [1, 3])
def test_copies_of_items_add_nothing(seeds: int) -> None:
    """Nine copies of each of 80 items pass for 720 items unless they are known to be copies."""
    few = {name: own[:seeds] for name, own in SCORES.items()}
    plain, cheat = compare_scores(few), compare_scores(copied(few))
    mended = compare_scores(copied(few), clusters=LABELS)
    assert width(cheat) < 0.75 * width(plain)
    assert width(mended) == pytest.approx(width(plain), rel=1e-9 if seeds > 1 else 0.1)
    (was,), (said,), (now,) = plain.pairs, cheat.pairs, mended.pairs
    assert said.p_items is not None
    assert was.p_items is not None
    assert said.p_items < was.p_items / 10
    assert now.p_items == pytest.approx(was.p_items, rel=1e-9)
    assert (now.low, now.high) == pytest.approx((was.low, was.high), rel=1e-6)


def test_perfect_copies_are_few_items() -> None:
    perfect = {"a": np.ones((3, 80), dtype=bool)}
    assert width(compare_scores(copied(perfect), clusters=LABELS)) == width(compare_scores(perfect))
    assert width(compare_scores(copied(perfect))) < width(compare_scores(perfect)) / 5


def test_copies_add_nothing_to_a_score_of_the_corpus() -> None:
    generator = np.random.default_rng(1)
    outputs = {name: [["w" * int(size) for size in generator.integers(1, 9, 60)]] * 3 for name in "ab"}
    references = ["w" * 5] * 60
    plain = compare_outputs(outputs, references, Chrf())
    more = {name: [[text for text in run for _ in range(COPIES)] for run in runs] for name, runs in outputs.items()}
    labels = [place for place in range(60) for _ in range(COPIES)]
    cheat = compare_outputs(more, references * COPIES, Chrf())
    mended = compare_outputs(more, references * COPIES, Chrf(), clusters=labels)
    assert width(mended) == pytest.approx(width(plain), rel=1e-6)
    assert width(cheat) < width(mended) / 2


def test_every_item_of_its_own_changes_nothing() -> None:
    counts = {name: np.stack([own, np.ones_like(own)], axis=-1).astype(float) for name, own in SCORES.items()}
    assert compare_counts(counts, ExactMatch(), clusters=range(80)) == compare_counts(counts, ExactMatch())


def test_of_unequal_groups_the_variance_is_that_of_their_sums() -> None:
    """By hand: groups {1, 1, 0} and {0} around a mean of 1/2 sum to 1/2 and -1/2; 2 / 1 * (1/4 + 1/4) / 4 ** 2."""
    from selfattn.evaluation.statistics.variances import average_covariance

    found = average_covariance(np.array([[1.0, 1.0, 0.0, 0.0]]), np.array([0, 0, 0, 1]))
    assert found == pytest.approx(np.array([[1 / 16]]))


def test_labels_are_as_many_as_items() -> None:
    with pytest.raises(ValueError, match="clusters: expected a label for each of 3 items, got 2"):
        compare_scores({"a": [[1.0, 0.0, 1.0]]}, clusters=["x", "y"])


def test_what_repeats_what_is_said_by_the_task() -> None:
    one, other = Pair("Nov 13, 2008", "2008-11-13"), Pair("13 November 2008", "2008-11-13")
    assert Dates().repeats(one) == Dates().repeats(other)
    assert Translation().repeats(one) != Translation().repeats(other)
    assert Translation().repeats(one) == Translation().repeats(Pair("Nov 13, 2008", "another"))
