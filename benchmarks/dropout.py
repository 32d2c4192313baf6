"""Time dropout against PyTorch's: forward and backward, by turns, median of the ratio over pairs.

`python benchmarks/dropout.py` prints a table; nothing is written.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

from selfattn.layers.dropout import Dropout

PAIRS, REPEATS = 9, 20
SHAPES = ((2048, 128), (2048, 256), (4096, 512))


def milliseconds(layer: nn.Module, x: torch.Tensor) -> float:
    started = time.perf_counter()
    for _ in range(REPEATS):
        layer(x).sum().backward()
    return 1000 * (time.perf_counter() - started) / REPEATS


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, p = 0.3, float32, {PAIRS} pairs by turns")
    print("| shape | torch.nn.Dropout, ms | selfattn, ms | ratio |\n| --- | ---: | ---: | ---: |")
    for shape in SHAPES:
        x = torch.randn(shape, requires_grad=True)
        theirs, ours = nn.Dropout(0.3), Dropout(0.3)
        milliseconds(theirs, x), milliseconds(ours, x)
        pairs = [(milliseconds(theirs, x), milliseconds(ours, x)) for _ in range(PAIRS)]
        first, second = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(one / other for one, other in pairs)
        print(f"| {shape[0]:,} x {shape[1]} | {first:.2f} | {second:.2f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
