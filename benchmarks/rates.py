"""How often the comparison on dates decides, simulated from its pilot.

    python -m benchmarks.rates                # the table of docs/log.md, in Markdown
    python -m benchmarks.rates --repeats 100  # a quick look

Each repetition tunes (two runs of every rate, the best mean wins), trains with fresh seeds at each model's best rate,
and tests the difference as the report does. A run's exact match is drawn from the pilot's runs with that rate; its
answers for the test dates are drawn with that probability. With a share of runs that are stuck at 1 %, as some of
shorter trainings were, the design is still to decide.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import numpy as np

from selfattn.evaluation.significance import score_runs

# Exact match (%) on 1,000 validation dates after 390 steps of 64 dates, by learning rate.
PILOT: Mapping[str, Mapping[float, Sequence[float]]] = {
    "rnn-attention": {
        1.6e-2: (90.7, 83.8, 98.4, 93.0, 93.9, 92.4, 93.3, 90.3, 95.6, 97.0, 98.7, 96.4),
        3.2e-2: (95.3, 95.4, 99.4, 96.7, 93.8, 94.6, 98.3, 94.6, 90.1, 95.0, 90.6, 93.1),
        6.4e-2: (92.4, 92.1, 96.5, 98.4),
    },
    "transformer": {
        2e-3: (43.5, 45.0, 52.3, 41.4, 54.3, 42.4),
        4e-3: (50.5, 50.7, 55.2, 43.6, 52.7, 47.4, 38.3, 68.7, 59.2, 52.5),
        8e-3: (29.6, 22.4),
    },
}
ITEMS, TUNING_SEEDS, STUCK = 2000, 2, 0.01


def decided(seeds: int, stuck: float, rng: np.random.Generator) -> bool:
    """Repeat tuning, training and test once; return whether the RNN with attention is found to be better."""

    def run(values: Sequence[float]) -> float:
        return STUCK if rng.random() < stuck else float(rng.choice(values)) / 100

    scores = {}
    for name, by_rate in PILOT.items():
        means = {rate: sum(run(values) for _ in range(TUNING_SEEDS)) for rate, values in by_rate.items()}
        best = by_rate[max(means, key=means.__getitem__)]
        scores[name] = [rng.random(ITEMS) < run(best) for _ in range(seeds)]
    arrays = {name: np.array(runs, dtype=float) for name, runs in scores.items()}
    pair = (
        score_runs(arrays).comparison(primary=("transformer", "rnn-attention")).between("rnn-attention", "transformer")
    )
    return pair.word == "better"


def main() -> None:
    """Print the share of repetitions that decide, by seeds and by the share of stuck runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1000)
    repeats, shares = parser.parse_args().repeats, (0.0, 0.02, 0.04)
    print("| seeds | " + " | ".join(f"{share:.0%} stuck" for share in shares) + " |")
    print("| ---: |" + " ---: |" * len(shares))
    for seeds in (3, 4, 5, 6, 8):
        rng = np.random.default_rng(seeds)
        power = [sum(decided(seeds, share, rng) for _ in range(repeats)) / repeats for share in shares]
        print(f"| {seeds} | " + " | ".join(f"{100 * share:.1f}" for share in power) + " |")


if __name__ == "__main__":
    main()
