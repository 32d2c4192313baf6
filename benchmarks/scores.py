"""How often `selfattn.score_table` is wrong about tables of scores whose truth is known.

    python -m benchmarks.scores                      # the table of docs/statistics.md, in Markdown
    python -m benchmarks.scores --repeats 100        # a quick look

Of selfattn it uses `score_table` alone. Each world draws scores ``[systems, runs, items]``: an item is equally hard
for all, a system has a taste for it that its runs share, a run has luck on all items. The expected score of each
system is known exactly.
"""

from __future__ import annotations

import argparse
import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import stats

from selfattn import score_table

Array = npt.NDArray[np.float64]
EASE, TASTE = 2.0, 0.7  # standard deviations over items, in logits
PLACES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
DESIGNS = ((5, 50), (10, 50), (5, 5000), (10, 5000))  # runs and items
REPEATS = {50: 4000, 5000: 2000}  # by items
SYSTEMS = "abcdefgh"


@dataclass(frozen=True)
class World(ABC):
    """Draws scores, and knows what is true.

    Attributes:
        name: of the row.
        lead: what the first system has more than the others, where systems differ; in the unit of `skill`.
        systems: how many.
        better: "higher" or "lower".
    """

    name: str
    lead: float
    systems: int = 2
    better: str = "higher"

    @abstractmethod
    def draw(self, chance: np.random.Generator, leads: Array, runs: int, items: int) -> Array:
        """Draw scores ``[systems, runs, items]``."""

    @abstractmethod
    def truth(self, lead: float) -> float:
        """Return the expected score of a system over all runs and items."""

    def clusters(self, items: int) -> npt.NDArray[np.int64] | None:
        """Return which items depend on one another; None where none do."""
        return None


@dataclass(frozen=True)
class Answers(World):
    """Right or wrong, with probability 1 / (1 + exp(-x)): skill, ease, taste and luck are added in logits.

    Attributes:
        accuracy: expected, of a system without a lead.
        luck: standard deviation between runs, in logits.
        document: so many items in a row have one ease and one taste; the table says which.
    """

    accuracy: float = 0.5
    luck: float = 0.3
    document: int = 1

    @property
    def spread(self) -> float:
        return float(np.sqrt(EASE**2 + TASTE**2 + self.luck**2))

    def draw(self, chance: np.random.Generator, leads: Array, runs: int, items: int) -> Array:
        documents = items // self.document
        ease = EASE * chance.standard_normal((1, 1, documents))
        taste = TASTE * chance.standard_normal((self.systems, 1, documents))
        luck = self.luck * chance.standard_normal((self.systems, runs, 1))
        level = skill_for(self.accuracy, self.spread) + leads[:, None, None]
        hard = np.repeat(ease + taste, self.document, axis=2)
        toss = chance.random((self.systems, runs, items))
        return np.asarray(toss < 1 / (1 + np.exp(-(level + luck + hard))))

    def truth(self, lead: float) -> float:
        return share(skill_for(self.accuracy, self.spread) + lead, self.spread)

    def clusters(self, items: int) -> npt.NDArray[np.int64] | None:
        return None if self.document == 1 else np.arange(items) // self.document


@dataclass(frozen=True)
class TakingOff(World):
    """Right or wrong: one run in three learns the task and has 40 %, the others have 2 %, plus the lead of both."""

    def draw(self, chance: np.random.Generator, leads: Array, runs: int, items: int) -> Array:
        learns = chance.random((self.systems, runs, 1)) < 1 / 3
        level = np.where(learns, 0.4, 0.02) + leads[:, None, None]
        return np.asarray(chance.random((self.systems, runs, items)) < level)

    def truth(self, lead: float) -> float:
        return 0.4 / 3 + 0.02 * 2 / 3 + lead


@dataclass(frozen=True)
class WordErrors(World):
    """Word errors of an utterance over its number of words; each run has a rate, and each utterance a difficulty.

    Attributes:
        rate: expected errors for each word.
        luck: standard deviation of the logarithm of a run's rate.
        failing: share of runs of the first system that fail: their rates are 0.95 to 1.2.
    """

    rate: float = 0.2
    luck: float = 0.03
    failing: float = 0.0

    def draw(self, chance: np.random.Generator, leads: Array, runs: int, items: int) -> Array:
        words = chance.integers(3, 25, items)
        hard = chance.gamma(2.0, 0.5, items)  # mean 1
        luck = np.exp(self.luck * chance.standard_normal((self.systems, runs, 1)) - self.luck**2 / 2)
        rates = (self.rate - leads[:, None, None]) * luck * hard
        fails = chance.random((self.systems, runs, 1)) < self.failing * (np.arange(self.systems) == 0)[:, None, None]
        rates = np.where(fails, chance.uniform(0.95, 1.2, (self.systems, runs, 1)), rates)
        return np.asarray(chance.poisson(rates * words) / words)

    def truth(self, lead: float) -> float:
        return self.rate - lead

    def first_truth(self, lead: float) -> float:
        """Return the expected score of the first system, failed runs counted."""
        return (1 - self.failing) * self.truth(lead) + self.failing * (0.95 + 1.2) / 2


@dataclass(frozen=True)
class Cut(World):
    """A normal quality that is cut: into grades 0, 1/4, ... 1 (many ties), or at a ceiling of 1.

    Attributes:
        level: mean quality.
        grades: whether there are five grades.
    """

    level: float = 0.5
    grades: bool = True

    def draw(self, chance: np.random.Generator, leads: Array, runs: int, items: int) -> Array:
        parts = [(1, 1, items), (self.systems, 1, items), (self.systems, runs, 1), (self.systems, runs, items)]
        sizes = zip(_CUT, parts, strict=True)
        quality = self.level + leads[:, None, None] + sum(size * chance.standard_normal(part) for size, part in sizes)
        if self.grades:
            return np.asarray(np.clip(np.round(4 * quality), 0, 4) / 4)
        return np.asarray(np.minimum(quality, 1.0))

    def truth(self, lead: float) -> float:
        spread = float(np.sqrt(np.square(_CUT).sum()))
        centre = self.level + lead
        if self.grades:  # a grade is reached above the middle between it and the one below
            return float(stats.norm.sf((np.arange(4) + 0.5) / 4, centre, spread).sum() / 4)
        over = (centre - 1) / spread  # the mean of what lies above the ceiling is cut off
        return centre - spread * float(stats.norm.pdf(over) + over * stats.norm.cdf(over))


_CUT = (0.25, 0.1, 0.03, 0.15)  # of items, of a system on an item, of runs, and of a run on an item


@dataclass(frozen=True)
class Skewed(World):
    """Log-normal scores, a few of which are many times as large as the rest (seconds, perplexities); less is better."""

    def draw(self, chance: np.random.Generator, leads: Array, runs: int, items: int) -> Array:
        item = chance.standard_normal((1, 1, items))
        own = 0.5 * chance.standard_normal((self.systems, runs, items))
        luck = 0.05 * chance.standard_normal((self.systems, runs, 1))
        return np.asarray((1 - leads[:, None, None]) * np.exp(item + own + luck))

    def truth(self, lead: float) -> float:
        return (1 - lead) * float(np.exp((1 + 0.5**2 + 0.05**2) / 2))


WORLDS: tuple[World, ...] = (
    Answers("50 %, runs vary little", 0.35, accuracy=0.5),
    Answers("5 %, runs vary little", 0.6, accuracy=0.05),
    Answers("5 %, runs vary much", 1.5, accuracy=0.05, luck=1.5),
    Answers("1 %, runs vary much", 2.0, accuracy=0.01, luck=1.5),
    TakingOff("one run in three learns: 40 or 2 %", 0.15),
    Answers("99 %, runs vary little", 1.0, accuracy=0.99),
    Answers("99.9 %, runs vary much", 2.0, accuracy=0.999, luck=1.0),
    Answers("80 %, documents of 5 items", 0.6, accuracy=0.8, document=5),
    Answers("80 %, four systems, any pair", 0.6, systems=4, accuracy=0.8),
    Cut("five grades, many ties", 0.05),
    Cut("quality with a ceiling that a third reaches", 0.05, level=0.9, grades=False),
    Skewed("seconds, log-normal", 0.15, better="lower"),
    WordErrors("20 % word errors", 0.02, better="lower"),
    WordErrors("the same, 1 run in 10 of the first fails", 0.02, better="lower", failing=0.1),
    WordErrors("the same, 3 runs in 10 of the first fail", 0.02, better="lower", failing=0.3),
)


def share(skill: float, spread: float) -> float:
    """Return the expected value of 1 / (1 + exp(-x)), x normal around ``skill`` (Gauss-Hermite quadrature)."""
    return float(WEIGHTS @ (1 / (1 + np.exp(-(skill + spread * PLACES)))))


@functools.cache
def skill_for(accuracy: float, spread: float) -> float:
    """Return the skill that has this expected accuracy."""
    low, high = -40.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle, spread) < accuracy else (low, middle)
    return low


def labels(world: World, runs: int, items: int) -> pa.Table:
    """Return the columns that name each score, in the order of `World.draw`."""
    shape = world.systems, runs, items
    system, run, item = (place.ravel() for place in np.indices(shape, dtype=np.int32))
    names = pa.array(list(SYSTEMS[: world.systems]))
    columns = {"system": pa.DictionaryArray.from_arrays(system, names), "run": run, "item": item}
    if (clusters := world.clusters(items)) is not None:
        columns["cluster"] = clusters[item]
    return pa.table(columns)


@dataclass(frozen=True)
class Rates:
    """Shares of the simulated tables.

    Attributes:
        better: the first system was called better than the second.
        worse: it was called worse.
        any_pair: some pair was told apart.
        covered: the interval of their difference holds the truth.
        mean_covered: the interval of the last system holds its truth.
        difference: the true one.
    """

    better: float
    worse: float
    any_pair: float
    covered: float
    mean_covered: float
    difference: float


def measure(world: World, lead: float, runs: int, items: int, repeats: int, seed: tuple[int, ...]) -> Rates:
    """Judge so many tables; the first system has the lead."""
    chance = np.random.default_rng(seed)
    named = labels(world, runs, items)
    leads = np.zeros(world.systems)
    leads[0] = lead
    mean = world.truth(0.0)
    first = world.first_truth(lead) if isinstance(world, WordErrors) else world.truth(lead)
    counts = np.zeros(5)
    for _ in range(repeats):
        scores = world.draw(chance, leads, runs, items).ravel()
        table = score_table(named.append_column("score", pa.array(scores)), better=world.better)
        test, estimate = table.pairs[0], table.estimates[SYSTEMS[world.systems - 1]]
        counts += (
            test.word == "better",
            test.word == "worse",
            any(word != "not told apart" for word in table.words.values()),
            holds(test.low, test.high, first - mean),
            holds(estimate.low, estimate.high, mean),
        )
    better, worse, any_pair, covered, mean_covered = (counts / repeats).tolist()
    return Rates(better, worse, any_pair, covered, mean_covered, first - mean)


def holds(low: float | None, high: float | None, truth: float) -> bool:
    """Return whether an interval holds what is true."""
    assert low is not None
    assert high is not None
    return low <= truth <= high


def rows(repeats: int | None, first: int, last: int) -> Iterator[str]:
    """Yield the rows of some worlds in Markdown."""
    heads = ["systems", "runs", "items", "equal: told apart", "difference covered", "mean covered"]
    heads += ["true difference", "found", "wrong way", "covered"]
    yield f"| {' | '.join(heads)} |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for number in range(first, last):
        world = WORLDS[number]
        for runs, items in DESIGNS:
            times = repeats or REPEATS[items]
            equal = measure(world, 0.0, runs, items, times, (0, number, runs, items, 0))
            other = measure(world, world.lead, runs, items, times, (0, number, runs, items, 1))
            is_first = (other.difference > 0) == (world.better == "higher")
            found, wrong = (other.better, other.worse) if is_first else (other.worse, other.better)
            if equal.difference:  # equal where they train: those that fail are truly worse
                told = f"{equal.worse:.1%} worse, {equal.better:.1%} better"
            else:
                told = f"{equal.any_pair:.1%}"
            shares = [told, *(f"{value:.1%}" for value in (equal.covered, equal.mean_covered))]
            shares += [f"{other.difference:+.3g}", *(f"{value:.1%}" for value in (found, wrong, other.covered))]
            cells = (text.replace("%", " %") for text in shares)
            yield f"| {world.name} | {runs} | {items:,} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table, and what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, help="tables a row; default 4,000 of 50 items, 2,000 of 5,000")
    parser.add_argument("--first", type=int, default=0, help="world of the first row, from 0")
    parser.add_argument("--last", type=int, default=len(WORLDS), help="world before which it ends")
    options = parser.parse_args()
    for row in rows(options.repeats, options.first, options.last):
        print(row, flush=True)
    print(f"\n{time.process_time() / 60:.0f} min of processor time")


if __name__ == "__main__":
    main()
