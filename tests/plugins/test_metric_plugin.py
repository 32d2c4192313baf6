"""A metric as a plugin: its sums, its intervals and its tests of pairs."""

from pathlib import Path

import numpy as np
import pytest

from selfattn.errors import UserError
from selfattn.evaluation.buckets import ItemScores
from selfattn.evaluation.metrics import make_metric
from selfattn.evaluation.significance import score_counts
from selfattn.registry import METRICS, load_plugin

FILE = Path(__file__).with_name("edit_similarity.py")
REFERENCES = [f"{year}-11-13" for year in range(1900, 2010)]


@pytest.fixture(autouse=True)
def _metric(isolated):
    load_plugin(str(FILE))


def cut(*ends):
    """The references without their last characters, one run for each number of them."""
    return [[text[: len(text) - end * (number % 2)] for number, text in enumerate(REFERENCES)] for end in ends]


def test_it_is_one_of_the_metrics():
    assert "edit_similarity" in METRICS
    assert METRICS.plugin_of("edit_similarity") == str(FILE)
    metric = make_metric("edit_similarity")
    assert metric.of(["2008-11-13"], ["2008-11-13"]) == 1
    assert metric.of(["abcd", "abcd"], ["abxy", "wxyz"]) == (0.5 + 0) / 2
    with pytest.raises(UserError, match="did you mean edit_similarity"):
        make_metric("edit_similarty")


@pytest.mark.parametrize("name", ["edit_similarity", "exact_match", "character_error_rate", "bleu", "word recall"])
def test_its_score_is_that_of_sums_over_any_items(name):
    metric = make_metric(name)
    outputs = cut(3)[0]
    counts = metric.counts(outputs, REFERENCES)
    some = slice(7, 60)
    assert metric.score(counts[some].sum(axis=0)) == pytest.approx(metric.of(outputs[some], REFERENCES[some]))
    many = np.stack([counts[some].sum(axis=0), counts.sum(axis=0)])
    assert metric.score(many).tolist() == pytest.approx([float(metric.score(sums)) for sums in many])
    if metric.is_mean:
        assert metric.score(counts).mean() == pytest.approx(metric.of(outputs, REFERENCES))


def test_models_are_told_apart_by_it():
    metric = make_metric("edit_similarity")
    counts = metric.count_runs({"good": cut(1, 1, 2), "poor": cut(5, 6, 6)}, REFERENCES)
    found = score_counts(counts, metric).comparison()
    good = found.estimates["good"]
    assert 0 < good.low < good.mean < good.high <= 1.0
    pair = found.between("good", "poor")
    assert (pair.metric, pair.word) == ("edit_similarity", "better")
    assert pair.p_holm < 0.01


def test_parts_of_the_test_are_measured_by_it():
    groups = {"even": range(0, 110, 2), "odd": range(1, 110, 2)}
    metric = make_metric("edit_similarity")
    even, odd = ItemScores(metric, metric.count_runs({"a": cut(2, 3)}, REFERENCES)).parts(groups)
    assert even.models["a"].mean == 1 > odd.models["a"].mean
