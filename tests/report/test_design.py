"""The report says which difference its design could have found."""

from __future__ import annotations

import dataclasses
import re
import runpy
from pathlib import Path

import pytest

from selfattn.evaluation.statistics.design import smallest_detectable
from selfattn.figures.pairs import PairTest
from selfattn.figures.quality import Estimate
from selfattn.figures.reading import record_from_dict
from selfattn.figures.record import Record
from selfattn.report.blocks import Paragraph
from selfattn.report.sections.statistics import Statistics
from selfattn.report.verdict.design import detectable

RECORDS = runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "report_rich.py"))


def record(first: tuple[float, ...], second: tuple[float, ...], half: float, *, primary: bool = True) -> Record:
    rich = record_from_dict(RECORDS["rich"]())
    models = tuple(
        dataclasses.replace(model, metrics={"exact_match": Estimate(sum(runs) / len(runs), 0.0, 1.0, runs)})
        for model, runs in zip(rich.models[:2], (first, second), strict=True)
    )
    away = models[0].metrics["exact_match"].mean - models[1].metrics["exact_match"].mean
    test = PairTest(
        models[0].name, models[1].name, "exact_match", away, away - half, away + half, 0.2, 0.2,
        "no difference seen", primary=primary,
    )  # fmt: skip
    return dataclasses.replace(rich, models=models, pairs=(test,))


RUNS = (0.90, 0.92, 0.94), (0.90, 0.91, 0.92)


@pytest.mark.parametrize(("lang", "unit"), [("en", "percentage points"), ("ko", "퍼센트포인트")])
def test_the_smallest_difference_is_said_with_the_seeds_for_half_of_it(lang: str, unit: str) -> None:
    half = 0.038  # of Student's t with 3 degrees, nearly: no variance from the items
    found = record(*RUNS, half)
    text = " ".join(one.say(lang) for one in detectable(found))
    said = re.search(rf"([0-9.]+)\s?{unit}", text)
    assert said is not None
    assert float(said[1]) == pytest.approx(100 * smallest_detectable(*RUNS, half), abs=0.5)
    seeds = re.search(r"([0-9]+) seeds|시드가 ([0-9]+)개", text)
    assert seeds is not None
    assert 6 <= int(seeds[1] or seeds[2]) <= 12
    assert all(model.name in text for model in found.models)
    shown = [one for block in Statistics().blocks(found) if isinstance(block, Paragraph) for one in block.sentences]
    assert all(one in shown for one in detectable(found))


def test_where_the_items_are_too_few_no_seeds_are_promised() -> None:
    found = detectable(record((0.9, 0.9001, 0.9), (0.9, 0.9, 0.9001), 0.05))
    assert "no number of seeds is enough" in found[1].say("en")
    assert "테스트 항목이 더 있어야" in found[1].say("ko")


def test_nothing_is_said_of_too_few_seeds_or_of_no_primary_contrast() -> None:
    assert detectable(record(RUNS[0][:2], RUNS[1][:2], 0.04)) == []
    assert detectable(record(*RUNS, 0.04, primary=False)) == []
