"""How often a comparison by target is wrong: false alarms, coverage and power, by simulation.

``python -m benchmarks.arrivals`` prints the table of docs/statistics.md. Each comparison has two models whose runs need
log-normal numbers of examples (standard deviation 0.2 of the logarithm), rounded up to the next look; some runs fail,
and never arrive. With ``--trials`` each run is the best of that many trainings whose rates differ, as in a tuning.

``--spreads`` prints the same where the runs of the first model vary less than those of the second, and none fails.

``--items REPORT...`` prints, for published reports, how far the factors would vary with other validation items.

``--looks`` prints how far the rule of arriving is off: looks at 100 items, confirmed on 1,000, where the share of wrong
answers falls with the third power of the examples, as it did in the pilots.
"""

import argparse
import json
import math
import tarfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from selfattn.evaluation.metrics import Array
from selfattn.evaluation.variances import average_covariance, compare_arrivals, item_variances

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


Runs = dict[str, list[Any]]
"""Of each model, something of each of its runs."""


def archived(report: Path) -> tuple[Runs, Runs]:
    """Return the looks of every run, as examples and share, and which test outputs are the target."""
    seen: Runs = {}
    right: Runs = {}
    with tarfile.open(report.with_name(f"{report.stem}-packed.tar.xz")) as packed:

        def lines(name: str) -> list[Any]:
            file = packed.extractfile(name)
            assert file is not None
            return [json.loads(line) for line in file]

        (plan,) = (json.load(file) for file in [packed.extractfile("plan.json")] if file)
        for model, trials in plan["trials"].items():
            for number in sorted(number for number, trial in enumerate(trials) if trial.get("chosen")):
                path = f"tuning/{model}-trial{number}"
                run = [(look["examples"], look["valid_exact_match"]) for look in lines(f"{path}/metrics.jsonl")]
                seen.setdefault(model, []).append(run)
                answers = lines(f"{path}/test.jsonl")
                right.setdefault(model, []).append([answer["output"] == answer["target"] for answer in answers])
    return seen, right


def steepness(run: list[tuple[int, float]]) -> float:
    """Return how fast the share grows with the logarithm of the examples, over the last quarter of them."""
    last = run[-1][0]
    before = [(math.log(count), share) for count, share in run[:-1] if count > 0.75 * last]  # the last look ends a run
    return float(np.polyfit(*zip(*before, strict=True), 1)[0])


def items(report: Path) -> Iterator[str]:
    """Yield, for each pair, how far its factor would vary with other validation items, and its interval with these.

    All runs answer the same validation items. How the models' shares vary together over items is that of the test; a
    share that is higher by some points is reached earlier by as many, divided by the steepness of the learning curve.
    """
    target = json.loads(report.read_text("utf-8"))["target"]
    seen, right = archived(report)
    slopes = {model: float(np.mean([steepness(run) for run in runs])) for model, runs in seen.items()}
    for test in target["pairs"]:
        names = (test["first"], test["second"])
        groups: list[Array] = [np.array(right[name], dtype=np.float64) / slopes[name] for name in names]
        covariance = average_covariance(np.concatenate(groups)) * groups[0].shape[1] / target["confirm_items"]
        means = [group.mean(axis=1) for group in groups]
        shared = sum(common for _, common in item_variances(means, covariance))
        of_items = max(0.0, shared - 2 * float(covariance[: len(means[0]), len(means[0]) :].mean()))
        half = math.log(test["high"] / test["low"]) / 2
        wider = math.sqrt(half**2 + 1.96**2 * of_items) / half
        yield f"| {report.stem} | {names[0]}, {names[1]} | {100 * math.sqrt(of_items):.1f} % | {wider:.2f} |"


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
    parser.add_argument("--items", nargs="+", type=Path, metavar="REPORT")
    options = parser.parse_args()
    lines = table(options.repeats, options.trials)
    if options.looks:
        lines = looks(options.repeats)
    elif options.spreads:
        lines = spreads(options.repeats)
    elif options.items:
        lines = chain.from_iterable(map(items, options.items))
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
