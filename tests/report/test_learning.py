"""Learning curves: means and bands over seeds."""

import pytest

from selfattn.report.sections.training import mean_curve
from selfattn.results.quality import Curve, Point
from selfattn.results.record import Model


def model(*runs: list[float]) -> Model:
    """A model whose run k reached `runs[k]` after 1, 2, 3, ... epochs of 10 steps."""
    curves = tuple(
        Curve(
            seed,
            tuple(Point(epoch, 10 * epoch, valid=valid) for epoch, valid in enumerate(run, start=1)),
        )
        for seed, run in enumerate(runs)
    )
    return Model("m", True, 1, tuple(range(len(runs))), {}, curves=curves)


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
