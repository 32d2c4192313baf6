"""Time dropout against PyTorch's: forward and backward, by turns, median of the ratio over pairs.

`python benchmarks/dropout.py` prints a table; nothing is written.
"""

from __future__ import annotations

import time
from functools import partial

import torch
from by_turns import by_turns
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
        first, second, ratio = by_turns(partial(milliseconds, theirs, x), partial(milliseconds, ours, x), pairs=PAIRS)
        print(f"| {shape[0]:,} x {shape[1]} | {first:.2f} | {second:.2f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
