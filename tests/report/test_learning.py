"""Learning curves: means and bands over seeds."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path
from typing import Any

import pytest

from selfattn.report.sections.learning import band_note, mean_curve
from selfattn.results.quality import Curve, Point
from selfattn.results.reading import record_from_dict
from selfattn.results.record import Model, Record
from selfattn.words.messages import Message

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
