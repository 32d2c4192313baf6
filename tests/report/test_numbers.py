"""Numbers on the page: as many digits as the interval supports, never rounder than the truth, in their place."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.report.blocks import Chart, ChartLine, Spot
from selfattn.report.numbers import (
    Scale,
    amount,
    compact,
    digits,
    estimate_text,
    interval_text,
    mean_text,
    measure_text,
    p_text,
    quality_scale,
    share_text,
    value_text,
)
from selfattn.report.pictures import Signs, curves
from selfattn.results.quality import Estimate
from selfattn.results.record import MeanOverRuns

estimates = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(sorted).map(lambda s: Estimate(s[1], s[0], s[2]))


@pytest.mark.parametrize(
    ("estimate", "shown"),
    [
        ((0.9998, 0.9991, 1.0), "99.98 % [99.91, 100.00]"), ((0.612, 0.598, 0.625), "61.2 % [59.8, 62.5]"),
        ((0.612, 0.4, 0.8), "61 % [40, 80]"), ((0.5, 0.49999, 0.50001), "50.000 % [49.999, 50.001]"),
        ((1.0, 0.9992, 1.0), "100.00 % [99.92, 100.00]"), ((0.0, 0.0, 0.037), "0.0 % [0.0, 3.7]"),
        ((0.25,), "25.00 % [–]"), ((), "–"), ((27.31, 26.18, 28.39), "27.3 [26.1, 28.4]"), ((27.31,), "27.3 [–]"),
    ],
)  # fmt: skip
def test_qualities_with_their_intervals(estimate, shown):
    kind = "points" if estimate and estimate[0] > 1 else "share"
    assert estimate_text(Estimate(*estimate) if estimate else None, kind).replace("\u00a0", " ") == shown


@given(st.floats(0, 1))
def test_a_p_is_never_shown_as_nothing(p):
    sign, number = p_text(p).split("\u00a0")
    assert (sign == "<") == (p < 0.001)
    assert Decimal(number) > 0


@given(estimates)
def test_what_is_shown_covers_what_was_computed(estimate):
    low, high = (Decimal(text) for text in re.findall(r"[\d.]+", interval_text(estimate)))
    assert low <= Decimal(str(estimate.low)) * 100
    assert high >= Decimal(str(estimate.high)) * 100
    unit = Decimal(1).scaleb(-digits(estimate.low, estimate.high))
    assert abs(Decimal(mean_text(estimate)) - Decimal(str(estimate.mean)) * 100) <= unit


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers(0, 3))
def test_only_all_is_100_and_only_nothing_is_0(share, places):
    assert 0 < Decimal(value_text(share, "share", places).split("\u00a0")[0]) < 100


def test_amounts_and_counts():
    assert [amount(x) for x in (0, 0.00123, 1.0, 9.96, 12.5, 99.5)] == ["0", "0.0012", "1.0", "10.0", "12", "100"]
    assert (share_text(None), share_text(0.442), measure_text(None)) == ("–", "44.2\u00a0%", "–")
    shown = [compact(n).replace("\u00a0", " ") for n in (950, 1000, 1_620_000.4, 2 * 10**9)]
    assert shown == ["950", "1.00 k", "1.62 M", "2.00 G"]
    assert measure_text(MeanOverRuns(41.2, (39.0, 44.1))).replace("\u00a0", " ") == "41 (39–44)"


def test_an_axis_is_linear_unless_all_that_is_drawn_lies_above_90_percent():
    assert quality_scale([0.48, 0.999], 1000) == quality_scale([0.9, 0.999], 1000) == quality_scale([], 1000) == Scale()
    scale = quality_scale([0.93, 0.9995], 5000)
    assert [mark for _, mark in scale.ticks] == ["90", "99", "99.9", "100"]
    assert scale.place(0.9) == scale.place(0.5) == 0
    assert scale.place(0.999) - scale.place(0.99) == pytest.approx(scale.place(0.99))


scales = st.sampled_from([Scale(), Scale(floor=1e-4), Scale(floor=0.005), Scale(1e-4, low=0.9)])


@given(st.floats(0, 1), st.floats(0, 1), scales)
def test_scales_keep_the_order_and_stay_on_the_axis(a, b, scale):
    low, high = sorted((a, b))
    assert 0 <= scale.place(low) <= scale.place(high) <= 1


@pytest.mark.parametrize(("highest", "top"), [(27.3, 30), (61.0, 80), (9.1, 10), (0.7, 0.8), (99.0, 100), (0.0, 100)])
def test_points_have_an_axis_up_to_the_best(highest, top):
    scale = quality_scale([highest], 1000, "points")
    assert scale.top == pytest.approx(top)
    assert scale.place(0) == 0
    assert scale.place(scale.top) == 1
    assert float(scale.ticks[-1][1]) <= scale.top + 1e-9


@pytest.mark.parametrize(
    ("places", "marks"), [((0, 1), ["0", "1"]), ((0, 0.5, 1), ["0", "0.2", "0.4", "0.6", "0.8", "1"])]
)
def test_marks_are_whole_where_all_points_stand_at_whole_numbers(places, marks):
    chart = Chart("c", "", (ChartLine("m", tuple(Spot(x, 0.5) for x in places)),), Scale(), "kind")
    drawn = curves(chart, Signs(["m"]))
    assert [text for _, text in drawn.ticks] == marks
