"""How often two equal models are called different because one had more luck in its tuning.

    python -m benchmarks.tuning_luck                    # the tables of docs/statistics.md, in Markdown
    python -m benchmarks.tuning_luck --repeats 500      # a quick look

Two model families have the same response surface over learning rate, batch size and warm-up. Each is tuned by itself:
trials are drawn from a quasi-random sequence with a random shift, each trained once, and the best validation score is
chosen. The chosen setting is then trained with several seeds, and Welch's test compares the models. Scores are counted
in standard deviations between seeds; test items add nothing, as if there were very many.

The procedures, by number of final runs of each model:

- a grid of four learning rates, each twice the one before: all are tried with one tuning seed, the best and its
  neighbours with a second; all final runs have the choice (`selfattn compare` today);
- one tuning of three settings, all final runs with its choice (FixHOptEst of Bouthillier et al. 2021);
- one tuning, and the probability of outperforming of Bouthillier et al. 2021 (above 0.5 for certain, and perhaps above
  0.75), with a percentile bootstrap over pairs of runs;
- one tuning, and a variance of the tuning from a bootstrap of its trials;
- several tunings of full length, each with trials of its own; the final runs of each are a cluster;
- the trials of one tuning divided among several, so that the tuning costs nothing more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]
SETTINGS = 3  # learning rate, batch size, warm-up, each scaled to [0, 1]
BEST = np.array([0.55, 0.4, 0.3])
RATE_STEP = 1 / 8  # a doubling, in a range of 8 doublings
STEPS = np.array([0.8191725134, 0.6710436067, 0.5497004779])  # of the additive sequence R3 (Roberts 2018)


@dataclass(frozen=True)
class Surface:
    """What settings do to the expected score.

    Attributes:
        depth: what the worst corner loses, in standard deviations between seeds.
        cliff: whether rates in the highest eighth of the range lose 20 more: training diverges.
        noisier: whether a run varies more where the score is lower: by a tenth of what is lost.
    """

    depth: float
    cliff: bool = False
    noisier: bool = False

    def loss(self, settings: Array) -> Array:
        """Return what settings ``[.. 3]`` lose against the best."""
        away = settings - BEST
        away[..., 0] -= 0.4 * away[..., 1]  # the best rate grows with the batch size
        weights = np.array([1.0, 0.4, 0.15])
        corner = np.array([0.79, 0.6, 0.7])
        lost = self.depth * (away**2 @ weights) / (corner**2 @ weights)
        return np.asarray(lost + 20.0 * (settings[..., 0] > 0.875) * self.cliff)

    def noise(self, lost: Array) -> Array:
        """Return the standard deviation of a run that loses so much."""
        return 1.0 + lost / 10.0 * self.noisier


@dataclass(frozen=True)
class Procedure:
    """How a model is tuned, trained and compared.

    Attributes:
        label: for the table.
        tunings: independent ones, with the same number of final runs each; 0 for as many as final runs.
        divided: whether they share the trials of one.
        test: how models are compared: Welch's test over the means of tunings or, with one tuning, over runs.
        grid: whether four learning rates are tried instead of all settings.
    """

    label: str
    tunings: int = 1
    divided: bool = False
    test: str = "welch"
    grid: bool = False


def tuned_on_a_grid(surface: Surface, generator: np.random.Generator, offset: Array) -> Array:
    """Tune by four rates around the best, ``offset`` [repeats] of a step away; return what each choice loses."""
    repeats = len(offset)
    settings = np.broadcast_to(BEST, (repeats, 4, SETTINGS)).copy()
    settings[..., 0] += RATE_STEP * (np.arange(4) - 2 + offset[:, None])
    lost = surface.loss(settings)
    scores = -lost + surface.noise(lost) * generator.standard_normal(lost.shape)
    again = -lost + surface.noise(lost) * generator.standard_normal(lost.shape)
    near = abs(np.arange(4) - scores.argmax(axis=1)[:, None]) <= 1
    means = np.where(near, (scores + again) / 2, -np.inf)
    return np.take_along_axis(lost, means.argmax(axis=1)[:, None], axis=1)


def tuned(surface: Surface, generator: np.random.Generator, shape: tuple[int, int], trials: int) -> tuple[Array, Array]:
    """Tune repeats × tunings times; return what each choice loses, and the validation scores of its trials."""
    shift = generator.random((*shape, 1, SETTINGS))
    settings = (shift + STEPS * np.arange(1, trials + 1)[:, None]) % 1.0
    lost = surface.loss(settings)
    scores = -lost + surface.noise(lost) * generator.standard_normal(lost.shape)
    chosen = scores.argmax(axis=-1)
    return np.take_along_axis(lost, chosen[..., None], axis=-1)[..., 0], scores


def final_runs(
    surface: Surface, generator: np.random.Generator, procedure: Procedure, repeats: int, runs: int, trials: int
) -> tuple[Array, Array]:
    """Return final scores ``[repeats, tunings, runs of each]``, and trial scores ``[repeats, tunings, trials]``."""
    tunings = procedure.tunings or runs
    each = max(1, trials // tunings) if procedure.divided else trials
    lost, scores = tuned(surface, generator, (repeats, tunings), each)
    size = runs // tunings
    noise = surface.noise(lost)[..., None] * generator.standard_normal((repeats, tunings, size))
    return noise - lost[..., None], scores


def welch(first: Array, second: Array, extra: tuple[Array, Array] | None = None) -> Array:
    """Return p of Welch's test of units ``[repeats, n]``, with a known further variance of each mean."""
    count = first.shape[1]
    parts = [units.var(axis=1, ddof=1) / count for units in (first, second)]
    total = parts[0] + parts[1]
    freedom = total**2 * (count - 1) / (parts[0] ** 2 + parts[1] ** 2)
    variance = total if extra is None else total + extra[0] + extra[1]
    return np.asarray(2 * stats.t.sf(abs(first.mean(axis=1) - second.mean(axis=1)) / np.sqrt(variance), freedom))


def bootstrap_of_trials(scores: Array, generator: np.random.Generator, draws: int = 200) -> Array:
    """Return the variance of the chosen trial's score when the trials ``[repeats, 1, trials]`` are drawn again."""
    repeats, _, trials = scores.shape
    best = np.empty((draws, repeats))
    for draw in range(draws):
        places = generator.integers(trials, size=(repeats, trials))
        best[draw] = np.take_along_axis(scores[:, 0], places, axis=1).max(axis=1)
    return np.asarray(best.var(axis=0, ddof=1))


def outperforms(first: Array, second: Array, generator: np.random.Generator, draws: int = 500) -> Array:
    """Return whether pairs of runs ``[repeats, n]`` show a meaningful lead (Bouthillier et al. 2021, section 4)."""
    wins = (first > second).astype(np.float64)
    count = wins.shape[1]
    called = np.zeros(len(wins), dtype=np.bool_)
    for one, other in ((wins, 0.75), (1 - wins, 0.75)):
        # A bootstrap of wins and losses is a binomial draw.
        shares = generator.binomial(count, one.mean(axis=1), size=(draws, len(wins))) / count
        low, high = np.quantile(shares, [0.025, 0.975], axis=0)
        called |= (low > 0.5) & (high > other)
    return called


def called_different(
    procedure: Procedure,
    surface: Surface,
    *,
    runs: int,
    trials: int,
    lead: float,
    repeats: int,
    seed: tuple[int, ...],
) -> float:
    """Return how often two models, of which the first leads by ``lead``, are called different."""
    generator = np.random.default_rng(seed)
    if procedure.grid:
        offset = generator.random(repeats)  # the rates are the same for both models
        units = []
        for _ in range(2):
            lost = tuned_on_a_grid(surface, generator, offset)
            units.append(surface.noise(lost) * generator.standard_normal((repeats, runs)) - lost)
        return float((welch(units[0] + lead, units[1]) < 0.05).mean())
    first, first_trials = final_runs(surface, generator, procedure, repeats, runs, trials)
    second, second_trials = final_runs(surface, generator, procedure, repeats, runs, trials)
    first = first + lead
    if procedure.test == "outperforms":
        return float(outperforms(first[:, 0], second[:, 0], generator).mean())
    if procedure.test == "bootstrap":
        extra = bootstrap_of_trials(first_trials, generator), bootstrap_of_trials(second_trials, generator)
        return float((welch(first[:, 0], second[:, 0], extra) < 0.05).mean())
    if procedure.tunings == 1:
        return float((welch(first[:, 0], second[:, 0]) < 0.05).mean())
    return float((welch(first.mean(axis=2), second.mean(axis=2)) < 0.05).mean())


SURFACES = {
    "flat: the worst corner loses 3": Surface(3.0),
    "usual: 10": Surface(10.0),
    "usual, rates above a cliff diverge": Surface(10.0, cliff=True),
    "usual, bad settings vary more": Surface(10.0, noisier=True),
    "steep: 30": Surface(30.0),
    "very steep: 100": Surface(100.0),
}
PROCEDURES = (
    Procedure("4 rates", grid=True),
    Procedure("one tuning"),
    Procedure("one tuning, outperforming", test="outperforms"),
    Procedure("one tuning, bootstrap of trials", test="bootstrap"),
    Procedure("5 tunings", tunings=5),
    Procedure("a tuning for each run", tunings=0),
    Procedure("5 tunings share the trials", tunings=5, divided=True),
)
TRIALS = 20
RUNS = (5, 20)
LEADS = (0.0, 1.0, 2.0)


def spread_of_choices(surface: Surface, trials: int, repeats: int, seed: int) -> tuple[float, float]:
    """Return the mean and the standard deviation, over tunings, of what the choice loses."""
    lost, _ = tuned(surface, np.random.default_rng((seed, trials)), (repeats, 1), trials)
    return float(lost.mean()), float(lost.std(ddof=1))


def cost(procedure: Procedure, runs: int) -> int:
    """Return the trainings of a model, tuning counted."""
    if procedure.grid:
        return runs + 7
    tunings = procedure.tunings or runs
    return runs + tunings * (TRIALS // tunings if procedure.divided else TRIALS)


def alarms(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table of equal models: how often they are called different."""
    yield row(
        "equal models", "choice loses, mean ± sd",
        *(f"{procedure.label}, {runs} runs" for procedure in PROCEDURES for runs in RUNS),
    )  # fmt: skip
    yield row(*["---"] * (2 + len(PROCEDURES) * len(RUNS)))
    for place, (label, surface) in enumerate(SURFACES.items()):
        rates = []
        for number, procedure in enumerate(PROCEDURES):
            for runs in RUNS:
                settings = {"runs": runs, "trials": TRIALS, "lead": 0.0, "repeats": repeats}
                rate = called_different(procedure, surface, seed=(seed, place, number, runs), **settings)
                rates.append(rate)
        mean, deviation = spread_of_choices(surface, TRIALS, repeats, seed)
        yield row(label, f"{mean:.2f} ± {deviation:.2f}", *(f"{100 * rate:.1f} %" for rate in rates))


def power(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table of procedures: false alarms, power and cost on the usual and on the steep surface."""
    names = ("usual: 10", "steep: 30")
    yield row(
        "procedure", "final runs", "trainings of a model",
        *(f"{name.partition(':')[0]}, lead {lead:g}" for name in names for lead in LEADS),
    )  # fmt: skip
    yield row(*["---"] * (3 + len(names) * len(LEADS)))
    wide = (Procedure("3 tunings", tunings=3), Procedure("10 tunings", tunings=10))
    three = Procedure("3 tunings share the trials", tunings=3, divided=True)
    for number, procedure in enumerate((*PROCEDURES, *wide, three)):
        for runs in RUNS:
            tunings = procedure.tunings or runs
            counted = runs if procedure.tunings != 3 else 3 * (-(-runs // 3))
            if tunings > counted:
                continue
            rates = []
            for name in names:
                for lead in LEADS:
                    settings = {"runs": counted, "trials": TRIALS, "lead": lead, "repeats": repeats}
                    rate = called_different(procedure, SURFACES[name], seed=(seed, 100, number, runs), **settings)
                    rates.append(rate)
            yield row(procedure.label, counted, cost(procedure, counted), *(f"{100 * rate:.1f} %" for rate in rates))


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Simulate tunings of equal models; count false alarms.")
    parser.add_argument("--repeats", type=int, default=10_000, help="comparisons in a cell (default 10,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (default 0)")
    options = parser.parse_args()
    started = time.perf_counter()
    for table in (alarms, power):
        for line in table(options.repeats, options.seed):
            print(line, flush=True)
        print(flush=True)
    print(f"{options.repeats:,} comparisons a cell, seed {options.seed}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
