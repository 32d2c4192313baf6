"""What the report says of tuning: trials and sensitivity."""

from dataclasses import replace
from itertools import product
from statistics import fmean

import numpy as np
import pytest
from report_records import read

from selfattn.experiments.plan import draw_points
from selfattn.report.blocks import Chart, Table
from selfattn.report.sections.quality import made_of
from selfattn.report.sections.training import expected_best, rates_section
from selfattn.report.text import markdown_of
from selfattn.report.verdict import badges, verdict
from selfattn.report.write import document
from selfattn.results.plan import parse_axis
from selfattn.results.record import Tuning, TuningTrial

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
