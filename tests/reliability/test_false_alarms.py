"""The statistics of comparisons, tested where the truth is known: simulated in benchmarks/

Everything is drawn from fixed seeds: a count that passes today passes tomorrow.
"""

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks import budgets, significance  # noqa: E402

ALARMS, COVERED, PLANTED, _, NO_CROSSING, CROSSING, _, CEILINGS = range(8)  # tables of the page


def stated(table):
    """The cells of a table of docs/statistics.md that was made by the benchmark, by label; the last of equal labels."""
    text = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    simulated = text[text.index("<!-- made by benchmarks/significance.py -->") :]
    lines = re.findall(r"(?:^\|.*\n)+", simulated, flags=re.MULTILINE)[table].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {label: cells for label, *cells in rows}


def share(cell):
    return float(cell.removesuffix(" %")) / 100


def tolerance(rate, repeats):
    """Four standard errors of the difference between so many comparisons and the 1,000 that the page rests on."""
    return 4 * math.sqrt(max(rate * (1 - rate), 0.01) * (1 / repeats + 1 / 1000))


def test_the_simulation_is_true_to_what_it_says():
    for world in (
        significance.World(0.95, 50, items=5000),
        significance.World(0.5, 50, lead=0.2, luck=0.0, items=5000),
    ):
        scores = world.draw(np.random.default_rng(0))
        for model, runs in enumerate(scores.values()):
            assert runs.mean() == pytest.approx(world.truth(model), abs=0.02)
    assert (world.truth(0), world.truth(1)) == pytest.approx((0.7, 0.5), abs=1e-9)


@pytest.mark.parametrize(("seeds", "accuracy", "luck"), [(5, 0.95, 0.3), (3, 0.5, 0.3), (3, 0.999, 1.0)])
def test_equals_are_seldom_called_different(seeds, accuracy, luck):
    rates = significance.measure(significance.World(accuracy, seeds, luck, items=500), repeats=100, seed=1)
    assert max(rates.called) <= 0.06
    assert min(rates.mean_covered) >= 0.9


def test_items_that_repeat_one_another_raise_no_alarms():
    """Where it is told that they do; taken for different ones they would."""
    world = significance.World(0.8, 5, 0.0, items=500, copies=5)
    told, blind = (
        significance.measure(significance.replace(world, blind=is_blind), repeats=100, seed=2)
        for is_blind in (False, True)
    )
    assert told.called[-1] <= 0.05 < blind.called[-1]
    assert told.mean_covered[-1] >= 0.9 > blind.mean_covered[-1]


def test_the_page_states_few_false_alarms_and_crossings():
    """At most 5 and 1 %, but for 1,000 comparisons' chance (0.7 points), and for what the page names."""
    weak = {"95 %, the runs of one model vary 10 times as much", significance.BLIND}
    rows = stated(ALARMS)
    assert list(rows) == [*significance.EQUALS, *significance.HARD] == list(stated(COVERED))
    assert all(share(cell) <= 0.064 for label in {*rows} - weak for cell in rows[label][4:7])
    assert list(stated(PLANTED)) == list(significance.PLANTED)
    none_there, crossing = stated(NO_CROSSING), stated(CROSSING)
    assert (list(none_there), list(crossing)) == (list(budgets.NO_CROSSING), list(budgets.CROSSING))
    assert all(share(cells[1]) <= 0.01 for cells in none_there.values())
    assert all(share(cells[1]) - share(cells[2]) <= 0.01 for cells in crossing.values())
    assert all(share(cells[-1]) <= 0.05 for cells in stated(CEILINGS).values())


@pytest.mark.slow
@pytest.mark.parametrize("row", range(21))
def test_false_alarms_are_as_rare_as_the_page_says(row):
    worlds = {**significance.EQUALS, **significance.HARD}
    label = list(worlds)[row]
    rates = significance.measure(worlds[label], repeats=200, seed=(3, row))
    for rate, cell in zip([*rates.raw_called, *rates.called], stated(ALARMS)[label][1:], strict=False):
        assert rate == pytest.approx(share(cell), abs=tolerance(share(cell), 200))


def test_crossings_are_seldom_claimed_where_there_is_none():
    """Though the means cross: the hardest world of the page, on fewer items."""
    world = budgets.replace(budgets.NO_CROSSING["one leads by 6 points at the smallest, then equal"], items=500)
    located, rightly, _, _, cross, hold = budgets.crossing_rates(world, 60, (1, 0))
    assert located <= 0.02
    assert rightly == 0
    assert cross > 0.8
    assert hold >= 0.95


def test_a_clear_crossing_is_found_where_it_is():
    world = budgets.replace(budgets.CROSSING["leads of -6, -3, 2, 2, 1 points"], items=4000)
    assert world.changes == [(2.0, 4.0)]
    located, rightly, *_ = budgets.crossing_rates(world, 20, (1, 1))
    assert located == rightly >= 0.9


def test_failures_that_no_run_shows_stay_within_the_bound():
    for failing in (0.1, 0.7):
        all_good, _, wrong = budgets.ceiling_rates(failing, 3, 200, (1, 6))
        assert wrong <= 0.05
        assert all_good == pytest.approx((1 - failing) ** 3, abs=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("row", range(10))
def test_crossings_are_as_the_page_says(row):
    worlds = [(NO_CROSSING, *world) for world in budgets.NO_CROSSING.items()]
    worlds += [(CROSSING, *world) for world in budgets.CROSSING.items()]  # one label stands in both
    table, label, grid = worlds[row]
    cells = stated(table)[label]
    rates = budgets.crossing_rates(budgets.replace(grid, seeds=int(cells[0])), 200, (6, row))
    for rate, cell in zip(rates, cells[1:], strict=True):
        assert rate == pytest.approx(share(cell), abs=tolerance(share(cell), 200))
