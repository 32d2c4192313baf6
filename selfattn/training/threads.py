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
"""How many times as fast a step has to be with all threads: they are asked of everyone else on the machine."""
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


def faster_threads(model: Seq2Seq, group: Sequence[Batch], config: TrainingConfig, *, most: int) -> int:
    """Time some steps of a copy of a model by turns, with one thread and with the most; return which it is to be.

    Args:
        model: on the CPU; it stays as it is, and so does the random state.
        group: the batches of a step.
        config: of the training.
        most: threads; with 1 nothing is timed.
    """
    if most == 1:
        return 1
    model = copy.deepcopy(model).train()
    stepper = Stepper(Replica(model), make_optimizer(model, config), config, torch.Generator())
    taken: dict[int, list[float]] = {1: [], most: []}
    with torch.random.fork_rng(devices=[]):
        for _ in range(1 + _TURNS):
            for count, own in taken.items():
                with threads(count):
                    started = time.perf_counter()
                    stepper.step(group, 1, total_steps=10**9, epoch=0)  # within a warm-up that leaves the weights
                    own.append(time.perf_counter() - started)
    alone, together = (statistics.median(own[1:]) for own in taken.values())
    return most if alone > FASTER * together else 1
