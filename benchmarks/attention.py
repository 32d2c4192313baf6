"""Time the attention core's two paths, the fused kernel and plain products, forward and backward, by turns.

`python benchmarks/attention.py` prints a table; nothing is written. `attend` takes the fused path but where weights
are asked for, and where a CPU computes gradients in bfloat16.
"""

from __future__ import annotations

import time
from functools import partial

import torch
from by_turns import by_turns
from torch.nn import functional

PAIRS, REPEATS = 7, 5
SHAPES = ((256, 4, 16, 32), (64, 4, 64, 32), (16, 8, 256, 64))


def plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    return scores.float().softmax(dim=-1).to(value.dtype) @ value


def fused(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, value)


def milliseconds(path: object, inputs: list[torch.Tensor]) -> float:
    assert callable(path)
    started = time.perf_counter()
    for _ in range(REPEATS):
        torch.autograd.grad(path(*inputs).sum(), inputs)
    return 1000 * (time.perf_counter() - started) / REPEATS


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {PAIRS} pairs by turns")
    print("| b h i e | dtype | fused kernel, ms | plain products, ms | ratio |\n| --- | --- | ---: | ---: | ---: |")
    for shape in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            inputs = [torch.randn(shape).to(dtype).requires_grad_() for _ in range(3)]
            ways = (partial(milliseconds, fused, inputs), partial(milliseconds, plain, inputs))
            first, second, ratio = by_turns(*ways, pairs=PAIRS)
            print(f"| {' '.join(map(str, shape))} | {str(dtype)[6:]} | {first:.2f} | {second:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
