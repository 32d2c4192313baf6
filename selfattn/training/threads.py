"""How many threads a training on a CPU computes with: one, unless more are clearly faster.

Models of a few million weights gain little from a second thread, and on a machine with other work they lose much by it:
at every small operation the threads wait for the one that does not run.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from selfattn.data.batches import Batch
from selfattn.models.protocol import Seq2Seq
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.parallel import Replica
from selfattn.training.optim.optimizer import make_optimizer
from selfattn.training.step import Stepper

FASTER = 1.3
"""How many times as fast a step has to be with what is taken in place of one thread and 32 bits."""
_TURNS = 3


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch compute with so many threads, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def step_seconds(model: Seq2Seq, group: Sequence[Batch], ways: Sequence[tuple[int, TrainingConfig]]) -> list[float]:
    """Time some steps of a copy of a model by turns; return the median seconds of a step in each way.

    Args:
        model: on the CPU; it stays as it is, and so does the random state.
        group: the batches of a step.
        ways: threads, and settings of the training.
    """
    model = copy.deepcopy(model).train()
    steppers = [Stepper(Replica(model), make_optimizer(model, config), config, torch.Generator()) for _, config in ways]
    taken: list[list[float]] = [[] for _ in ways]
    with torch.random.fork_rng(devices=[]):
        for _ in range(1 + _TURNS):
            for (count, _), stepper, own in zip(ways, steppers, taken, strict=True):
                with threads(count):
                    started = time.perf_counter()
                    stepper.step(group, 1, total_steps=10**9, epoch=0)  # within a warm-up that leaves the weights
                    own.append(time.perf_counter() - started)
    return [statistics.median(own[1:]) for own in taken]


def faster_threads(model: Seq2Seq, group: Sequence[Batch], config: TrainingConfig, *, most: int) -> int:
    """Time some steps with one thread and with the most; return which it is to be.

    Args:
        model: see :func:`step_seconds`.
        group: likewise.
        config: of the training.
        most: threads; with 1 nothing is timed.
    """
    if most == 1:
        return 1
    alone, together = step_seconds(model, group, [(1, config), (most, config)])
    return most if alone > FASTER * together else 1
