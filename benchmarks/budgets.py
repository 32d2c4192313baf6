"""How often the statistics over budgets are wrong where the truth is known: tables of `benchmarks.significance`.

Answers are drawn as there: items keep their ease, and models their taste for them, at all budgets; runs have luck of
their own at each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from benchmarks.significance import EASE, FAILURE, TASTE, World, measure, percent, percents, points, row, skill_for
from selfattn.evaluation.design import ALL_BUDGETS, Design, budget_differences, locate, most_failing
from selfattn.evaluation.metrics import ExactMatch
from selfattn.evaluation.significance import score_runs

Right = npt.NDArray[np.bool_]
BUDGETS = (1.0, 2.0, 4.0, 8.0, 16.0)
METRIC = ExactMatch()


@dataclass(frozen=True)
class Grid:
    """What is true of some models at some budgets.

    Attributes:
        accuracies: expected, of each model at each budget; failed runs not counted.
        seeds: runs of each.
        luck: see `World`; of each model.
        items: how many there are.
        failing: see `World`.
    """

    accuracies: tuple[tuple[float, ...], ...]
    seeds: int = 5
    luck: tuple[float, ...] = (0.3, 0.3)
    items: int = 1000
    failing: float = 0.0

    def draw(self, generator: np.random.Generator) -> list[list[Right]]:
        """For each model and budget ``[seeds, items]``, True where right."""
        ease = EASE * generator.standard_normal(self.items)
        models = []
        for accuracies, luck in zip(self.accuracies, self.luck, strict=False):
            eased = ease + TASTE * generator.standard_normal(self.items)
            spread = float(np.sqrt(EASE**2 + TASTE**2 + luck**2))
            at_budgets = []
            for accuracy in accuracies:
                runs = skill_for(accuracy, spread) + luck * generator.standard_normal(self.seeds)
                runs = runs + FAILURE * (generator.random(self.seeds) < self.failing)
                chance = 1 / (1 + np.exp(-(runs[:, None] + eased)))
                at_budgets.append(generator.random(chance.shape) < chance)
            models.append(at_budgets)
        return models

    @property
    def changes(self) -> list[tuple[float, float]]:
        """Between which budgets the order truly changes."""
        first, second = self.accuracies
        leads = [(budget, a - b) for budget, a, b in zip(BUDGETS, first, second, strict=True) if a != b]
        return [(a, b) for (a, x), (b, y) in pairwise(leads) if (x > 0) != (y > 0)]


def counted(right: Right) -> npt.NDArray[np.float64]:
    """What exact match counts, ``[s i 2]``."""
    return np.stack([right, np.ones_like(right)], axis=-1).astype(np.float64)


def crossing_rates(grid: Grid, repeats: int, seed: Sequence[int]) -> list[float]:
    """Count: located, and rightly; at 95 % instead; not located; the means cross; all intervals hold the truth."""
    generator = np.random.default_rng(seed)
    counts_of = np.zeros(6)
    truth = [a - b for a, b in zip(*grid.accuracies, strict=True)]
    for _ in range(repeats):
        first, second = grid.draw(generator)
        counts = {
            budget: {"a": counted(a), "b": counted(b)} for budget, a, b in zip(BUDGETS, first, second, strict=True)
        }
        usual, strict = (budget_differences(counts, METRIC, ("a", "b"), level=level) for level in (0.95, ALL_BUDGETS))
        crossing, between = locate(strict), locate(strict).between
        counts_of += (
            crossing.kind == "located",
            between is not None and any(between[0] <= a and b <= between[1] for a, b in grid.changes),
            locate(usual).kind == "located",
            crossing.kind == "not located",
            min(cell.difference for cell in strict) < 0 < max(cell.difference for cell in strict),
            all(cell.low <= lead <= cell.high for cell, lead in zip(strict, truth, strict=True)),
        )
    return (counts_of / repeats).tolist()


_EASY = (0.80, 0.88, 0.93, 0.96, 0.98)


def _with(*leads: float) -> tuple[tuple[float, ...], ...]:
    """Accuracies of a model and of another that leads by so many points at each budget."""
    return tuple(base + lead / 100 for base, lead in zip(_EASY, leads, strict=True)), _EASY


NO_CROSSING = {
    "equal at every budget": Grid(_with(0, 0, 0, 0, 0)),
    "one leads by 2, 2, 1.5, 1, 0.5 points": Grid(_with(2, 2, 1.5, 1, 0.5)),
    "one leads by 6 points at the smallest, then equal": Grid(_with(6, 0, 0, 0, 0), luck=(0.1, 0.1)),
    "the same, runs vary 3 times as much": Grid(_with(6, 0, 0, 0, 0)),
    "the same, runs of one model vary 3 times as much": Grid(_with(6, 0, 0, 0, 0), luck=(0.1, 0.3)),
    "the same, 1 run in 10 fails": Grid(_with(6, 0, 0, 0, 0), failing=0.1),
    "a lead that melts: 6, 2, 0.5, 0.1, 0 points": Grid(_with(6, 2, 0.5, 0.1, 0)),
}
CROSSING = {
    "leads of -6, -3, 2, 2, 1 points": Grid(_with(-6, -3, 2, 2, 1), luck=(0.1, 0.1)),
    "the same, runs vary 3 times as much": Grid(_with(-6, -3, 2, 2, 1)),
    "leads of -6, -4, -2, -0.5, 0.5 points": Grid(_with(-6, -4, -2, -0.5, 0.5), luck=(0.1, 0.1)),
}


def design_rates(world: World, repeats: int, seed: Sequence[int]) -> tuple[list[float], float, int | None, float]:
    """The 10th, 50th and 90th percentile of the smallest difference; found where the median is true; seeds for half.

    Last: found with so many seeds, where half of it is true.
    """
    generator = np.random.default_rng(seed)
    smallest, needed = [], []
    for _ in range(repeats):
        comparison = score_runs(world.draw(generator)).comparison()
        first, second = (estimate.runs for estimate in comparison.estimates.values())
        design = Design.of(comparison.pairs[0], first, second, world.items)
        smallest.append(design.in_score(design.smallest()))
        if len(needed) < 200:
            needed.append(design.seeds_needed(design.smallest() / 2) or np.inf)
    low, median, high = np.quantile(smallest, [0.1, 0.5, 0.9]).tolist()
    more = float(np.median(needed))
    right = measure(_led(world, median), repeats=repeats, seed=(*seed, 1)).better[0]
    if more == np.inf:
        return [low, median, high], right, None, float("nan")
    half_world, generator = _led(replace(world, seeds=int(more)), median / 2), np.random.default_rng((*seed, 2))
    words = [score_runs(half_world.draw(generator)).comparison().pairs[0].word for _ in range(repeats)]
    half_right = words.count("better") / repeats
    return [low, median, high], right, int(more), half_right


def _led(world: World, lead: float) -> World:
    return replace(world, lead=lead, accuracy=world.accuracy - lead / 2)


DESIGNS = [World(0.9, 3, luck) for luck in (0.0, 0.1, 0.3)]


def ceiling_rates(failing: float, seeds: int, repeats: int, seed: Sequence[int]) -> list[float]:
    """Count: all runs at 99 % or above; the interval holds the mean of all trainings; the bound is wrong."""
    world = World(0.999, seeds, failing=failing, models=1)
    generator = np.random.default_rng(seed)
    truth, counts = world.truth(0), np.zeros(3)
    for _ in range(repeats):
        (estimate,) = score_runs(world.draw(generator)).comparison().estimates.values()
        assert estimate.low is not None
        assert estimate.high is not None
        all_good = min(estimate.runs) >= 0.99
        counts += all_good, estimate.low <= truth <= estimate.high, all_good and failing > most_failing(seeds)
    return (counts / repeats).tolist()


FAILING = (0.0, 0.05, 0.1, 0.2, 0.5, 0.7)


def crossings(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the two tables of crossings."""
    columns = ("located", "rightly", "located at 95 %", "not located", "means cross", "all intervals hold")
    for number, grids in enumerate((NO_CROSSING, CROSSING)):
        yield row(("no crossing", "a crossing")[number], "seeds", *columns)
        yield row(*["---"] * (2 + len(columns)))
        for place, (label, grid) in enumerate(grids.items()):
            for seeds in (3, 5):
                rates = crossing_rates(replace(grid, seeds=seeds), repeats, (seed, 3 + number, place, seeds))
                yield row(label, seeds, *percents(*rates))
        yield ""


def designs(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table of designs."""
    yield row(
        "seeds", "a run varies by (points)", "smallest difference (points)", "80 % of designs say", "found",
        "seeds for half", "found",
    )  # fmt: skip
    yield row(*["---"] * 7)
    for place, world in enumerate(DESIGNS):
        (low, median, high), right, more, half_right = design_rates(world, max(1, repeats // 4), (seed, 8, place))
        ends = f"{100 * low:.2f} to {100 * high:.2f}"
        further = ("none", "–") if more is None else (more, *percents(half_right))
        yield row(world.seeds, f"{points(world):.2f}", f"{100 * median:.2f}", ends, *percents(right), *further)


def ceilings(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table of models near 100 %, of whose trainings some fail."""
    yield row("trainings that fail", "seeds", "all runs at 99 % or above", "mean covered", "bound on failures is wrong")
    yield row(*["---"] * 5)
    for failing in FAILING:
        for seeds in (3, 5):
            rates = ceiling_rates(failing, seeds, repeats, (seed, 9, int(100 * failing), seeds))
            yield row(percent(failing), seeds, *percents(*rates))
