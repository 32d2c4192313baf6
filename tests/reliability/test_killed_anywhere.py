"""Killed with SIGKILL at any moment, and gone on with, a training or a comparison ends as if never killed.

A server that has loaded the program forks every process that is to be killed, so that moments fall on the work and not
on imports, and a checkpoint is written after every step, so that many fall on one that is half written.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
import training_parts as parts

LIMIT = 300.0
_OF_TIME = ("command", "commit", "created", "run_bytes", "seconds", "timing")  # when and where, and how fast


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Start processes that have the program loaded."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["training_parts", "selfattn.comparison.compare"])
    with pytest.MonkeyPatch.context() as patch:  # the server of Python 3.11 is not told of this process's paths
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("OMP_NUM_THREADS", "1")
        forkserver.ensure_running()
    return found


def killed(processes: ForkServerContext, after: float | None, *arguments: Any) -> tuple[bool, float]:
    """Work in a process of its own, killed after some seconds; say whether it was, and how long it took."""
    process = processes.Process(target=arguments[0], args=arguments[1:])
    process.start()
    begun = time.monotonic()
    process.join(LIMIT if after is None else after)
    lasted = time.monotonic() - begun
    process.kill()
    process.join(LIMIT)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0, lasted


def kill_and_go_on(
    processes: ForkServerContext, count: int, work: Callable[..., None], of: Callable[[Path], Any], folder: Path
) -> None:
    """Kill a piece of work at so many moments, each time at one, and hold what comes of it against the whole."""
    assert not killed(processes, None, work, folder / "whole")[0]
    _, lasts = killed(processes, None, work, folder / "again")  # the first one found nothing in the disk's cache
    whole = of(folder / "whole")
    assert of(folder / "again") == whole
    seed = random.SystemRandom().randrange(2**32)
    print(f"moments of the kills: random.Random({seed})")  # shown when the test fails
    chance, died, number = random.Random(seed), 0, 0
    while died < count:
        number += 1
        out, moment = folder / str(number), chance.uniform(0, lasts)
        was_killed, _ = killed(processes, moment, work, out)
        died += was_killed
        if was_killed:
            assert not killed(processes, None, work, out)[0]
        assert of(out) == whole, f"killed after {moment:.3f} s of {lasts:.3f} s"
        assert not list(out.rglob(".*.tmp"))
    print(f"{died} of {died} kills at moments of {lasts:.2f} s: the same")


@pytest.mark.parametrize("count", [3, pytest.param(50, marks=pytest.mark.reliability)])
def test_a_training(processes: ForkServerContext, tmp_path: Path, count: int) -> None:
    kill_and_go_on(processes, count, parts.train_to_the_end, parts.outcome, tmp_path)


def report_of(out: Path) -> dict[str, Any]:
    """Everything that a comparison came to, but for when and how fast."""
    runs = {run.name: parts.outcome(run) for run in (out / "runs").iterdir()}
    answers = {label: (out / "runs" / label / "test.jsonl").read_bytes() for label in runs}
    return {"runs": runs, "answers": answers, "record": _without_times(json.loads((out / "results.json").read_text()))}


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(item) for name, item in value.items() if name not in _OF_TIME}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


@pytest.mark.reliability
@pytest.mark.parametrize(("jobs", "count"), [(1, 12), (2, 6)])
def test_a_comparison(processes: ForkServerContext, tmp_path: Path, jobs: int, count: int) -> None:
    kill_and_go_on(processes, count, partial(parts.compare_to_the_end, jobs=jobs), report_of, tmp_path)
