"""How often `compare outputs` sees a difference between outputs of runs that differ by their seed alone.

    python -m benchmarks.outputs ARCHIVE ... --metric bleu --language de     # a table in Markdown

An archive is `packed.tar.xz` of a comparison. Real runs: the runs of each model are divided into two groups of three
in every way, and any two of them are set beside each other as two systems with one file each. Drawn runs: for each, a
draw says how often it answers as which of the real ones; items are drawn, too. Neither group is better.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from selfattn.comparison.plan import read_plan
from selfattn.comparison.record import outputs_of
from selfattn.comparison.report import unpack
from selfattn.comparison.tested import read_runs
from selfattn.comparison.verify import read_carried
from selfattn.evaluation.metrics import Metric, make_metric
from selfattn.evaluation.significance import score_counts

Array = npt.NDArray[np.float64]
SEEDS = 3
SPREAD = 0.2  # of the Dirichlet distribution of answers over the real runs: most drawn runs are mostly like one of them
LEVEL = 0.05


def is_told_apart(first: Array, second: Array, metric: Metric, resamples: int = 500) -> bool:
    """Whether the verdict over seeds and items calls one group better."""
    comparison = score_counts({"a": first, "b": second}, metric, resamples=resamples).comparison(("a", "b"))
    return comparison.pairs[0].word in ("better", "worse")


def is_apart_over_items(first: Array, second: Array, metric: Metric) -> bool:
    """Whether a test over the items alone has p below 0.05 for one run of each."""
    return score_counts({"a": first[None], "b": second[None]}, metric, resamples=500).pair("a", "b").p < LEVEL


def splits(count: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield every way to take two groups of three out of so many runs."""
    for chosen in combinations(range(count), 2 * SEEDS):
        for rest in combinations(chosen[1:], SEEDS - 1):
            first = [chosen[0], *rest]
            yield first, [run for run in chosen if run not in first]


def drawn(counts: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw items, and two groups of runs that answer as the real ones."""
    runs, items, _ = counts.shape
    places = rng.integers(items, size=items)
    groups = []
    for _ in range(2 * SEEDS):
        weights = rng.dirichlet([SPREAD] * runs)
        groups.append(counts[rng.choice(runs, size=items, p=weights), places])
    return np.stack(groups[:SEEDS]), np.stack(groups[SEEDS:])


def rows(path: Path, metric: Metric, repeats: int) -> Iterator[str]:
    """Yield a line for each model of an archive."""
    with unpack(path) as (folder, _):
        carried = read_carried(folder)
        outputs = carried.outputs() if carried else outputs_of(read_runs(folder, read_plan(folder)))
    rng = np.random.default_rng(0)
    for name, runs in outputs.main.items():
        counts = np.stack([metric.count(run.texts, outputs.first.pairs) for run in runs])
        real = [is_told_apart(counts[a], counts[b], metric) for a, b in splits(len(counts))]
        single = [is_apart_over_items(counts[a], counts[b], metric) for a, b in combinations(range(len(counts)), 2)]
        drawn_pairs = [is_told_apart(*drawn(counts, rng), metric) for _ in range(repeats)]
        cells = [f"{sum(called)} of {len(called)}" if called else "–" for called in (single, real, drawn_pairs)]
        yield f"| {path.name.partition('-')[0]}, {name}, {len(counts)} runs | {metric.name} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument("--metric", default="bleu")
    parser.add_argument("--language", default="")
    parser.add_argument("--repeats", type=int, default=400)
    options = parser.parse_args()
    metric = make_metric(options.metric, options.language)
    print(
        "| runs of one model | metric | one file each, items alone | three files each, real | three files each, drawn |"
    )
    print("| --- | --- | --- | --- | --- |")
    for path in options.archives:
        for row in rows(path, metric, options.repeats):
            print(row, flush=True)


if __name__ == "__main__":
    main()
