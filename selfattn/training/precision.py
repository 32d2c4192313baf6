"""In how many bits a training on a CPU computes: 32, unless 16 are clearly faster, as on processors made for them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import torch

from selfattn.data.batches import Batch
from selfattn.models.protocol import Seq2Seq
from selfattn.training.config import Precision, TrainingConfig
from selfattn.training.threads import FASTER, step_seconds

_SIZE, _PRODUCTS = 256, 10


@cache
def multiplies_in_bfloat16() -> bool:
    """Whether this CPU's matrix products are clearly faster in bfloat16: some have it, and are slower with it."""
    least: list[float] = []
    for dtype in (torch.float32, torch.bfloat16):
        square = torch.ones(_SIZE, _SIZE, dtype=dtype)
        times: list[float] = []
        for _ in range(_PRODUCTS):
            started = time.perf_counter()
            torch.mm(square, square)
            times.append(time.perf_counter() - started)
        least.append(min(times))
    return least[0] > FASTER * least[1]


def faster_precision(model: Seq2Seq, group: Sequence[Batch], config: TrainingConfig) -> Precision:
    """Time some steps of a training in float32 and in bfloat16, by as many threads as there are now.

    Args:
        model: see :func:`~selfattn.training.threads.step_seconds`.
        group: likewise.
        config: of the training.

    Returns:
        bfloat16 where its steps are clearly faster, else float32. Where the processor is not made for it nothing is
        timed, nor is a model that may learn less in it: an RNN carries its state through all tokens.
    """
    if not (model.trains_in_bfloat16 and multiplies_in_bfloat16()):
        return "float32"
    count, low = torch.get_num_threads(), replace(config, precision="bfloat16")
    full, half = step_seconds(model, group, [(count, replace(config, precision="float32")), (count, low)])
    return "bfloat16" if full > FASTER * half else "float32"
