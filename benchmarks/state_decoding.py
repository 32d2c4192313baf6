"""Time one more token after texts of several lengths, and draw it: ``python -m benchmarks.state_decoding``.

The table and the pictures are those of docs/models.md.
"""

import time
from pathlib import Path
from statistics import median

import torch

from selfattn.layers.recurrent import named_tensors
from selfattn.models.build import build
from selfattn.report.blocks import Chart, ChartLine, Spot
from selfattn.report.numbers import Scale, number_scale
from selfattn.report.pictures import Signs
from selfattn.report.write import chart_svg

MODELS = ("decoder-only", *(f"decoder-only-{kind}" for kind in ("linear", "linear-decay", "delta", "delta-hybrid")))
LENGTHS = (64, 256, 1024, 4096, 8192)
STEPS = 40
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "state-decoding"
TEXTS = {
    "": ("One more token: CPU time", "tokens read before", "milliseconds"),
    ".ko": ("토큰 하나를 더 읽는 CPU 시간", "그 전에 읽은 토큰 수", "밀리초"),
}


@torch.inference_mode()
def measured(name: str, length: int) -> tuple[float, float]:
    """Return the median CPU time of a step behind so many tokens, in milliseconds, and what is kept of them, in KiB."""
    model = build(name, vocab_size=64, seed=0).eval()
    source = torch.randint(4, 64, (1, length))
    state = model.start(model.encode(source, source > 0))
    kept = sum(tensor.nbytes for _, tensor in named_tensors(state) if tensor.is_floating_point()) / 1024
    times = []
    for _ in range(STEPS):
        started = time.process_time()
        _, state = model.step(source[:, 0], state)
        times.append(time.process_time() - started)
    return 1000 * median(times), kept


def main() -> None:
    """Print a row a model, and write the pictures."""
    torch.set_num_threads(1)
    lines = []
    for name in MODELS:
        row = [measured(name, length) for length in LENGTHS]
        print(f"{name:28}", *(f"{ms:6.2f}" for ms, _ in row), f"{row[-1][1]:10,.0f} KiB", flush=True)
        spots = tuple(Spot(x, ms) for x, (ms, _) in zip(LENGTHS, row, strict=True))
        lines.append(ChartLine(name.removeprefix("decoder-only-"), spots))
    scale = number_scale(spot.y for line in lines for spot in line.spots)
    marks = tuple((float(length), f"{length:,}") for length in LENGTHS)
    across = Scale(None, LENGTHS[-1], "number", LENGTHS[0], powers=True, marks=marks)
    for end, (caption, unit, height) in TEXTS.items():
        chart = Chart("state-decoding", caption, tuple(lines), scale, unit, across=across, height=height)
        picture = chart_svg(chart, Signs(line.name for line in lines))
        PICTURE.with_name(f"{PICTURE.name}{end}.svg").write_text(picture + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
