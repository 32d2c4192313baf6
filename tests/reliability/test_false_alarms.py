"""The statistics of comparisons, tested where the truth is known: simulated in benchmarks/

Everything is drawn from fixed seeds: a count that passes today passes tomorrow.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def repository() -> Iterator[None]:
    """The benchmarks can be imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield


@pytest.fixture(scope="module")
def simulation(repository: None) -> Any:
    """The benchmark of comparisons."""
    return importlib.import_module("benchmarks.significance")


@pytest.fixture(scope="module")
def budgets(repository: None) -> Any:
    """The benchmark of statistics over budgets."""
    return importlib.import_module("benchmarks.budgets")


def stated(table: int) -> list[list[str]]:
    """The rows of a table of docs/statistics.md that was made by the benchmark, as text, without its head."""
    text = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    made = text[text.index("<!-- made by benchmarks/significance.py -->") :]
    found = re.findall(r"(?:^\|.*\n)+", made, flags=re.MULTILINE)[table]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines()[2:]]


def share(cell: str) -> float:
    return float(cell.removesuffix(" %")) / 100


def room(rate: float, repeats: int) -> float:
    """Four standard errors of the difference between 200 comparisons and as many as the page rests on."""
    return 4 * math.sqrt(max(rate * (1 - rate), 0.01) * (1 / 200 + 1 / repeats))


def test_the_simulation_is_true_to_what_it_says(simulation: Any) -> None:
    for world in (simulation.World(0.95, 50, items=5000), simulation.World(0.5, 50, lead=0.2, luck=0.0, items=5000)):
        scores = world.draw(simulation.np.random.default_rng(0))
        for model, runs in enumerate(scores.values()):
            assert runs.mean() == pytest.approx(world.truth(model), abs=0.02)
    assert world.truth(0) == pytest.approx(0.7, abs=1e-9)
    assert world.truth(1) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(("seeds", "accuracy", "luck"), [(5, 0.95, 0.3), (3, 0.5, 0.3), (3, 0.999, 1.0)])
def test_equals_are_seldom_called_different(simulation: Any, seeds: int, accuracy: float, luck: float) -> None:
    world = simulation.World(accuracy, seeds, luck, items=500)
    rates = simulation.measure(world, repeats=200, seed=1)
    assert rates.called <= 0.05
    assert rates.mean_covered >= 0.9


def test_a_large_difference_is_found(simulation: Any) -> None:
    rates = simulation.measure(simulation.World(0.8, 5, 0.1, lead=0.1, items=500), repeats=50, seed=1)
    assert rates.right >= 0.95
    assert rates.difference_covered >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("row", range(18))
def test_false_alarms_are_as_rare_as_the_page_says(simulation: Any, row: int) -> None:
    world, cells = simulation.EQUALS[row], stated(0)[row]
    assert (int(cells[0]), share(cells[1])) == (world.seeds, pytest.approx(world.accuracy))
    rates = simulation.measure(world, repeats=200, seed=(3, row))
    assert rates.called == pytest.approx(share(cells[3]), abs=room(share(cells[3]), 10_000))
    assert rates.mean_covered >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("accuracy", [0.5, 0.95, 0.999])
def test_equals_give_at_most_five_percent_of_false_alarms(simulation: Any, seeds: int, accuracy: float) -> None:
    """However much runs vary: 200 comparisons for each of the three."""
    worlds = [world for world in simulation.EQUALS if (world.seeds, world.accuracy) == (seeds, accuracy)]
    called = [simulation.measure(world, repeats=200, seed=(4, row)).called for row, world in enumerate(worlds)]
    assert len(called) == 3
    assert sum(called) / 3 <= 0.05


@pytest.mark.slow
def test_four_equal_models_raise_no_more_alarms_than_two(simulation: Any) -> None:
    for seeds in (3, 5):
        rates = simulation.measure(simulation.World(0.95, seeds, models=4), repeats=200, seed=0)
        assert rates.called <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("row", range(18))
def test_planted_differences_are_found_as_often_as_the_page_says(simulation: Any, row: int) -> None:
    world, cells = simulation.PLANTED[row], stated(3)[row]
    assert int(cells[0]) == world.seeds
    assert [share(cell) for cell in cells[1].split(" and ")] == pytest.approx(
        [world.accuracy, world.accuracy + world.lead]
    )
    rates = simulation.measure(world, repeats=200, seed=(5, row))
    assert rates.right == pytest.approx(share(cells[3]), abs=room(share(cells[3]), 2000))
    assert rates.difference_covered >= 0.9


def test_the_page_promises_no_more_than_five_percent() -> None:
    rows = stated(0)
    assert len(rows) == 18
    assert all(share(cells[3]) <= 0.05 for cells in rows)
    assert all(share(cells[6]) >= 0.9 for cells in rows)


def test_items_that_repeat_one_another_raise_no_alarms(simulation: Any) -> None:
    """Where it is told that they do; taken for different ones they would."""
    world = simulation.World(0.8, 5, 0.0, items=500, copies=5)
    told, blind = (
        simulation.measure(simulation.replace(world, blind=one), repeats=200, seed=2) for one in (False, True)
    )
    assert told.called <= 0.05 < blind.called
    assert told.mean_covered >= 0.9 > blind.mean_covered


def test_the_page_states_coverage_in_the_hard_cases_too(simulation: Any) -> None:
    """Also where it is bad: trainings that fail are in no interval."""
    rows = {cells[0]: [share(cell) for cell in cells[1:]] for cells in stated(1)}
    assert list(rows) == list(simulation.HARD)
    for label, (*_, few, more) in rows.items():
        assert (min(few, more) >= 0.9) == (simulation.HARD[label].failing == 0 and not simulation.HARD[label].blind)


# Budgets: short forms of the simulations; those of 2,000 made the page, and 200 of each row are held against it.

NONE_THERE, ONE_THERE, DESIGNED, CEILING = range(4, 8)  # tables of the page


def test_crossings_are_seldom_claimed_where_there_is_none(budgets: Any) -> None:
    """Though the means cross: the hardest world of the page, on fewer items."""
    world = budgets.replace(budgets.NO_CROSSING["one leads by 6 points at the smallest, then equal"], items=500)
    located, rightly, _, _, cross, hold = budgets.crossing_rates(world, 100, (1, 0))
    assert located <= 0.01
    assert rightly == 0
    assert cross > 0.8
    assert hold >= 0.95


def test_a_clear_crossing_is_found_where_it_is(budgets: Any) -> None:
    world = budgets.replace(budgets.CROSSING["leads of -6, -3, 2, 2, 1 points"], items=4000)
    assert world.changes == [(2.0, 4.0)]
    located, rightly, *_ = budgets.crossing_rates(world, 30, (1, 1))
    assert rightly >= 0.9
    assert located == rightly


def test_failures_that_no_run_shows_stay_within_the_bound(budgets: Any) -> None:
    for failing in (0.1, 0.7):
        all_good, _, wrong = budgets.ceiling_rates(failing, 3, 200, (1, 6))
        assert wrong <= 0.05
        assert all_good == pytest.approx((1 - failing) ** 3, abs=0.12)


def test_the_page_promises_what_was_asked_of_budgets(budgets: Any) -> None:
    """Crossings where there is none: 1 % at most; what intervals hold: 95 %, but for trainings that fail."""
    assert [cells[0] for cells in stated(NONE_THERE)] == [label for label in budgets.NO_CROSSING for _ in range(2)]
    assert all(share(cells[2]) <= 0.01 and share(cells[7]) >= 0.95 for cells in stated(NONE_THERE))
    assert [cells[0] for cells in stated(ONE_THERE)] == [label for label in budgets.CROSSING for _ in range(2)]
    assert all(share(cells[2]) - share(cells[3]) <= 0.01 and share(cells[7]) >= 0.95 for cells in stated(ONE_THERE))
    assert all(share(cells[4]) <= 0.05 for cells in stated(CEILING))


@pytest.mark.slow
@pytest.mark.parametrize("row", range(20))
def test_crossings_are_as_the_page_says(budgets: Any, row: int) -> None:
    table, worlds, place = (
        (NONE_THERE, budgets.NO_CROSSING, row) if row < 14 else (ONE_THERE, budgets.CROSSING, row - 14)
    )
    cells = stated(table)[place]
    grid = budgets.replace(worlds[cells[0]], seeds=int(cells[1]))
    found = budgets.crossing_rates(grid, 200, (6, row))
    for rate, cell in zip(found, cells[2:], strict=True):
        assert rate == pytest.approx(share(cell), abs=room(share(cell), 2000))
