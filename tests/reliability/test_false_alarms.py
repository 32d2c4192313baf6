"""The statistics of comparisons, tested on comparisons whose truth is known: simulated by benchmarks/significance.py.

Everything is drawn from fixed seeds: a count that passes today passes tomorrow.
"""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def simulation() -> Any:
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("significance_benchmark", ROOT / "benchmarks" / "significance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


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
    world, cells = simulation.PLANTED[row], stated(2)[row]
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
