"""The experiment of the book's chapter 7: sums of two numbers, written `864+394_1258`, and reversed input.

- `python docs/class/addition.py addition.txt` writes 50,000 different sums.
- `selfattn --plugin docs/class/addition.py ...` knows the preset `rnn-reversed`: `rnn-plain` that reads its input from
  the end.
- `python docs/class/addition.py DIRECTORY` draws the learning curves of a comparison, `DIRECTORY/curves.svg`.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from selfattn import register
from selfattn.models.families import EncoderDecoderConfig, Preset, RNNDecoderConfig, RNNEncoderConfig
from selfattn.report.blocks import Chart, ChartLine, Spot
from selfattn.report.numbers import Scale
from selfattn.report.pictures import Signs
from selfattn.report.write import chart_svg
from selfattn.results.record import read_record
from selfattn.words.messages import phrase

WIDTHS = (7, 4)  # characters of a question, such as "864+394", and of an answer; shorter ones end in spaces

BACKWARD = EncoderDecoderConfig(
    encoder=RNNEncoderConfig(hidden_dim=131, direction="backward"),
    decoder=RNNDecoderConfig(hidden_dim=131, attention="none"),
)
register.preset("rnn-reversed")(
    Preset("rnn-plain that reads its input from the end", "Sutskever et al. 2014", lambda: BACKWARD, attention=False)
)


def sums(count: int, seed: int = 0) -> list[str]:
    """Return different sums of two numbers below 1,000, one a line, in the layout of the book."""
    chance = random.Random(seed)
    drawn: dict[str, int] = {}
    while len(drawn) < count:
        first, second = (chance.randrange(10 ** chance.randint(1, 3)) for _ in range(2))
        drawn[f"{first}+{second}"] = first + second
    return [f"{question:{WIDTHS[0]}}_{answer:<{WIDTHS[1]}}" for question, answer in drawn.items()]


def draw(comparison: Path, lang: str = "en") -> str:
    """Return the learning curves of a comparison as SVG: exact match on validation sums after each epoch."""
    record = read_record(comparison / "results.json")
    lines = [
        ChartLine(model.name, tuple(Spot(point.epoch, point.valid) for point in model.curves[0].points if point.valid))
        for model in record.models
    ]
    epochs = max(spot.x for line in lines for spot in line.spots)
    caption = phrase(en="Exact match on validation sums, %", ko="검증 덧셈 정답률, %")
    unit = phrase(en="epochs", ko="에포크")
    chart = Chart("curves", caption, tuple(lines), Scale(), unit, across=Scale(None, epochs, "number"))
    return chart_svg(chart, Signs([line.name for line in lines]), lang)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    if path.is_dir():
        (path / "curves.svg").write_text(draw(path), encoding="utf-8")
    else:
        path.write_text("\n".join(sums(50_000)) + "\n", encoding="utf-8")
