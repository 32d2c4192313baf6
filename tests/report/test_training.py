"""What the report says of trainings: learning curves, trials of a tuning and how sensitive models are."""

from dataclasses import replace
from itertools import product
from operator import attrgetter
from statistics import fmean

import numpy as np
import pytest
from report_records import read

from selfattn.experiments.plan import draw_points
from selfattn.report.blocks import Chart, Table
from selfattn.report.sections.quality import made_of
from selfattn.report.sections.training import expected_best, mean_curve, rates_section
from selfattn.report.text import markdown_of
from selfattn.report.verdict import badges, verdict
from selfattn.report.write import document
from selfattn.results.plan import parse_axis
from selfattn.results.quality import Curve, Point
from selfattn.results.record import Model, Tuning, TuningTrial


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


SPACE = {"lr": "0.001..0.016:log", "batch_size": "4,8"}


def trials_of(model, tunings=3, each=4):
    """Trials whose score falls with the distance of the rate from 0.004."""
    axes = [parse_axis(f"{name}={text}") for name, text in SPACE.items()]
    trials = []
    for number, point in enumerate(draw_points(axes, tunings * each, seed=0)):
        score = max(0.0, 1 - abs(np.log2(point["lr"] / 0.004)) / 2)
        trials.append(TuningTrial(point, 10_000 + number, score, 1.0, loss=1.0, tuning=number // each))
    best = [max(trials[k * each : (k + 1) * each], key=lambda trial: trial.valid or 0) for k in range(tunings)]
    return tuple(replace(trial, chosen=trial in best) for trial in trials)


@pytest.fixture
def tuned():
    record = read("rich")
    models = [replace(model, trials=trials_of(model), tunings=(0, 1, 2)) for model in record.models]
    spaces = {model.name: SPACE for model in models}
    return replace(record, models=tuple(models), tuning=Tuning(4, 3, 10_000, spaces))


def test_the_expected_best_is_the_mean_of_all_draws():
    scores = [0.1, 0.4, 0.4, 0.9]
    for better, best in (("higher", max), ("lower", min)):
        for number in (1, 2, 3):
            mean = fmean(best(draw) for draw in product(scores, repeat=number))
            assert expected_best(scores, better)[number - 1] == pytest.approx(mean)


def test_a_tuned_report_shows_trials_and_sensitivity(tuned):
    blocks = rates_section(tuned)
    (chart,) = [block for block in blocks if isinstance(block, Chart)]
    first = chart.lines[0].spots
    assert (len(first), first[0].y) == (12, pytest.approx(fmean(t.valid or 0 for t in tuned.models[0].trials)))
    (sensitivity,) = [block for block in blocks if isinstance(block, Table)]
    assert [row.cells[:2] for row in sensitivity.rows][-2:] == [("batch_size", "4"), ("batch_size", "8")]
    middle = [str(row.cells[2]) for row in sensitivity.rows][:3]
    assert max(middle) == middle[1]  # the best rate is in the middle third


def test_the_first_screen_says_how_models_were_made_and_tuned(tuned):
    said = [badge.text.say("en") for badge in badges(tuned)]
    assert "lr, batch_size tuned for each model, 3 times" in said
    assert verdict(tuned).lead.say("en").startswith("Not told apart. ")
    (table,) = made_of(tuned)
    assert [column.head.key for column in table.columns][1:] == [
        "made.layers", "made.width", "made.steps", "made.batch", "made.epochs",
    ]  # fmt: skip
    apart = replace(tuned.tuning, space={**tuned.tuning.space, "transformer": {"lr": "0.1,0.2"}})
    said = [badge.text.say("en") for badge in badges(replace(tuned, tuning=apart))]
    assert "the models were tuned over different spaces" in said
    assert "lr: 0.001..0.016:log; batch_size: 4,8" in markdown_of(document(tuned), "en")
