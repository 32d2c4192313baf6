"""Learning curves: means and bands over seeds."""

from operator import attrgetter

import pytest

from selfattn.report.sections.training import mean_curve
from selfattn.results.quality import Curve, Point
from selfattn.results.record import Model


def at_steps(*runs, part=()):
    """A model whose runs reached these values at these steps of ten tokens; those of `part` on a part of the items."""

    def point(step, valid):
        return Point(1, step, tokens=10 * step, valid_loss=None if step in part else 1.0, valid=valid)

    curves = [Curve(seed, tuple(point(*values) for values in run.items())) for seed, run in enumerate(runs)]
    return Model("m", True, 1, tuple(range(len(runs))), {}, curves=tuple(curves))


step = attrgetter("step")


HALF = 4.302653 * 0.1 / 3**0.5  # t for 2 degrees of freedom, standard deviation 0.1


@pytest.mark.parametrize(
    ("ends", "low", "high"),
    [([0.4, 0.5, 0.6], 0.5 - HALF, 0.5 + HALF), ([0.4, 0.6], 0.4, 0.6), ([0.5], None, None)],
    ids=["Student's t", "range of two", "no band for one"],
)
def test_the_mean_of_all_runs_has_a_band(ends, low, high):
    (spot,) = mean_curve(at_steps(*({10: end} for end in ends)), step, "share")
    assert (spot.x, spot.y) == (10, pytest.approx(0.5))
    assert (spot.low, spot.high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))


def test_runs_validated_at_other_steps_are_averaged_after_the_same_training():
    """Two runs on straight lines have a straight mean, wherever each was validated."""
    first = {step: 0.001 * step for step in (100, 200, 300, 400)}
    second = {step: 0.002 * step for step in (100, 130, 301, 330, 400)}
    spots = mean_curve(at_steps(first, second), step, "share")
    assert [spot.x for spot in spots] == [100, 200, 300, 400]
    assert [spot.y for spot in spots] == pytest.approx([0.15, 0.3, 0.45, 0.6])
    shorter = mean_curve(at_steps({10: 0.1, 20: 0.2, 30: 0.3}, {10: 0.1, 20: 0.2}), step, "share")
    assert len(shorter) == 2  # as far as every run


def test_a_line_joins_either_validations_or_the_points_between_them():
    """A part of the items is easier than all of them: a line through both would zigzag."""
    run = {100: 0.1, 150: 0.9, 200: 0.2, 250: 0.9, 300: 0.3}
    spots = mean_curve(at_steps(run, part=(150, 250)), step, "share")
    assert [(spot.x, spot.y) for spot in spots] == [(100, 0.1), (200, 0.2), (300, 0.3)]
    spots = mean_curve(at_steps(run, part=(100, 150, 250)), step, "share")
    assert [spot.x for spot in spots] == [100, 150, 250, 300]
