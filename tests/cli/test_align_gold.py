"""`selfattn align --gold`: a run's attention against gold links, as a table and as JSON."""

from __future__ import annotations

import json

import pytest

from selfattn.errors import UserError
from selfattn.evaluation.alignment.links import GoldPair, Links
from selfattn.runs.evaluate import align_against_gold, gold_json, gold_lines
from selfattn.runs.run import Run

GOLD = [
    GoldPair(("Nov", "13,", "2008"), ("2008", "-11-", "13"), Links(frozenset({(0, 1), (1, 2), (2, 0)}))),
    GoldPair(("May", "1"), ("05", "01"), Links(frozenset({(0, 0)}), frozenset({(1, 1)}))),
]


def test_every_head_of_every_layer_is_in_the_table(runs: dict[str, Run]) -> None:
    report = align_against_gold(runs["transformer"], GOLD)
    lines = list(gold_lines(report))
    assert lines[0] == "2 sentence pairs, 4 sure and 1 possible links"
    table = [line for line in lines if line.startswith("layer ")]
    assert len(table) == len(report.counts) == 2 * (4 + 1)
    assert [line.split()[2:4] for line in table[-1:]] == [["mean", "1"]]
    # (0, 0), (1, 1), (2, 2) and (0, 0), (1, 1): one of four sure links, two of five possible ones.
    assert lines[-2].split() == ["diagonal,", "no", "model", "66.7%", "40.0%", "25.0%", "5"]
    assert lines[-1] == f"best here: {report.best}"


def test_the_json_has_the_same_counts(runs: dict[str, Run]) -> None:
    report = align_against_gold(runs["transformer"], GOLD)
    plain = json.loads(json.dumps(gold_json(report), allow_nan=False))
    assert (plain["pairs"], plain["best"], plain["diagonal"]["links"]) == (2, report.best._asdict(), 5)
    assert plain["ways"][0].keys() == {"layer", "head", "shifted", "aer", "precision", "recall", "links"}


def test_what_cannot_be_aligned_is_said_in_a_line(runs: dict[str, Run]) -> None:
    with pytest.raises(UserError, match="has no attention to its source; try a model that has"):
        align_against_gold(runs["rnn-plain"], GOLD)
    with pytest.raises(UserError, match="no sentence pairs with gold links"):
        align_against_gold(runs["transformer"], [])
