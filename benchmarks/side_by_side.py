"""Why two trainings side by side take more than half of the time of one after the other.

``python -m benchmarks.side_by_side``; docs/benchmarks.md, "Two at once".

Each kind of work is timed alone, and then twice at once in two processes on two cores. The table has the time of both
at once over that of one after the other: 0.5 is a second core that is a core of its own, 1.0 is no gain. The first
work uses the arithmetic of a core alone; the others use its caches and the memory more and more. What the arithmetic
alone loses, the machine takes away: virtual cores that are two threads of one core, or a clock that falls.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median

TURNS = 5


def _counting() -> Callable[[], object]:
    """Return a loop over whole numbers, which needs no memory."""
    return lambda: sum(number & 3 for number in range(1_000_000))


def _products(size: int, times: int) -> Callable[[], object]:
    """Return matrix products of one size in float32."""
    import torch

    left = torch.rand(size, size)
    right = torch.rand(size, size)

    def multiply() -> None:
        for _ in range(times):
            left @ right

    return multiply


def _copying() -> Callable[[], object]:
    """Return a copy of 256 MB, which no cache holds."""
    import torch

    source = torch.rand(64_000_000)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _training(model: str, batch_size: int) -> Callable[[], object]:
    """Return 10 steps of a training on dates."""
    from selfattn.data.batches import collate
    from selfattn.data.pairs import Example
    from selfattn.models.build import build
    from selfattn.streams import generator
    from selfattn.training.config import TrainingConfig
    from selfattn.training.step import Stepper, make_optimizer, take_steps
    from selfattn.training.weights import Replica

    config = TrainingConfig()
    network = build(model, vocab_size=64, pad_id=0, seed=0).train()
    stepper = Stepper(Replica(network), make_optimizer(network, config), config, generator(0, "coins"))
    examples = [Example([4 + place % 60 for place in range(20)], [4 + place % 60 for place in range(11)])] * batch_size
    batch = collate(examples, 0, 1, list(range(batch_size)))
    return lambda: list(take_steps(stepper, [[batch]] * 10, total_steps=10_000))


WORKS: dict[str, tuple[Callable[..., Callable[[], object]], tuple[object, ...]]] = {
    "counting, no memory": (_counting, ()),
    "products of 64 x 64 (first cache)": (_products, (64, 5_000)),
    "products of 1,024 x 1,024 (second cache)": (_products, (1024, 4)),
    "copying 256 MB (memory)": (_copying, ()),
    "training, rnn-attention, batch 8": (_training, ("rnn-attention", 8)),
    "training, transformer, batch 8": (_training, ("transformer", 8)),
    "training, rnn-attention, batch 64": (_training, ("rnn-attention", 64)),
    "training, transformer, batch 64": (_training, ("transformer", 64)),
}


def _worker(core: int, commands: Connection) -> None:
    """Do the work that is named on the pipe, and answer with its wall time."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    import torch

    torch.set_num_threads(1)
    ready = {}
    while name := commands.recv():
        if name not in ready:
            make, arguments = WORKS[name]
            ready[name] = make(*arguments)
            ready[name]()
        started = time.perf_counter()
        ready[name]()
        commands.send(time.perf_counter() - started)


def share(workers: list[Connection], name: str) -> float:
    """Return the time of two at once over that of one after the other: the median of several turns."""
    shares = []
    for turn in range(TURNS + 1):
        alone = 0.0
        for worker in workers:
            worker.send(name)
            alone += worker.recv()
        for worker in workers:
            worker.send(name)
        together = max(worker.recv() for worker in workers)
        if turn:  # the first one warms up
            shares.append(together / alone)
    return median(shares)


def main() -> None:
    """Print the table."""
    context = multiprocessing.get_context("spawn")
    workers = []
    for core in range(2):
        here, there = context.Pipe()
        context.Process(target=_worker, args=(core, there), daemon=True).start()
        workers.append(here)
    for name in WORKS:
        print(f"{name:42}{share(workers, name):6.2f}", flush=True)
    for worker in workers:
        worker.send("")


if __name__ == "__main__":
    main()
