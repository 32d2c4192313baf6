"""Further test sets have tables of their own, whose intervals hold together; the first set alone decides."""

import json
import random

import pytest
from forging import differing

from selfattn.comparison.analysis import ALL, Analysis
from selfattn.comparison.compare import compare
from selfattn.comparison.tested import Prediction, RunOutputs
from selfattn.data.pairs import Pair
from selfattn.evaluation.buckets import ItemScores, by_tag
from selfattn.evaluation.metrics import WordErrorRate
from selfattn.runs.task import TaskData

PAIRS = [Pair(f"s{n}", f"t{n}", tag="xyz"[n % 3]) for n in range(90)]


def outputs_of(seed, right):
    chance = random.Random(f"{seed}/{right}")
    texts = [pair.target if chance.random() < right else "-" for pair in PAIRS]
    answers = [Prediction(p.source, p.target, p.tag, (), text, True) for p, text in zip(PAIRS, texts, strict=True)]
    return RunOutputs(seed, False, answers, {}, {})


def groups():
    runs = {name: [outputs_of(seed, right) for seed in range(4)] for name, right in (("good", 0.9), ("poor", 0.3))}
    analysis = Analysis(WordErrorRate(), TaskData(), tunings=None, failed={})
    return analysis.further("gen", runs)


def test_a_further_set_has_a_table_for_each_metric_with_tests_of_the_models():
    first, second = groups()
    assert [first.metric, second.metric] == ["word_error_rate", "phone_error_rate"]
    complete, *tags = first.buckets
    assert (complete.name, complete.items) == (ALL, 90)
    assert complete.pairs[0].word == "better"
    assert [(tag.name, tag.items, tag.pairs) for tag in tags] == [("x", 30, ()), ("y", 30, ()), ("z", 30, ())]


def test_intervals_of_groups_hold_together():
    runs = {"good": [outputs_of(seed, 0.9).texts for seed in range(4)]}
    scores = ItemScores(WordErrorRate(), WordErrorRate().count_runs(runs, PAIRS))
    plain = scores.parts(by_tag(PAIRS))
    together = groups()[0].buckets[1:]
    alone = scores.parts(by_tag(PAIRS), alpha=0.05 / 3)
    for one, other, wide in zip(plain, together, alone, strict=True):
        narrow = one.models["good"]
        corrected = other.models["good"]
        assert corrected == wide.models["good"]
        assert narrow.mean == corrected.mean
        assert (corrected.low or 0) < (narrow.low or 0)


@pytest.mark.slow
def test_a_comparison_names_the_set_that_decides_and_verifies(tmp_path):
    def table(name, numbers, tag=""):
        rows = []
        for n in numbers:
            words = [digit + "ab"[place % 2] for place, digit in enumerate(str(n))]  # more kinds than the source has
            rows.append(f"{n}\t{' '.join(words)}" + (f"\t{'even' if n % 2 == 0 else 'odd'}" if tag else ""))
        path = tmp_path / name
        path.write_text("\n".join(rows), "utf-8")
        return path

    files = {"data": table("train.tsv", range(1000, 1400)), "valid": table("valid.tsv", range(1400, 1440))}
    tests = (f"iid={table('a.tsv', range(1440, 1480), 'x')}", f"gen={table('b.tsv', range(20000, 20030), 'x')}")
    record, _ = compare(
        "translation", source="und", target="und", test=tests, tag="3", source_tokenizer="characters",
        target_tokenizer="words", models=("rnn-attention", "rnn-plain"), seeds=1, epochs=1, tune=False,
        set=("encoder.hidden_dim=16", "decoder.hidden_dim=16"), out=tmp_path / "out", jobs=1, **files,
    )  # fmt: skip
    assert json.loads((tmp_path / "out/plan.json").read_text())["test_set"] == "iid"
    assert record.test_items == 40
    further = [group for group in record.buckets if group.name == "gen"]
    assert [bucket.items for bucket in further[0].buckets] == [30, 15, 15]
    report = (tmp_path / "out/report.md").read_text("utf-8")
    assert "### Test set gen" in report
    assert differing(tmp_path / "out") == []
