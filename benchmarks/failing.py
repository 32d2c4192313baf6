"""What is said of two models whose trainings fail sometimes, where the truth is known.

    python -m benchmarks.failing                    # the tables of docs/statistics.md, in Markdown
    python -m benchmarks.failing --repeats 200      # a quick look

The worlds are those of `benchmarks.significance`: items of different ease, runs with luck of their own. A failed run
answers no item rightly; of a word error rate it has about 100 %.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.significance import EASE, TASTE, percents, row, skill_for
from selfattn.evaluation.significance import RunScores, score_runs

Array = npt.NDArray[np.float64]
ITEMS = 300
SEEDS = (3, 5, 8)
FAILED = 0.0  # accuracy of a failed run


@dataclass(frozen=True)
class Model:
    """A simulated model.

    Attributes:
        accuracy: expected, of a training that does not fail; of an error rate 1 minus it.
        failing: share of trainings that fail.
        luck: standard deviation of the runs' luck, in logits.
    """

    accuracy: float
    failing: float = 0.0
    luck: float = 0.3

    @property
    def truth(self) -> float:
        """The expected accuracy of a run, failed ones included."""
        return (1 - self.failing) * self.accuracy + self.failing * FAILED

    def draw(
        self, generator: np.random.Generator, seeds: int, ease: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the answers of runs ``[seeds, items]``, True where right, and which runs ``[seeds]`` failed."""
        spread = float(np.sqrt(EASE**2 + TASTE**2 + self.luck**2))
        runs = skill_for(self.accuracy, spread) + self.luck * generator.standard_normal((seeds, 1))
        taste = TASTE * generator.standard_normal(len(ease))
        right = generator.random((seeds, len(ease))) < 1 / (1 + np.exp(-(runs + ease + taste)))
        failed = generator.random(seeds) < self.failing
        return right & ~failed[:, None], failed

    def draw_errors(self, generator: np.random.Generator, seeds: int) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Return the word error rates of runs ``[seeds]``, and which of them failed."""
        failed = generator.random(seeds) < self.failing
        errors = 1 - self.accuracy + 0.005 * generator.standard_normal(seeds)
        return np.where(failed, generator.uniform(0.95, 1.2, seeds), errors), failed


WORLDS = {
    "95 %; 95 %": (Model(0.95), Model(0.95)),
    "95 %, 1 in 10 fails; 95 %": (Model(0.95, 0.1), Model(0.95)),
    "95 %, 3 in 10 fail; 95 %": (Model(0.95, 0.3), Model(0.95)),
    "95 %, 5 in 10 fail; 95 %": (Model(0.95, 0.5), Model(0.95)),
    "95 %, 3 in 10 fail; 95 %, 3 in 10 fail": (Model(0.95, 0.3), Model(0.95, 0.3)),
    "97 %, 1 in 10 fails; 95 %": (Model(0.97, 0.1), Model(0.95)),
    "97 %, 3 in 10 fail; 95 %": (Model(0.97, 0.3), Model(0.95)),
    "97 %; 95 %": (Model(0.97), Model(0.95)),
    "99 %, 1 in 10 fails; 80 %": (Model(0.99, 0.1), Model(0.8)),
    "99 %; 80 %": (Model(0.99), Model(0.8)),
}


def outcomes(
    first: Model, second: Model, seeds: int, *, repeats: int, seed: tuple[int, ...], errors: bool = False
) -> dict[str, float]:
    """Return shares of comparisons: words that are wrong or right about trainings that do not fail, and coverage.

    Args:
        first: model.
        second: model.
        seeds: runs of each.
        repeats: comparisons.
        seed: of the simulation.
        errors: whether an error rate is compared, of which lower is better; default accuracy.
    """
    generator = np.random.default_rng(seed)
    lead = first.accuracy - second.accuracy
    counts: Counter[str] = Counter()
    for _ in range(repeats):
        if errors:
            drawn = [model.draw_errors(generator, seeds) for model in (first, second)]
            runs = {"a": drawn[0][0], "b": drawn[1][0]}
            scores = RunScores(runs, np.zeros((2 * seeds, 2 * seeds)), 10**6, better="lower")
        else:
            ease = EASE * generator.standard_normal(ITEMS)
            drawn = [model.draw(generator, seeds, ease) for model in (first, second)]
            scores = score_runs({"a": drawn[0][0], "b": drawn[1][0]})
        scores = replace(scores, failed={"a": drawn[0][1], "b": drawn[1][1]})
        (test,) = scores.comparison(("a", "b")).pairs
        counts["wrong"] += (test.word == "better" and lead <= 0) or (test.word == "worse" and lead >= 0)
        counts["right"] += (test.word == "better" and lead > 0) or (test.word == "worse" and lead < 0)
        counts["not told apart"] += test.word == "not told apart"
        counts["covered"] += test.low <= (first.truth - second.truth) <= test.high
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
    for place, label in enumerate(("97 %, 1 in 10 fails; 95 %", "97 %, 3 in 10 fail; 95 %")):
        pair = WORLDS[label]
        lead = pair[0].truth - pair[1].truth
        for seeds in (5, 20):
            generator = np.random.default_rng((seed, 50, place, seeds))
            sides = []
            for model in pair:
                good = model.accuracy + RUN_LUCK * generator.standard_normal((repeats, seeds))
                failed = FAILED + RUN_LUCK * generator.standard_normal((repeats, seeds))
                sides.append(np.where(generator.random((repeats, seeds)) < model.failing, failed, good))
            welch = stats.ttest_ind(*sides, axis=1, equal_var=False).confidence_interval()
            intervals = [(welch.low, welch.high)]
            intervals += [bootstrap_ends(*sides, generator, trimmed) for trimmed in (False, True)]
            shares = []
            for low, high in intervals:
                shares += [(low > 0).mean(), ((low <= lead) & (lead <= high)).mean()]
            yield row(label, seeds, *percents(*shares))


COLUMNS = ("wrong", "right", "not told apart")


def table(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table."""
    kinds = ("exact match", "word error rate")
    yield row("two models", "seeds", *(f"{kind}: {name}" for kind in kinds for name in COLUMNS), "covered")
    yield row(*["---"] * (3 + len(kinds) * len(COLUMNS)))
    for place, (label, (first, second)) in enumerate(WORLDS.items()):
        for seeds in SEEDS:
            right = outcomes(first, second, seeds, repeats=repeats, seed=(seed, place, seeds))
            errors = outcomes(first, second, seeds, repeats=repeats, seed=(seed, place, seeds), errors=True)
            shares = [each.get(name, 0.0) for each in (right, errors) for name in COLUMNS]
            yield row(label, seeds, *percents(*shares, right.get("covered", 0.0)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Simulate models whose trainings fail; count what is said.")
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
