"""How often the statistics of a comparison are wrong, in simulated comparisons whose truth is known.

    python -m benchmarks.significance                 # the tables of docs/statistics.md, in Markdown
    python -m benchmarks.significance --repeats 200   # a quick look
    python -m benchmarks.significance --only equal    # one of the tables

An answer is right with probability 1 / (1 + exp(-x)), x the sum of: the model's skill, the item's ease (normal, the
same for all models and seeds), the model's taste for the item (normal, the same for all seeds), and the run's luck
(normal, the same for all items). The skill is solved for, so that the expected accuracy is exactly the stated one.
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

from selfattn.evaluation.significance import choose_word, score_runs
from selfattn.results.quality import MarginWord

EASE, TASTE, FAILURE = 2.0, 0.7, -4.0  # standard deviations, and what a failed run loses, in logits
PLACES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
LOOKS = (3, 5, 8)  # seeds


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
    seeds: int = 8
    luck: float = 0.3
    lead: float = 0.0
    first_luck: float | None = None
    items: int = 1000
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
        scores = {}
        for model in range(self.models):
            luck = math.sqrt(self.shared) * common + math.sqrt(1 - self.shared) * generator.standard_normal(self.seeds)
            failed = generator.random(self.seeds) < self.failing
            runs = self.skill(model) + self.luck_of(model) * luck + FAILURE * failed
            taste = np.repeat(self.taste * generator.standard_normal(different), self.copies)
            toss = generator.random((1 if self.sure else self.seeds, self.items))
            scores[f"model-{model}"] = toss < 1 / (1 + np.exp(-(runs[:, None] + ease + taste)))
        return scores


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
    """Shares of the simulated comparisons, for 3, 5 and 8 seeds.

    Attributes:
        raw: the first model was called better than the second by a test of the shares themselves.
        raw_called: some pair was called better or worse by such a test.
        better: the first model was called better than the second.
        called: some pair was called better or worse.
        items: the test over items alone, which takes these runs for the models, has p below 0.05.
        covered: the interval of the first pair's difference holds the truth.
        mean_covered: the interval of the second model's score holds the truth.
    """

    raw: list[float]
    raw_called: list[float]
    better: list[float]
    called: list[float]
    items: list[float]
    covered: list[float]
    mean_covered: list[float]


def measure(world: World, *, repeats: int, seed: int | tuple[int, ...]) -> Rates:
    """Simulate comparisons with as many seeds as the world has, analyse their first 3, 5 and 8, and count."""
    generator = np.random.default_rng(seed)
    looks = [look for look in LOOKS if look <= world.seeds]
    counts = np.zeros((7, len(looks)))
    truth = world.truth(1)
    lead = world.truth(0) - truth
    for _ in range(repeats):
        every = world.draw(generator)
        for place, look in enumerate(looks):
            runs = score_runs({name: answers[:look] for name, answers in every.items()}, world.clusters)
            plain = replace(runs, right=None)
            if world.models == 2:
                pairs, raw = ([scores.pair("model-0", "model-1")] for scores in (runs, plain))
            else:
                pairs, raw = (scores.comparison().pairs for scores in (runs, plain))
            words = [choose_word(pair) for pair in pairs]
            # The exact test over items guards both.
            raw_words = [
                choose_word(test) if (pair.p_items or 0) < 0.05 else "" for test, pair in zip(raw, pairs, strict=True)
            ]
            pair, mean = pairs[0], runs.estimates()["model-1"]
            counts[:, place] += (
                raw_words[0] == "better",
                not {"better", "worse"}.isdisjoint(raw_words),
                words[0] == "better",
                not {"better", "worse"}.isdisjoint(words),
                (pair.p_items or 0) < 0.05,
                pair.low <= lead <= pair.high,
                mean.low <= truth <= mean.high,
            )
    return Rates(*(counts / repeats).tolist())


EQUALS = {
    f"{100 * accuracy:g} %, runs vary {word}": World(accuracy, luck=luck)
    for accuracy in (0.5, 0.95, 0.99, 0.999, 0.9999)
    for word, luck in (("little", 0.3), ("much", 1.0))
}
BLIND = "95 %, every item stands 5 times, taken for different ones"
HARD = {
    "95 %, runs do not vary": World(0.95, luck=0.0),
    "95 %, the runs of one model vary 3 times as much": World(0.95, luck=0.1, first_luck=0.3),
    "95 %, the runs of one model vary 10 times as much": World(0.95, luck=0.1, first_luck=1.0),
    "95 %, 1 run in 10 fails": World(0.95, failing=0.1),
    "99.9 %, 1 run in 10 fails": World(0.999, failing=0.1),
    "95 %, runs with the same seed share half their luck": World(0.95, shared=0.5),
    "99 %, all runs of a model miss the same items": World(0.99, luck=0.0, taste=6.0, sure=True),
    "95 %, 50 items": World(0.95, items=50),
    "95 %, 4 equal models, any of 6 pairs": World(0.95, models=4),
    "95 %, every item stands 5 times, drawn together": World(0.95, luck=0.1, copies=5),
    BLIND: World(0.95, luck=0.1, copies=5, blind=True),
}
PLANTED = {
    "50 and 55 %, runs vary little": World(0.5, lead=0.05),
    "95 and 97 %, runs vary little": World(0.95, lead=0.02),
    "95 and 97 %, runs vary much": World(0.95, luck=1.0, lead=0.02),
    "95 and 99 %, runs vary much": World(0.95, luck=1.0, lead=0.04),
    "99.5 and 99.9 %, runs vary little": World(0.995, lead=0.004),
    "97 and 99.99 %, runs vary little": World(0.97, lead=0.0299),
    "90 and 99.99 %, runs vary much": World(0.9, luck=1.0, lead=0.0999),
}


def points(world: World) -> float:
    """Standard deviation of a run's expected accuracy from seed to seed, in percentage points."""
    spread = math.sqrt(EASE**2 + world.taste**2)
    runs = np.array([share(world.skill(1) + world.luck * place, spread) for place in PLACES])
    return 100 * math.sqrt(max(0.0, float(WEIGHTS @ runs**2 - (WEIGHTS @ runs) ** 2)))


def equal(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the two tables of equal models: false alarms, and what intervals cover."""
    worlds = {**EQUALS, **HARD}
    rates = {}
    counts = [f"{look} seeds" for look in LOOKS]
    yield row(
        "equal models", "vary by (points)", *(f"raw, {count}" for count in counts),
        *(f"log-odds, {count}" for count in counts), "items only, 3 seeds",
    )  # fmt: skip
    yield row(*["---"] * 9)
    for place, (label, world) in enumerate(worlds.items()):
        rate = rates[label] = measure(world, repeats=repeats, seed=(seed, 0, place))
        alarms = percents(*rate.raw_called, *rate.called, rate.items[0])
        yield row(label, f"{points(world):.2f}", *alarms)
    yield ""
    yield row(
        "equal models", *(f"difference covered, {count}" for count in counts),
        *(f"mean covered, {count}" for count in counts),
    )  # fmt: skip
    yield row(*["---"] * 7)
    for label, rate in rates.items():
        yield row(label, *percents(*rate.covered, *rate.mean_covered))


def planted(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table of planted differences."""
    counts = [f"{look} seeds" for look in LOOKS]
    yield row(
        "different models", *(f"raw, {count}" for count in counts), *(f"log-odds, {count}" for count in counts),
        "covered, 3 seeds", "covered, 8 seeds",
    )  # fmt: skip
    yield row(*["---"] * 9)
    for place, (label, world) in enumerate(PLANTED.items()):
        rate = measure(world, repeats=repeats, seed=(seed, 2, place))
        power = percents(*rate.raw, *rate.better)
        yield row(label, *power, *percents(rate.covered[0], rate.covered[-1]))


MARGIN = 0.02
WORDS = get_args(MarginWord)


def margins(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table of margins: how often each word is said of a true lead."""
    yield row("seeds", "true difference (points)", *WORDS)
    yield row(*["---"] * (2 + len(WORDS)))
    for seeds in (3, 5):
        for place, lead in enumerate((0.0, MARGIN / 2, MARGIN, 1.5 * MARGIN)):
            world, generator = World(0.95, seeds, 0.1, lead), np.random.default_rng((seed, 20, place, seeds))
            pairs = (score_runs(world.draw(generator)).comparison().pairs[0] for _ in range(repeats))
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
    from benchmarks.budgets import ceilings, crossings, designs

    tables = {
        "equal": equal,
        "planted": planted,
        "margins": margins,
        "crossings": crossings,
        "designs": designs,
        "ceilings": ceilings,
    }
    parser = argparse.ArgumentParser(description="Simulate comparisons whose truth is known; count false alarms.")
    parser.add_argument("--repeats", type=int, default=1000, help="comparisons in a row (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (default 0)")
    parser.add_argument("--only", choices=tables, help="one of the tables (default all)")
    options = parser.parse_args()
    started = time.perf_counter()
    for name, lines in tables.items():
        for line in lines(options.repeats, options.seed) if options.only in (None, name) else ():
            print(line, flush=True)
        print(flush=True)
    print(f"{options.repeats} comparisons a row, seed {options.seed}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
