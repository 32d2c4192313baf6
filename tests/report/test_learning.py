"""Learning curves: means and bands over seeds, and what a level of quality needed."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path
from typing import Any

import pytest

from selfattn.figures.quality import Curve, Point
from selfattn.figures.reading import record_from_dict
from selfattn.figures.record import Model, Record
from selfattn.report.sections.learning import band_note, mean_curve, reached, reached_table, spendings, threshold
from selfattn.report.words.messages import Message

RECORDS = runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "report_rich.py"))


def model(*runs: list[float], name: str = "m", seconds: bool = True) -> Model:
    """A model whose run k reached `runs[k]` after 1, 2, 3, ... epochs of 10 steps and 7 seconds."""
    curves = tuple(
        Curve(
            seed,
            tuple(
                Point(epoch, 10 * epoch, seconds=7.0 * epoch if seconds else None, valid=valid)
                for epoch, valid in enumerate(run, start=1)
            ),
        )
        for seed, run in enumerate(runs)
    )
    return Model(name, True, 1, tuple(range(len(runs))), {}, curves=curves)


def record(*models: Model, kind: Any = "share") -> Record:
    whole = record_from_dict(RECORDS["dates"]())
    bare = dataclasses.replace(
        whole, models=models, buckets=(), attention=dataclasses.replace(whole.attention, examples=())
    )
    return dataclasses.replace(bare, headline=dataclasses.replace(whole.headline, kind=kind), differences=())


def step(point: Point) -> float:
    return point.step


def test_three_seeds_have_a_band_after_student() -> None:
    (spot,) = mean_curve(model([0.4], [0.5], [0.6]), step, "share")
    assert (spot.x, spot.y) == (10, pytest.approx(0.5))
    half = 4.302653 * 0.1 / 3**0.5  # t for 2 degrees of freedom, standard deviation 0.1
    assert (spot.low, spot.high) == (pytest.approx(0.5 - half, abs=1e-6), pytest.approx(0.5 + half, abs=1e-6))


def test_bands_end_where_the_quality_does() -> None:
    (spot,) = mean_curve(model([0.97], [0.99], [1.0]), step, "share")
    assert spot.high == 1.0
    (spot,) = mean_curve(model([0.1], [2.0], [90.0]), step, "points")
    assert (spot.low, spot.high) == (0.0, 100.0)


def test_two_seeds_have_their_range_and_one_has_no_band() -> None:
    (spot,) = mean_curve(model([0.4], [0.6]), step, "share")
    assert (spot.low, spot.y, spot.high) == (0.4, pytest.approx(0.5), 0.6)
    (spot,) = mean_curve(model([0.4]), step, "share")
    assert (spot.low, spot.high) == (None, None)


def test_the_mean_goes_as_far_as_every_run() -> None:
    assert len(mean_curve(model([0.1, 0.2, 0.3], [0.1, 0.2]), step, "share")) == 2


@pytest.mark.parametrize(
    ("runs", "key"),
    [(1, None), (2, "learning.band.range"), (3, "learning.band.t")],
)
def test_it_is_said_what_the_bands_are(runs: int, key: str | None) -> None:
    note = band_note(record(model(*[[0.5]] * runs)))
    assert (note and note.key) == key
    two = model(*[[0.5]] * 2, name="other")
    many = [model(*[[0.5]] * 3, name=f"m{k}") for k in range(9)]
    assert band_note(record(many[0], two)) == Message("learning.band.both")
    assert band_note(record(*many)) == Message("learning.band.none", {"count": 8})


def test_the_threshold_is_99_percent_where_that_is_reached() -> None:
    found = threshold(record(model([0.5, 0.995]), model([0.4, 0.6], name="other")))
    assert found is not None
    assert found[0] == 0.99
    assert found[1].say("en").replace("\u00a0", " ") == "What it took until validation first reached 99 %."


@pytest.mark.parametrize(("kind", "best", "level"), [("share", 0.8, 0.76), ("points", 30.0, 28.5)])
def test_else_it_is_95_percent_of_the_best_final_result(kind: Any, best: float, level: float) -> None:
    found = threshold(record(model([best * 1.1, best]), model([best / 2], name="other"), kind=kind))
    assert found is not None
    assert found[0] == pytest.approx(level)


@pytest.mark.parametrize("runs", [(), ([0.0, 0.0],)])
def test_where_nothing_was_learnt_there_is_no_threshold(runs: tuple[list[float], ...]) -> None:
    empty = record(model(*runs))
    assert threshold(empty) is None
    assert reached_table(empty).rows == ()


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        (([0.2, 0.5, 0.9],), "20"),
        (([0.5], [0.2, 0.5], [0.2, 0.2, 0.5]), "20 (10–30)"),
        (([0.5], [0.2, 0.5], [0.2, 0.2]), "20 (10–20), 2 of 3 seeds"),
        (([0.5], [0.2], [0.2]), "not reached (1 of 3 seeds did)"),
        (([0.5], [0.2]), "not reached (1 of 2 seeds did)"),
        (([0.2], [0.2]), "not reached"),
        (([0.5], [0.5], [0.5]), "10"),
    ],
)
def test_what_a_level_needed_is_a_median_over_seeds(runs: tuple[list[float], ...], text: str) -> None:
    steps = spendings(record(model([0.5])))[0]
    assert reached(model(*runs), steps, 0.5).say("en").replace("\u00a0", " ") == text


def test_what_was_not_counted_is_a_dash() -> None:
    seconds = next(one for one in spendings(record(model([0.5]))) if one.name == "seconds")
    assert reached(model([0.5], seconds=False), seconds, 0.5).say("en") == "–"


def test_the_table_has_a_column_for_everything_that_was_spent() -> None:
    grid = reached_table(record_from_dict(RECORDS["rich"]()))
    heads = [column.head.say("en") for column in grid.columns if isinstance(column.head, Message)]
    assert heads == ["model", "epochs", "steps", "target tokens", "seconds", "FLOPs"]
    last = grid.rows[-1].cells
    assert last[0] == "rnn-plain"
    assert [cell.say("en") for cell in last[1:] if isinstance(cell, Message)] == ["not reached"] * 5
