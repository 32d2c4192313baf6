"""Several ways of doing the same thing, timed by turns: a busy moment meets all of them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]

AT_LEAST = 0.05  # seconds a turn of one way takes; what is shorter is done several times


@dataclass
class Row:
    """One thing that was measured.

    Attributes:
        title: what it is.
        taken: for each way, ours first, what every turn took.
        unit: of what was taken; the less the better.
        goal: how many times as much as ours every other way is to take; None where nothing was aimed at.
        errors: why a way did not run, by its name.
        clock: ``wall`` or ``processor`` for times.
        against: the way that the goal speaks of; where not given, the best of the others.
    """

    title: str
    taken: dict[str, list[float]]
    unit: str = "s"
    goal: float | None = None
    errors: dict[str, str] = field(default_factory=dict)
    clock: str = ""
    against: str = ""

    @property
    def ratios(self) -> dict[str, tuple[float, float, float]]:
        """How many times as much as ours each other way took: median over the turns, lower and upper quartile."""
        if not self.taken:
            return {}
        (_, own), *others = self.taken.items()
        return {name: spread([b / a for a, b in zip(own, other, strict=True)]) for name, other in others}

    @property
    def is_reached(self) -> bool | None:
        """Whether the way that the goal speaks of takes as many times as much; None where nothing was aimed at."""
        return None if self.goal is None or self.compared is None else self.compared[0] >= self.goal

    @property
    def compared(self) -> tuple[float, float, float] | None:
        """The ratios of the way that the goal speaks of; None where there is no other way."""
        ratios = self.ratios
        return ratios.get(self.against) or min(ratios.values(), default=None)


def spread(values: list[float]) -> tuple[float, float, float]:
    """Return median, lower and upper quartile.

    Example:
        >>> spread([1.0, 2.0, 3.0, 4.0, 5.0])
        (3.0, 2.0, 4.0)
    """
    low, _, high = statistics.quantiles(values, method="inclusive") if len(values) > 1 else values * 3
    return statistics.median(values), low, high


@dataclass(frozen=True)
class Bench:
    """How to measure.

    Attributes:
        device: where models compute.
        turns: how often each way has its turn.
        quick: whether what takes long is left out.
    """

    device: str = "cpu"
    turns: int = 5
    quick: bool = True

    def row(
        self,
        title: str,
        ways: Mapping[str, Callable[[], object]],
        *,
        goal: float | None = None,
        warm_up: int = 2,
        wall: bool = False,
    ) -> Row:
        """Time ways of doing the same thing by turns; one that fails is put down with its error.

        With one thread on a CPU the time of the processor counts, which others on the machine disturb less.

        Args:
            title: what is done.
            ways: do it once; ours first.
            goal: see :class:`Row`.
            warm_up: how often each way goes before, uncounted.
            wall: whether the clock on the wall counts in any case.
        """
        by_processor = self.device == "cpu" and torch.get_num_threads() == 1 and not wall
        clock = time.process_time if by_processor else time.perf_counter
        errors: dict[str, str] = {}
        times: dict[str, int] = {}

        def once(way: Callable[[], object], repeats: int = 1) -> float:
            started = clock()
            for _ in range(repeats):
                way()
            if self.device == "cuda":
                torch.cuda.synchronize()
            return (clock() - started) / repeats

        for name, way in ways.items():
            try:
                first = [once(way) for _ in range(warm_up)]
                times[name] = max(1, round(AT_LEAST / max(1e-6, min(first, default=1.0))))
            except Exception as error:  # a peer may fail in any way
                errors[name] = told(error)
        taken: dict[str, list[float]] = {name: [] for name in times}
        for _ in range(self.turns):
            for name, repeats in times.items():
                taken[name].append(once(ways[name], repeats))
        return Row(title, taken, goal=goal, errors=errors, clock="processor" if by_processor else "wall")


def peers(makers: Mapping[str, Callable[[], Callable[[], object]]]) -> dict[str, Callable[[], object]]:
    """Make ways; one that cannot be made raises its error when it is to run."""
    made: dict[str, Callable[[], object]] = {}
    for name, maker in makers.items():
        try:
            made[name] = maker()
        except Exception as error:  # not installed, or of a version that has another interface
            made[name] = _raising(error)
    return made


def _raising(error: Exception) -> Callable[..., object]:
    def fail(*_: object) -> object:
        raise error

    return fail


def told(error: BaseException) -> str:
    """Say an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def peak(module: str, call: str) -> float:
    """Return by how many MB a call in a module of this folder raises the most memory that a fresh process has held."""
    code = (  # what the kernel calls maxrss begins with that of the process which started this one
        f"from benchmarks.{module} import *\n"
        "held = lambda: int(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0]) / 1000\n"
        f"before = held(); {call}; print(held() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return max(0.001, float(done.stdout.split()[-1]))


class Worker:
    """Another process that makes steps when it is told to, so that several can at once.

    Args:
        make: an expression for what makes a step, such as ``training.dates_step()``.
        threads: that it may use.
        environment: variables besides.
    """

    def __init__(self, make: str, threads: int, **environment: str) -> None:
        code = (
            "import sys, time; from benchmarks import training, processes\n"
            f"step = {make}\n"
            "for _ in range(3): step()\n"
            "print('ready', flush=True)\n"
            "for line in sys.stdin:\n"
            "    started = time.perf_counter()\n"
            "    for _ in range(int(line)): step()\n"
            "    print(time.perf_counter() - started, flush=True)"
        )
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
        variables = os.environ | {"OMP_NUM_THREADS": str(threads)} | environment
        self.process = subprocess.Popen([sys.executable, "-c", code], env=variables, **pipes)

    def ready(self) -> None:
        """Wait until it can begin.

        Raises:
            RuntimeError: it ended instead.
        """
        if self._line() != "ready":
            raise RuntimeError("a process of the benchmark ended before it began")

    def begin(self, steps: int) -> None:
        """Let it make steps."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()

    def seconds(self) -> float:
        """Wait until they are made, and return how long that took."""
        return float(self._line())

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()
