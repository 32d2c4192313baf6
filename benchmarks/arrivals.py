"""How often a comparison by target is wrong: false alarms, coverage and power, by simulation.

``python -m benchmarks.arrivals`` prints the table of docs/statistics.md. Each comparison has two models whose runs need
log-normal numbers of examples (standard deviation 0.2 of the logarithm), rounded up to the next look; some runs fail,
and never arrive. With ``--trials`` each run is the best of that many trainings whose rates differ, as in a tuning.

``--spreads`` prints the same where the runs of the first model vary less than those of the second, and none fails.

``--looks`` prints how far the rule of arriving is off: looks at 100 items, confirmed on 1,000, where the share of wrong
answers falls with the third power of the examples, as it did in the pilots.
"""

import argparse
import math
from collections.abc import Iterator

import numpy as np

from selfattn.evaluation.variances import compare_arrivals

CAP = 24_000
TYPICAL = 6_000
LOOK = 200
SPREAD = 0.2
SPREADS = (0.2, 0.1, 0.05, 0.02)
FAILURES = ((0.0, 0.0), (0.1, 0.1), (0.3, 0.3), (0.5, 0.5), (0.1, 0.0), (0.3, 0.0), (0.5, 0.0))


def drawn(
    chance: np.random.Generator, runs: int, factor: float, fails: float, trials: int, spread: float = SPREAD
) -> list[int | None]:
    """Draw what runs need; None where they fail. A run is the best of its trials."""
    logs = chance.normal(math.log(factor * TYPICAL), spread, (runs, trials))
    logs[chance.random((runs, trials)) < fails] = math.inf
    needed = np.ceil(np.exp(logs.min(axis=1)) / LOOK) * LOOK
    return [None if count > CAP else int(count) for count in needed]


def row(
    runs: int, fails: tuple[float, float], factor: float, repeats: int, trials: int, spread: float = SPREAD
) -> tuple[float, float]:
    """Return how often two models were told apart, and how often the interval held the true factor."""
    chance = np.random.default_rng(0)
    decided = 0
    covered = 0
    for _ in range(repeats):
        first = drawn(chance, runs, factor, fails[0], trials, spread)
        second = drawn(chance, runs, 1.0, fails[1], trials)
        (test,) = compare_arrivals({"first": first, "second": second}, CAP)
        decided += test.word != "not told apart"
        covered += (test.low or 0.0) <= factor <= (test.high or math.inf)
    return decided / repeats, covered / repeats


def table(repeats: int, trials: int) -> Iterator[str]:
    """Yield the rows of the table in Markdown."""
    yield "| runs | fail, first and second | equal: false alarms | equal: covered | 1.6 times: told apart | covered |"
    yield "| ---: | --- | ---: | ---: | ---: | ---: |"
    for runs in (4, 5, 8, 10):
        for fails in FAILURES:
            alarms, covered = row(runs, fails, 1.0, repeats, trials)
            power, held = row(runs, fails, 1.6, repeats, trials)
            shares = " | ".join(f"{100 * value:.1f} %" for value in (alarms, covered, power, held))
            yield f"| {runs} | {fails[0]:.0%}, {fails[1]:.0%} | {shares} |"


def spreads(repeats: int) -> Iterator[str]:
    """Yield, by runs and by how much those of the first model vary, how often the test and the interval are wrong."""
    yield "| runs | the first varies by | equal: false alarms | equal: covered | 1.6 times: covered |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    for runs in (4, 5, 8, 10, 20):
        for spread in SPREADS:
            alarms, covered = row(runs, (0.0, 0.0), 1.0, repeats, 1, spread)
            _, held = row(runs, (0.0, 0.0), 1.6, repeats, 1, spread)
            shares = " | ".join(f"{100 * value:.1f} %" for value in (alarms, covered, held))
            yield f"| {runs} | {spread:g} | {shares} |"


def looks(repeats: int, steepness: float = 3.0) -> Iterator[str]:
    """Yield, for where a model truly gets 90 % right, where it arrives: median and the middle 90 % of trainings."""
    chance = np.random.default_rng(0)
    yield "| truly 90 % after | arrives after, median | 5 to 95 % |"
    yield "| ---: | ---: | ---: |"
    for true in (4_000, 8_000, 16_000):
        places = np.arange(LOOK, CAP + LOOK, LOOK)
        share = np.clip(1 - 0.1 * (places / true) ** -steepness, 0.0, 1.0)
        has_look = chance.binomial(100, share, (repeats, len(places))) >= 90
        is_confirmed = chance.binomial(1000, share, (repeats, len(places))) >= 900
        arrived = places[np.argmax(has_look & is_confirmed, axis=1)]
        low, middle, high = np.percentile(arrived, (5, 50, 95))
        yield f"| {true:,} | {middle:,.0f} | {low:,.0f}–{high:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--looks", action="store_true")
    parser.add_argument("--spreads", action="store_true")
    options = parser.parse_args()
    lines = table(options.repeats, options.trials)
    if options.looks:
        lines = looks(options.repeats)
    elif options.spreads:
        lines = spreads(options.repeats)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
