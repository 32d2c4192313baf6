"""How often two single runs give the wrong sign, from the runs of finished comparisons.

    python -m benchmarks.single_seed docs/results/reports/*.json

Most published comparisons train each model once. Here every run of one model is compared with every run of another, on
the metric that decides: how many of these pairs have the sign that the means over all runs do not have? Prints the
table of docs/statistics.md, in Markdown.
"""

from __future__ import annotations

import argparse
from itertools import combinations, product
from pathlib import Path

from selfattn.results.record import read_record


def main() -> None:
    """Print one row for each pair of models of each report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, help="results.json of a comparison")
    print("| report | models | mean difference | pairs of single runs | wrong sign |")
    print("| --- | --- | ---: | ---: | ---: |")
    for path in parser.parse_args().reports:
        record = read_record(path)
        if record.target is not None:  # its runs have numbers of examples, not scores
            continue
        metric = record.headline.metric
        quality = {model.name: model.metrics[metric] for model in record.models}
        scale = 100 if record.headline.kind == "share" else 1
        for first, second in combinations(quality, 2):
            mean = quality[first].mean - quality[second].mean
            pairs = [(a - b) * mean for a, b in product(quality[first].runs, quality[second].runs)]
            wrong = sum(sign < 0 for sign in pairs) + sum(sign == 0 for sign in pairs) / 2
            models = f"{first} − {second}"
            print(f"| {path.stem} | {models} | {mean * scale:+.1f} | {len(pairs)} | {wrong / len(pairs):.0%} |")


if __name__ == "__main__":
    main()
