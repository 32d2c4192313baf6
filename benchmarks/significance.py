"""How often the statistics of a comparison are wrong, in simulated comparisons whose truth is known.

    python -m benchmarks.significance                 # the tables of docs/statistics.md, in Markdown
    python -m benchmarks.significance --repeats 200   # a quick look
    python -m benchmarks.significance --only budgets  # those of budgets alone, of comparisons or of margins

An answer is right with probability 1 / (1 + exp(-x)), x the sum of: the model's skill, the item's ease (normal, the
same for all models and seeds), the model's taste for the item (normal, the same for all seeds), and the run's luck
(normal, the same for all items). The skill is solved for, so that the expected accuracy is exactly the one asked for.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from selfattn.evaluation.statistics.significance import compare_scores
from selfattn.results.pairs import MarginWord

EASE, TASTE, FAILURE = 2.0, 0.7, -4.0  # standard deviations, and what a failed run loses, in logits
PLACES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
RESAMPLES = 500  # of the plain hierarchical bootstrap, the method that is not used


@dataclass(frozen=True)
class World:
    """What is true in a simulated comparison.

    Attributes:
        accuracy: expected, of all models but the first.
        lead: how much more the first has.
        seeds: runs of each model.
        luck: standard deviation of the runs' luck, in logits.
        first_luck: the same of the first model; as for all if None.
        items: how many there are.
        models: how many there are.
        taste: standard deviation of a model's taste for an item, in logits.
        shared: correlation of the luck of runs with one seed.
        failing: share of runs that fail.
        sure: whether a run's answer is no toss: all runs of a model are right, or wrong, on the same items.
        copies: how many items repeat one another: they have the same ease, and a model the same taste for them.
        blind: whether that is not told.
    """

    accuracy: float
    seeds: int
    luck: float = 0.3
    lead: float = 0.0
    first_luck: float | None = None
    items: int = 2000
    models: int = 2
    taste: float = TASTE
    shared: float = 0.0
    failing: float = 0.0
    sure: bool = False
    copies: int = 1
    blind: bool = False

    @property
    def clusters(self) -> list[int] | None:
        """Which items repeat one another, where it is told."""
        return None if self.blind or self.copies == 1 else [place // self.copies for place in range(self.items)]

    def luck_of(self, model: int) -> float:
        return self.first_luck if model == 0 and self.first_luck is not None else self.luck

    def skill(self, model: int) -> float:
        spread = math.sqrt(EASE**2 + self.taste**2 + self.luck_of(model) ** 2)
        return skill_for(self.accuracy + (self.lead if model == 0 else 0.0), spread)

    def truth(self, model: int) -> float:
        """The expected accuracy, failed runs counted."""
        spread = math.sqrt(EASE**2 + self.taste**2 + self.luck_of(model) ** 2)
        failed = share(self.skill(model) + FAILURE, spread)
        return (1 - self.failing) * share(self.skill(model), spread) + self.failing * failed

    def draw(self, generator: np.random.Generator) -> dict[str, npt.NDArray[np.bool_]]:
        """One comparison: for each model ``[seeds, items]``, True where right."""
        different = self.items // self.copies
        ease = np.repeat(EASE * generator.standard_normal(different), self.copies)
        common = generator.standard_normal(self.seeds)
        found = {}
        for model in range(self.models):
            own = generator.standard_normal(self.seeds)
            luck = math.sqrt(self.shared) * common + math.sqrt(1 - self.shared) * own
            failed = generator.random(self.seeds) < self.failing
            runs = self.skill(model) + self.luck_of(model) * luck + FAILURE * failed
            taste = np.repeat(self.taste * generator.standard_normal(different), self.copies)
            toss = generator.random((1 if self.sure else self.seeds, self.items))
            found[f"model-{model}"] = toss < 1 / (1 + np.exp(-(runs[:, None] + ease + taste)))
        return found


def share(skill: float, spread: float) -> float:
    """The expected value of 1 / (1 + exp(-x)), x normal around ``skill`` (Gauss-Hermite quadrature)."""
    return float(WEIGHTS @ (1 / (1 + np.exp(-(skill + spread * PLACES)))))


@functools.cache
def skill_for(accuracy: float, spread: float) -> float:
    low, high = -40.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle, spread) < accuracy else (low, middle)
    return low


@dataclass(frozen=True)
class Rates:
    """Shares of the simulated comparisons.

    Attributes:
        called: some pair was called better or worse.
        right: the first model was called better than the second.
        too_few: the first pair got "too few seeds to tell".
        mean_covered: the interval of the second model's score holds the truth.
        difference_covered: the interval of the first pair's difference holds the truth.
        plain: the first pair's plain hierarchical bootstrap interval leaves out 0.
        items_only: the first pair's interval from resampled items alone leaves out 0.
    """

    called: float
    right: float
    too_few: float
    mean_covered: float
    difference_covered: float
    plain: float
    items_only: float


def measure(world: World, *, repeats: int, seed: int | tuple[int, ...], plain: int = 0) -> Rates:
    """Simulate comparisons and count.

    Args:
        world: what is true.
        repeats: how many comparisons.
        seed: of the simulation.
        plain: in how many of them to try the methods that are not used, too.
    """
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(world.items, np.full(world.items, 1 / world.items), size=RESAMPLES) / world.items
    counts = np.zeros(5)
    alarms = np.zeros(2)
    truth = world.truth(1)
    lead = world.truth(0) - truth
    for number in range(repeats):
        scores = world.draw(generator)
        found = compare_scores(scores, clusters=world.clusters)
        pair = found.between("model-0", "model-1")
        mean = found.estimates["model-1"]
        counts += (
            any(one.word in ("better", "worse") for one in found.pairs),
            pair.word == "better",
            pair.word == "too few seeds to tell",
            mean.low <= truth <= mean.high,
            pair.low <= lead <= pair.high,
        )
        if number < plain:
            alarms += _plain_alarm(scores, weights, generator), _items_alarm(scores)
    return Rates(*map(float, counts / repeats), *map(float, alarms / max(1, plain)))


def _plain_alarm(
    scores: dict[str, npt.NDArray[np.bool_]], weights: npt.NDArray[np.float64], generator: np.random.Generator
) -> bool:
    """Draw seeds, each model its own, and items, with replacement; percentiles of the differences."""
    means = []
    for runs in (scores["model-0"], scores["model-1"]):
        seeds = generator.multinomial(len(runs), np.full(len(runs), 1 / len(runs)), size=RESAMPLES) / len(runs)
        means.append(((weights @ runs.T) * seeds).sum(axis=1))
    low, high = np.quantile(means[0] - means[1], [0.025, 0.975])
    return bool(low > 0 or high < 0)


def _items_alarm(scores: dict[str, npt.NDArray[np.bool_]]) -> bool:
    differences = scores["model-0"].mean(axis=0) - scores["model-1"].mean(axis=0)
    return bool(abs(differences.mean()) > 1.96 * differences.std(ddof=1) / math.sqrt(differences.size))


MORE = 5  # times as many comparisons in the first table, where a percentage point matters
SEEDS = (3, 5)
EQUALS = [
    World(accuracy, seeds, luck) for seeds in SEEDS for accuracy in (0.5, 0.95, 0.999) for luck in (0.0, 0.3, 1.0)
]
HARD = {
    "the runs of one model vary 3 times as much": World(0.95, 3, luck=0.1, first_luck=0.3),
    "the runs of one model vary 10 times as much": World(0.95, 3, luck=0.1, first_luck=1.0),
    "1 run in 10 fails": World(0.95, 3, failing=0.1),
    "runs with the same seed share half their luck": World(0.95, 3, shared=0.5),
    "all runs of a model miss the same items": World(0.99, 3, luck=0.0, taste=6.0, sure=True),
    "50 items": World(0.95, 3, items=50),
    "4 equal models, any of 6 pairs": World(0.95, 3, models=4),
    "1 run in 10 fails, the others have 99.9 %": World(0.999, 3, failing=0.1),
    "every item stands 5 times, drawn together": World(0.95, 3, luck=0.1, copies=5),
    "every item stands 5 times, taken for different ones": World(0.95, 3, luck=0.1, copies=5, blind=True),
}
PLANTED = [
    World(accuracy, seeds, luck, lead=lead)
    for seeds in SEEDS
    for accuracy, lead in ((0.5, 0.05), (0.95, 0.02), (0.995, 0.004))
    for luck in (0.0, 0.1, 0.3)
]


def points(world: World) -> float:
    """Standard deviation of a run's expected accuracy from seed to seed, in percentage points."""
    spread = math.sqrt(EASE**2 + world.taste**2)
    runs = np.array([share(world.skill(1) + world.luck * place, spread) for place in PLACES])
    return 100 * math.sqrt(max(0.0, float(WEIGHTS @ runs**2 - (WEIGHTS @ runs) ** 2)))


def tables(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the three tables of docs/statistics.md."""
    yield "| seeds | accuracy | a run varies by (points) | false alarms | plain bootstrap | items only | mean covered |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for place, world in enumerate(EQUALS):
        rates = measure(world, repeats=MORE * repeats, seed=(seed, 0, place), plain=repeats)
        yield row(
            world.seeds, percent(world.accuracy), f"{points(world):.2f}", *percents(rates.called, rates.plain),
            *percents(rates.items_only, rates.mean_covered),
        )  # fmt: skip
    yield ""
    columns = ("false alarms, 3 seeds", "5 seeds", "mean covered, 3 seeds", "5 seeds")
    yield row("equal models at 95 % (where all miss the same: 99 %)", *columns)
    yield row(*["---"] * 5)
    for place, (label, world) in enumerate(HARD.items()):
        few, more = (measure(replace(world, seeds=s), repeats=repeats, seed=(seed, 1, place, s)) for s in SEEDS)
        yield row(label, *percents(few.called, more.called, few.mean_covered, more.mean_covered))
    yield ""
    yield "| seeds | accuracies | a run varies by (points) | found | too few seeds to tell | difference covered |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for place, world in enumerate(PLANTED):
        rates = measure(world, repeats=repeats, seed=(seed, 2, place))
        accuracies = f"{percent(world.accuracy)} and {percent(world.accuracy + world.lead)}"
        yield row(
            world.seeds, accuracies, f"{points(world):.2f}",
            *percents(rates.right, rates.too_few, rates.difference_covered),
        )  # fmt: skip


MARGIN = 0.02
WORDS = get_args(MarginWord)


def margins(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table of margins: how often each word is said of a true lead."""
    yield row("seeds", "true difference (points)", *WORDS)
    yield row(*["---"] * (2 + len(WORDS)))
    for seeds in SEEDS:
        for place, lead in enumerate((0.0, MARGIN / 2, MARGIN, 1.5 * MARGIN)):
            world, generator = World(0.95, seeds, 0.1, lead=lead), np.random.default_rng((seed, 20, place, seeds))
            pairs = (compare_scores(world.draw(generator)).pairs[0] for _ in range(repeats))
            said = Counter(pair.beside(MARGIN) for pair in pairs)
            yield row(seeds, f"{100 * lead:g}", *percents(*(said[word] / repeats for word in WORDS)))


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def percent(value: float) -> str:
    return f"{100 * value:.4g} %"


def percents(*values: float) -> list[str]:
    return [f"{100 * value:.1f} %" for value in values]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Simulate comparisons whose truth is known; count false alarms.")
    parser.add_argument("--repeats", type=int, default=2000, help="comparisons in a row (default 2000)")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (default 0)")
    parser.add_argument(
        "--only", choices=("comparisons", "margins", "budgets"), help="some of the tables (default all)"
    )
    options = parser.parse_args()
    started = time.perf_counter()
    for name, made in (("comparisons", tables), ("margins", margins)):
        for line in made(options.repeats, options.seed) if options.only in (None, name) else ():
            print(line, flush=True)
    if options.only in (None, "budgets"):
        from benchmarks.budgets import tables as budget_tables

        for line in budget_tables(options.repeats, options.seed):
            print(line, flush=True)
    repeats = f"{options.repeats} comparisons a row, {MORE * options.repeats} in the first table of comparisons"
    print(f"\n{repeats}, seed {options.seed}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
