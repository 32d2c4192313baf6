"""Learning curves: means and bands over seeds."""

import pytest

from selfattn.report.blocks import Spot
from selfattn.report.sections.training import mean_curve
from selfattn.results.quality import Curve, Point
from selfattn.results.record import Model


@pytest.mark.parametrize(
    ("runs", "spots"),
    [
        ([[0.25, 0.5], [0.75, 1.0]], (Spot(10, 0.5, 0.25, 0.75), Spot(20, 0.75, 0.5, 1.0))),
        ([[0.5], [0.75, 1.0]], (Spot(10, 0.625, 0.5, 0.75),)),  # as far as every run
    ],
)
def test_the_mean_of_all_runs_has_a_band_from_the_worst_to_the_best(
    runs: list[list[float]], spots: tuple[Spot, ...]
) -> None:
    points = ([Point(epoch, 10 * epoch, valid=valid) for epoch, valid in enumerate(run, start=1)] for run in runs)
    curves = tuple(Curve(seed, tuple(curve)) for seed, curve in enumerate(points))
    model = Model("m", True, 1, tuple(range(len(runs))), {}, curves=curves)
    assert mean_curve(model) == spots
