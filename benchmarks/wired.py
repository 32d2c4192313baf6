"""How often the first sentence of a report is wrong, from simulated outputs to the words that a reader sees.

    python -m benchmarks.wired                      # the table of docs/statistics.md, in Markdown
    python -m benchmarks.wired --repeats 20         # a quick look

The worlds are those of `benchmarks.failing`. Every answer becomes an output, right or wrong; the outputs go through the
analysis of a comparison (`selfattn.comparison.record.measure`) and its verdict.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.failing import WORLDS, Model
from benchmarks.significance import EASE, percents, row
from selfattn.comparison.record import measure
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.tested import Answer, Answered
from selfattn.report.verdict.verdict import verdict
from selfattn.results import record as records

ITEMS = 300
SEEDS = (3, 5, 8)
DATA = {"kind": "embedded", "locales": ["en_US"]}  # of the task `dates`
ANSWERS = ("better", "worse", "better where it trains", "worse where it trains", "no difference seen")
RECORD = records.Record(
    schema=records.SCHEMA,
    task="dates",
    created="2026-11-26T12:00:00+00:00",
    command="",
    environment={},
    settings={},
    test_items=1,
    models=tuple(records.Model(name, True, 1, (0,), {}) for name in ("a", "b")),
    units={"exact_match": "share"},
    analysis=records.ANALYSIS,
)


def answered(model: Model, generator: np.random.Generator, seeds: int, ease: np.ndarray) -> list[Answered]:
    """Return the outputs of simulated runs."""
    runs = []
    for seed, right in enumerate(model.draw(generator, seeds, ease)):
        answers = [Answer(f"{k}", f"{k}", "", (), f"{k}" if is_right else "", True) for k, is_right in enumerate(right)]
        runs.append(Answered(seed, False, answers, {}, {}))
    return runs


def simulated(first: Model, second: Model, seeds: int, generator: np.random.Generator) -> records.Record:
    """Return the record of a simulated comparison."""
    ease = EASE * generator.standard_normal(ITEMS)
    rows = []
    for name, model in (("a", first), ("b", second)):
        rows += [(1.0, name, run) for run in answered(model, generator, seeds, ease)]
    outputs = RunTable.gather(rows)
    models = tuple(replace(model, seeds=tuple(range(seeds))) for model in RECORD.models)
    return measure(replace(RECORD, models=models), DATA, outputs)


def words(first: Model, second: Model, seeds: int, *, repeats: int, seed: tuple[int, ...]) -> Counter[str]:
    """Count which answer stands first in the reports of simulated comparisons."""
    generator = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    for _ in range(repeats):
        record = simulated(first, second, seeds, generator)
        counts[verdict(record).lead.key.removeprefix("verdict.")] += 1
    return counts


def table(repeats: int, seed: int) -> Iterator[str]:
    """The lines of the table."""
    yield row("two models", "true lead of the first (points)", "seeds", *ANSWERS, "not decided")
    yield row(*["---"] * (4 + len(ANSWERS)))
    for place, (label, (first, second)) in enumerate(WORLDS.items()):
        for seeds in SEEDS:
            counts = words(first, second, seeds, repeats=repeats, seed=(seed, place, seeds))
            shares = [counts[word] / repeats for word in (*ANSWERS, "too few seeds to tell")]
            yield row(label, f"{100 * (first.truth - second.truth):+.1f}", seeds, *percents(*shares))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Simulate comparisons; count what their reports say first.")
    parser.add_argument("--repeats", type=int, default=500, help="comparisons in a row (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (default 0)")
    options = parser.parse_args()
    started = time.perf_counter()
    for line in table(options.repeats, options.seed):
        print(line, flush=True)
    print(f"{options.repeats} comparisons a row, seed {options.seed}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
