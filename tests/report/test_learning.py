"""Learning curves: means and bands over seeds."""

import pytest

from selfattn.report.sections.training import mean_curve
from selfattn.results.quality import Curve, Point
from selfattn.results.record import Model


def model(*runs: list[float]) -> Model:
    """A model whose run k reached `runs[k]` after 1, 2, 3, ... epochs of 10 steps."""
    points = ([Point(epoch, 10 * epoch, valid=valid) for epoch, valid in enumerate(run, start=1)] for run in runs)
    curves = tuple(Curve(seed, tuple(curve)) for seed, curve in enumerate(points))
    return Model("m", True, 1, tuple(range(len(runs))), {}, curves=curves)


def step(point: Point) -> float:
    return point.step


HALF = 4.302653 * 0.1 / 3**0.5  # t for 2 degrees of freedom, standard deviation 0.1


@pytest.mark.parametrize(
    ("ends", "low", "high"),
    [([0.4, 0.5, 0.6], 0.5 - HALF, 0.5 + HALF), ([0.4, 0.6], 0.4, 0.6), ([0.5], None, None)],
    ids=["Student's t", "range of two", "no band for one"],
)
def test_the_mean_of_all_runs_has_a_band(ends: list[float], low: float | None, high: float | None) -> None:
    (spot,) = mean_curve(model(*([end] for end in ends)), lambda point: point.step, "share")
    assert (spot.x, spot.y) == (10, pytest.approx(0.5))
    assert (spot.low, spot.high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))


def test_the_mean_goes_as_far_as_every_run() -> None:
    assert len(mean_curve(model([0.1, 0.2, 0.3], [0.1, 0.2]), lambda point: point.step, "share")) == 2
