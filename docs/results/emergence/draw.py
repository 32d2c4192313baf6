"""Draw what ``measure.py`` noted: ``draw.py [DIR]`` prints the table and writes the pictures of ``docs/images``.

DIR has GOLD as ``gold.tsv`` and the files of the trainings; what is drawn of them is kept in ``trainings.json`` beside
this file, from where it is drawn without DIR. Of every training the way to read its attention is chosen at the end, on
the first half of GOLD; figures are of the second half.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from selfattn.evaluation.links import count_alignment, diagonal, read_gold
from selfattn.report.blocks import Chart, ChartLine, Spot
from selfattn.report.numbers import Scale
from selfattn.report.pictures import Signs
from selfattn.report.write import chart_svg
from selfattn.words.messages import phrase

HERE = Path(__file__).parent
IMAGES, KEPT = HERE.parents[1] / "images", HERE / "trainings.json"
FAMILIES = {"luong-bidirectional": "RNN", "transformer": "Transformer"}


def collect(folder: Path) -> dict[str, Any]:
    """Return what is drawn: for each training its validations, and the error of the diagonal."""
    gold = read_gold(folder / "gold.tsv", base=0)
    gold = gold[len(gold) // 2 :]
    along = [diagonal(len(pair.source), len(pair.target)) for pair in gold]
    trainings = {}
    for path in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        best = min(lines[-1]["aer"], key=lambda way, last=lines[-1]["aer"]: last[way][0])
        points = [[line["step"], round(line["aer"][best][1], 4), round(line["valid_loss"], 3)] for line in lines]
        trainings[path.stem] = {"attention": best, "step, error, loss": points}
    error = count_alignment(along, [pair.links for pair in gold]).aer
    return {"diagonal": round(error or 0.0, 4), "trainings": trainings}


def draw(kept: dict[str, Any], lang: str) -> str:
    """Return the picture: the alignment error of every training against its steps."""
    lines = []
    for name, training in kept["trainings"].items():
        family, _, seed = name.rpartition("-seed")
        spots = tuple(Spot(step, error) for step, error, _ in training["step, error, loss"])
        lines.append(ChartLine(f"{FAMILIES[family]} {seed}", spots))
    chart = Chart(
        "emergence",
        phrase(en="Alignment error of attention during training, %", ko="학습하는 동안 어텐션의 정렬 오류율, %"),
        tuple(lines),
        Scale(),
        phrase(en="optimizer steps", ko="학습 스텝"),
        across=Scale(None, max(spot.x for line in lines for spot in line.spots), "number"),
    )
    return chart_svg(chart, Signs([line.name for line in lines]), lang)


if __name__ == "__main__":
    if sys.argv[1:]:
        KEPT.write_text(json.dumps(collect(Path(sys.argv[1]))).replace("}, ", "},\n") + "\n", encoding="utf-8")
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    print(f"diagonal: {100 * kept['diagonal']:.1f} %\n\n| run | better than the diagonal from | at the end, % | loss |")
    print("| --- | ---: | ---: | ---: |")
    for name, training in kept["trainings"].items():
        points = training["step, error, loss"]
        first = next((str(step) for step, error, _ in points if error < kept["diagonal"]), "never")
        print(f"| {name} | {first} | {100 * points[-1][1]:.1f} | {points[-1][2]:.2f} |")
    for lang, suffix in (("en", ""), ("ko", ".ko")):
        (IMAGES / f"emergence{suffix}.svg").write_text(draw(kept, lang), encoding="utf-8")
