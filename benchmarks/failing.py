"""What is said of two models of which only one gets stuck sometimes, where the truth is known.

    python -m benchmarks.failing                    # the table of docs/statistics.md, in Markdown
    python -m benchmarks.failing --repeats 200      # a quick look

The worlds are those of `benchmarks.significance`: items of different ease, runs with luck of their own. A stuck run
answers a fixed share of the items rightly.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.significance import EASE, TASTE, percents, row, skill_for
from selfattn.evaluation.statistics.mean_run import compare_mean_runs
from selfattn.evaluation.statistics.significance import choose_word, score_runs

Array = npt.NDArray[np.float64]
ITEMS = 1000
FEW = 8  # seeds; with more there are 300 items and a quarter of the comparisons, as the exact test over items is slow
SEEDS = (3, 5, 8, 20)
STUCK = 0.1  # accuracy of a stuck run


@dataclass(frozen=True)
class Model:
    """A simulated model.

    Attributes:
        accuracy: expected, of a run that is not stuck.
        failing: share of runs that are stuck.
        luck: standard deviation of the runs' luck, in logits.
    """

    accuracy: float
    failing: float = 0.0
    luck: float = 0.3

    @property
    def truth(self) -> float:
        """The expected accuracy of a run, stuck ones included."""
        return (1 - self.failing) * self.accuracy + self.failing * STUCK

    def draw(self, generator: np.random.Generator, seeds: int, ease: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Return the answers of runs ``[seeds, items]``, True where right."""
        spread = float(np.sqrt(EASE**2 + TASTE**2 + self.luck**2))
        runs = skill_for(self.accuracy, spread) + self.luck * generator.standard_normal((seeds, 1))
        taste = TASTE * generator.standard_normal(len(ease))
        right = generator.random((seeds, len(ease))) < 1 / (1 + np.exp(-(runs + ease + taste)))
        chance = generator.random((seeds, len(ease))) < STUCK
        is_stuck = generator.random((seeds, 1)) < self.failing
        return np.where(is_stuck, chance, right)


# The first model is the one that may get stuck.
WORLDS = {
    "97 %, 1 in 10 stuck; 95 %": (Model(0.97, 0.1), Model(0.95)),
    "97 %, 1 in 20 stuck; 95 %": (Model(0.97, 0.05), Model(0.95)),
    "97 %, 1 in 5 stuck; 95 %": (Model(0.97, 0.2), Model(0.95)),
    "99 %, 1 in 10 stuck; 54 %": (Model(0.99, 0.1), Model(0.54)),
    "95 %, 1 in 10 stuck; 95 %, 1 in 10 stuck": (Model(0.95, 0.1), Model(0.95, 0.1)),
    "95 %; 95 %": (Model(0.95), Model(0.95)),
    "97 %; 95 %": (Model(0.97), Model(0.95)),
    "99 %; 54 %": (Model(0.99), Model(0.54)),
    "99 %; 80 %": (Model(0.99), Model(0.8)),
}


def outcomes(first: Model, second: Model, seeds: int, *, repeats: int, seed: tuple[int, ...]) -> dict[str, float]:
    """Return shares of comparisons: words that are wrong or right about the mean run, and coverage."""
    generator = np.random.default_rng(seed)
    lead = first.truth - second.truth
    wrong_word = {"better"} if lead < 0 else {"worse"} if lead > 0 else {"better", "worse"}
    right_word = {"better", "worse"} - wrong_word
    counts: Counter[str] = Counter()
    for _ in range(repeats):
        ease = EASE * generator.standard_normal(ITEMS if seeds <= FEW else 300)
        scores = score_runs({"a": first.draw(generator, seeds, ease), "b": second.draw(generator, seeds, ease)})
        pair = scores.pair("a", "b")
        word = choose_word(pair, seeds)
        comparison = compare_mean_runs(scores)
        test = comparison.between("a", "b")
        mean_run = comparison.estimates["a"]
        counts["wrong today"] += word in wrong_word
        counts["right today"] += word in right_word
        counts["covered today"] += pair.low <= lead <= pair.high
        counts["wrong"] += test.word in wrong_word
        counts["right"] += test.word in right_word
        counts["where it trains"] += test.word in ("better where it trains", "worse where it trains")
        counts["covered"] += test.low <= lead <= test.high
        counts["mean covered"] += (mean_run.low or 0.0) <= first.truth <= (mean_run.high or 1.0)
    return {name: count / repeats for name, count in counts.items()}


RUN_LUCK = 0.007  # standard deviation of a run's accuracy in the table of candidates


def bootstrap_ends(
    first: Array, second: Array, generator: np.random.Generator, trimmed: bool, draws: int = 1000
) -> tuple[Array, Array]:
    """Return the percentile interval of a difference of means, or of interquartile means (Agarwal et al. 2021)."""
    repeats, seeds = first.shape
    differences = np.empty((draws, repeats))
    for draw in range(draws):
        sides = []
        for runs in (first, second):
            drawn = np.take_along_axis(runs, generator.integers(seeds, size=(repeats, seeds)), axis=1)
            sides.append(stats.trim_mean(drawn, 0.25, axis=1) if trimmed else drawn.mean(axis=1))
        differences[draw] = sides[0] - sides[1]
    low, high = np.quantile(differences, [0.025, 0.975], axis=0)
    return low, high


def candidates(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table of other procedures, on the accuracies of runs alone, as if there were very many items."""
    names = ("Welch's t", "bootstrap of the mean", "bootstrap of the interquartile mean")
    yield row("two models", "seeds", *(f"{name}, {what}" for name in names for what in ("wrong", "covered")))
    yield row(*["---"] * (2 + 2 * len(names)))
    for place, label in enumerate(("97 %, 1 in 10 stuck; 95 %", "97 %, 1 in 5 stuck; 95 %")):
        pair = WORLDS[label]
        lead = pair[0].truth - pair[1].truth
        for seeds in (5, 20):
            generator = np.random.default_rng((seed, 50, place, seeds))
            sides = []
            for model in pair:
                good = model.accuracy + RUN_LUCK * generator.standard_normal((repeats, seeds))
                stuck = STUCK + RUN_LUCK * generator.standard_normal((repeats, seeds))
                sides.append(np.where(generator.random((repeats, seeds)) < model.failing, stuck, good))
            welch = stats.ttest_ind(*sides, axis=1, equal_var=False).confidence_interval()
            intervals = [(welch.low, welch.high)]
            intervals += [bootstrap_ends(*sides, generator, trimmed) for trimmed in (False, True)]
            shares = []
            for low, high in intervals:
                shares += [(low > 0).mean(), ((low <= lead) & (lead <= high)).mean()]
            yield row(label, seeds, *percents(*shares))


COLUMNS = (
    "wrong today",
    "right today",
    "covered today",
    "wrong",
    "right",
    "where it trains",
    "covered",
    "mean covered",
)


def table(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table."""
    yield row("two models", "true lead of the first (points)", "seeds", *COLUMNS)
    yield row(*["---"] * (3 + len(COLUMNS)))
    for place, (label, (first, second)) in enumerate(WORLDS.items()):
        for seeds in SEEDS:
            counted = repeats if seeds <= FEW else repeats // 4
            shares = outcomes(first, second, seeds, repeats=counted, seed=(seed, place, seeds))
            lead = 100 * (first.truth - second.truth)
            yield row(label, f"{lead:+.1f}", seeds, *percents(*(shares.get(name, 0.0) for name in COLUMNS)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Simulate models of which one gets stuck; count what is said.")
    parser.add_argument("--repeats", type=int, default=1000, help="comparisons in a row (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (default 0)")
    options = parser.parse_args()
    started = time.perf_counter()
    for lines in (table, candidates):
        for line in lines(options.repeats, options.seed):
            print(line, flush=True)
        print(flush=True)
    print(f"{options.repeats} comparisons a row, seed {options.seed}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
