"""A metric of one's own: it decides a comparison, with intervals and tests of pairs, in every part of the report."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from selfattn.comparison.again import report
from selfattn.comparison.compare import compare
from selfattn.errors import UserError
from selfattn.evaluation.metrics.metric import Metric, make_metric
from selfattn.evaluation.statistics.buckets import ItemGroup, score_groups
from selfattn.evaluation.statistics.significance import compare_outputs
from selfattn.registry import METRICS, load_plugin
from selfattn.report.render.terminal import print_summary
from selfattn.report.write import ReportFiles
from selfattn.results.reading import read_record
from selfattn.results.record import Record

FILE = Path(__file__).with_name("edit_similarity.py")
REFERENCES = [f"{year}-11-13" for year in range(1900, 2010)]


@pytest.fixture(scope="module", autouse=True)
def door() -> Iterator[None]:
    """The metric is there for this file only."""
    METRICS.names()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(METRICS, "_parts", dict(METRICS._parts))
        patch.setattr(METRICS, "_plugin_of", dict(METRICS._plugin_of))
        patch.setattr("selfattn.registry._loaded", {})
        load_plugin(str(FILE))
        yield
    sys.modules.pop(next(name for name in sys.modules if name.startswith("selfattn_plugin_")), None)


def cut(*ends: int) -> list[list[str]]:
    """The references without their last characters, one run for each number of them."""
    return [[text[: len(text) - end * (number % 2)] for number, text in enumerate(REFERENCES)] for end in ends]


def test_the_file_is_short() -> None:
    assert len(FILE.read_text(encoding="utf-8").splitlines()) <= 60


def test_it_is_one_of_the_metrics() -> None:
    assert "edit_similarity" in METRICS
    assert METRICS.plugin_of("edit_similarity") == str(FILE)
    metric = make_metric("edit_similarity")
    assert metric.of(["2008-11-13"], ["2008-11-13"]) == 1
    assert metric.of(["abcd", "abcd"], ["abxy", "wxyz"]) == (0.5 + 0) / 2
    with pytest.raises(UserError, match="did you mean edit_similarity"):
        make_metric("edit_similarty")


@pytest.mark.parametrize("name", ["edit_similarity", "exact_match", "character_error_rate", "bleu", "word recall"])
def test_its_score_is_that_of_sums_over_any_items(name: str) -> None:
    metric: Metric = make_metric(name)
    outputs = cut(3)[0]
    counts = metric.counts(outputs, REFERENCES)
    some = slice(7, 60)
    assert metric.score(counts[some].sum(axis=0)) == pytest.approx(metric.of(outputs[some], REFERENCES[some]))
    many = np.stack([counts[some].sum(axis=0), counts.sum(axis=0)])
    assert metric.score(many).tolist() == pytest.approx([float(metric.score(sums)) for sums in many])
    if metric.is_mean:
        assert metric.score(counts).mean() == pytest.approx(metric.of(outputs, REFERENCES))


def test_models_are_told_apart_by_it() -> None:
    metric = make_metric("edit_similarity")
    found = compare_outputs({"good": cut(1, 1, 2), "poor": cut(5, 6, 6)}, REFERENCES, metric)
    good = found.estimates["good"]
    assert good.low is not None
    assert good.high is not None
    assert 0 < good.low < good.mean < good.high <= 1.01
    pair = found.between("good", "poor")
    assert (pair.metric, pair.word) == ("edit_similarity", "better")
    assert pair.p_holm < 0.01


def test_parts_of_the_test_are_measured_by_it() -> None:
    groups = [ItemGroup("even", tuple(range(0, 110, 2))), ItemGroup("odd", tuple(range(1, 110, 2)))]
    even, odd = score_groups(groups, {"a": cut(2, 3)}, REFERENCES, make_metric("edit_similarity"))
    assert even.models["a"].mean == 1 > odd.models["a"].mean


@pytest.fixture(scope="module")
def compared(door: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record, ReportFiles]:
    out = tmp_path_factory.mktemp("comparison") / "dates"
    training = {"epochs": 1, "items_per_epoch": 64, "validation_items": 5}
    sizes = ("encoder.hidden_dim=8", "decoder.hidden_dim=8")
    models = ("plain=rnn-plain", "attention=rnn-attention")
    settings = {"models": models, "set": sizes, "seeds": 3, "apart": True}
    found = compare("dates", metric="edit_similarity", quick=True, out=out, test_items=12, **settings, **training)
    return out, *found


def test_it_decides_a_comparison(compared: tuple[Path, Record, ReportFiles]) -> None:
    _, record, _ = compared
    assert (record.headline.metric, record.headline.kind, record.headline.better) == (
        "edit_similarity",
        "share",
        "higher",
    )
    for model in record.models:
        assert model.metrics["edit_similarity"].low is not None
        assert len(model.metrics["edit_similarity"].runs) == 3
        assert "exact_match" in model.metrics
        assert all(point.valid is not None for curve in model.curves for point in curve.points)
    assert [pair.metric for pair in record.pairs] == ["edit_similarity"]
    assert {group.metric for group in record.buckets if group.name == "format"} == {"edit_similarity"}


def test_the_report_shows_it(compared: tuple[Path, Record, ReportFiles]) -> None:
    _, record, files = compared
    console = Console(file=io.StringIO(), width=120, highlight=False)
    print_summary(record, console, files.html)
    printed = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    for text in (files.html.read_text(encoding="utf-8"), files.markdown.read_text(encoding="utf-8"), printed):
        assert "edit similarity" in text.replace("_", " ").lower()
    assert "ratcliff-obershelp" in files.markdown.read_text(encoding="utf-8")


def test_it_is_read_again_from_disk(compared: tuple[Path, Record, ReportFiles], tmp_path: Path) -> None:
    out, record, files = compared
    assert read_record(files.results) == record
    again, _ = report([out], tmp_path / "again")
    assert again == record
    made_of_runs, _ = report(sorted(out.glob("runs/*")), tmp_path / "of-runs")
    assert [model.metrics for model in made_of_runs.models] == [
        next(one.metrics for one in record.models if one.parameters == model.parameters)
        for model in made_of_runs.models
    ]


def test_without_the_plugin_the_report_says_which_to_give(
    compared: tuple[Path, Record, ReportFiles], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _, _ = compared
    assert json.loads((out / "comparison.json").read_text())["plugins"]
    monkeypatch.setattr("selfattn.registry._loaded", {})
    with pytest.raises(UserError, match=r"give --plugin .*edit_similarity\.py"):
        report([out], tmp_path / "again")


def test_where_less_is_better_it_may_decide_as_well(tmp_path: Path) -> None:
    training = {"epochs": 1, "items_per_epoch": 64, "validation_items": 5}
    sizes = ("encoder.hidden_dim=8", "decoder.hidden_dim=8")
    record, files = compare(
        "dates", metric="character_error_rate", models=("rnn-plain", "rnn-attention"), quick=True, out=tmp_path / "x",
        test_items=12, set=sizes, apart=True, **training,
    )  # fmt: skip
    assert record.headline.better == "lower"
    assert read_record(files.results) == record
    assert record.models[0].metrics["character_error_rate"].low is not None
