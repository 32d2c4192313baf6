"""Several processes at once: trainings side by side, a busy machine, two that train one model; and the start of one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from tempfile import TemporaryDirectory

import torch

from benchmarks import training
from benchmarks.measure import ROOT, Bench, Row, Worker, peak
from selfattn.data.batches import stream_batches
from selfattn.data.pairs import Example
from selfattn.distributed import Processes
from selfattn.training.config import TrainingConfig
from selfattn.training.step import Stepper, make_optimizer, take_steps
from selfattn.training.weights import Replica

CORES = os.cpu_count() or 1


def together(workers: Sequence[Worker], steps: int) -> float:
    """Let workers make steps at once; return how long the slowest takes."""
    for worker in workers:
        worker.begin(steps)
    return max(worker.seconds() for worker in workers)


def taken(bench: Bench, ways: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(bench.turns):
        for name, way in ways.items():
            found[name].append(way())
    return found


def side_by_side(bench: Bench, name: str, steps: int) -> Row:
    """Two trainings at once with a thread each, beside one after the other."""
    make = f"training.dates_step({name!r})"
    one, other, wide = Worker(make, 1), Worker(make, 1), Worker(make, 2)
    workers = one, other, wide
    try:
        for worker in workers:
            worker.ready()
        ways = {
            "two at once, a thread each": lambda: together((one, other), steps),
            "one after the other, a thread each": lambda: together((one,), steps) + together((other,), steps),
            "one after the other, two threads": lambda: (
                2 * 10 * together((wide,), max(1, steps // 10))
            ),  # may be very slow
        }
        goal = 1.7 if CORES > 1 else None
        title = f"two trainings of the dates' {name}, {steps} steps each"
        after = "one after the other, a thread each"  # two threads on one training are another way to use two cores
        return Row(title, taken(bench, ways), goal=goal, clock="wall", against=after)
    finally:
        for worker in workers:
            worker.close()


def busy(bench: Bench, steps: int) -> Row:
    """A training beside two loops that keep the processor busy."""
    one, wide = (Worker("training.dates_step()", threads) for threads in (1, 2))
    try:
        one.ready(), wide.ready()

        def disturbed(worker: Worker, steps: int) -> float:
            loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
            try:
                return together((worker,), steps)
            finally:
                for loop in loops:
                    loop.kill(), loop.wait()

        ways = {
            "beside two busy loops, a thread": lambda: disturbed(one, steps),
            "alone, a thread": lambda: together((one,), steps),
        }
        row = Row(f"{steps} steps of the dates' Transformer on a busy machine", taken(bench, ways), clock="wall")
        row.goal = 0.8 * min(1.0, CORES / 3)  # a fair share of the cores among three
        row.taken["beside two busy loops, two threads"] = [
            10 * disturbed(wide, max(1, steps // 10)) for _ in range(bench.turns)
        ]
        return row
    finally:
        one.close(), wide.close()


def replica_step() -> training.Step:
    """A step of the small translation Transformer by the processes that the environment names."""
    processes = Processes.join(torch.device("cpu"))
    config = TrainingConfig(batch_size=training.ROWS, label_smoothing=training.SMOOTHING)
    model = training.build(training.tiny(), vocab_size=training.VOCABULARY, pad_id=0, seed=0).train()
    stepper = Stepper(Replica(model, processes), make_optimizer(model, config), config, torch.Generator())
    batch = training.drawn(training.ROWS, training.LENGTH, training.LENGTH, training.VOCABULARY)
    steps = take_steps(stepper, repeat([batch]), total_steps=100_000, first=1000)
    return lambda: next(steps)


def data_parallel(bench: Bench, steps: int = 2) -> Row:
    """Two processes that train one model together, beside one."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29_000 + os.getpid() % 1000), "WORLD_SIZE": "2"}
    make = "processes.replica_step()"
    both = [Worker(make, 1, RANK=str(rank), LOCAL_RANK=str(rank), **place) for rank in range(2)]
    alone = Worker(make, 1)
    try:
        for worker in (*both, alone):
            worker.ready()
        ways = {"two processes": lambda: together(both, steps), "one process": lambda: together((alone,), steps)}
        title = f"{steps} steps of the small translation Transformer by two processes"
        return Row(title, taken(bench, ways), goal=1.7 if CORES > 1 else None, clock="wall")
    finally:
        for worker in (*both, alone):
            worker.close()


def stream_pass(pairs: int) -> None:
    """Make batches of a stream of pairs, with a step now and then, for its memory."""
    step = training.dates_step()
    read = (Example([4 + place % 50, 5, 2], [6, 4 + place % 40, 2]) for place in range(pairs))
    cut = stream_batches(read, batch_size=64, generator=torch.Generator().manual_seed(0))
    for number, _ in enumerate(cut):
        if number % 10_000 == 0:
            step()


def command(*arguments: str) -> Callable[[], float]:
    """Run Python with arguments; how long that takes."""

    def run() -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=ROOT)
        return time.perf_counter() - started

    return run


def rows(bench: Bench) -> Iterator[Row]:
    ways = {
        "selfattn --help": command("-m", "selfattn.cli", "--help"),
        "import torch": command("-c", "import torch"),
        "import selfattn": command("-c", "import selfattn"),
        "python alone": command("-c", "pass"),
    }
    yield Row("start", taken(bench, ways), clock="wall")
    if bench.device == "cpu":
        for name, steps in (("transformer", 40), ("rnn-attention", 40)):
            yield side_by_side(bench, name, steps if bench.quick else 10 * steps)
        yield busy(bench, 40 if bench.quick else 400)
        yield data_parallel(bench)
        many = 1_000_000 if bench.quick else 10_000_000
        held = {f"{n:,} pairs": [peak("processes", f"stream_pass({n})")] for n in (many, 100_000)}
        yield Row("memory of a training from a stream of pairs", held, unit="MB", goal=0.95)
    if not bench.quick:
        with TemporaryDirectory() as folder:
            compare = ("-m", "selfattn.cli", "compare", "dates", "--out")
            ways = {
                "24 trainings, the default": command(*compare, f"{folder}/default"),
                "24 trainings, --jobs 1": command(*compare, f"{folder}/alone", "--jobs", "1"),
                "12 trainings, --budgets 0.4": command(*compare, f"{folder}/one", "--budgets", "0.4"),
            }
            yield Row("selfattn compare dates", {name: [way()] for name, way in ways.items()}, clock="wall")
