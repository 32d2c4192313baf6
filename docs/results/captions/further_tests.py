"""Score a comparison of captions on further tests, outside its plan: ``further_tests.py COMPARISON DATA OUT``.

DATA is the folder of Multi30k. The outputs of every run are kept in OUT, so that a second call only scores. Prints
BLEU, chrF and TER on each test and on all three together, with intervals over runs and captions, and the differences.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from selfattn.comparison.plan import read_plan
from selfattn.comparison.tested import read_runs
from selfattn.data.readers.pairs import read_pairs
from selfattn.decoding.options import DecodingOptions
from selfattn.evaluation.metrics.metric import make_metric
from selfattn.evaluation.statistics.significance import score_counts
from selfattn.runs.run import load

FILES = {"test2017": "test_2017_flickr", "mscoco": "test_2017_mscoco"}
METRICS = ("bleu", "chrf", "ter")

if __name__ == "__main__":
    comparison, data, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    plan = read_plan(comparison)
    models = read_runs(comparison, plan)[plan.main]
    first = next(iter(models.values()))[0]
    references = {"test2016": [pair.target for pair in first.answered.pairs]}
    outputs = {"test2016": {name: [run.answered.outputs for run in runs] for name, runs in models.items()}}
    options = DecodingOptions(
        beam=int(first.result.decoding["beam"]), length_penalty=first.result.decoding["length_penalty"]
    )
    for test, name in FILES.items():
        pairs = read_pairs(data / f"{name}.en.gz", data / f"{name}.de.gz")
        references[test], outputs[test] = [pair.target for pair in pairs], {}
        for model, runs in models.items():
            for run in runs:
                file = out / f"{test}-{run.path.name}.json"
                if not file.exists():
                    texts = [best.text for best, *_ in load(run.path).decode([pair.source for pair in pairs], options)]
                    file.write_text(json.dumps(texts, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
                outputs[test].setdefault(model, []).append(json.loads(file.read_text(encoding="utf-8")))
    together = list(references)
    references["together"] = [text for test in together for text in references[test]]
    outputs["together"] = {
        model: [[text for test in together for text in outputs[test][model][k]] for k in range(len(runs))]
        for model, runs in models.items()
    }
    print(f"| test | metric | {' | '.join(models)} | difference | p |\n| --- | --- | ---: | ---: | ---: | ---: |")
    for test, texts in references.items():
        for name in METRICS:
            metric = make_metric(name, "de")
            compared = score_counts(metric.count_runs(outputs[test], texts), metric).comparison()
            cells = [f"{e.mean:.1f} [{e.low:.1f}, {e.high:.1f}]" for e in compared.estimates.values()]
            pair = compared.between(*models)
            change = f"{pair.difference:+.1f} [{pair.low:+.1f}, {pair.high:+.1f}]"
            print(f"| {test} | {name} | {' | '.join(cells)} | {change} | {pair.p:.2f} |")
