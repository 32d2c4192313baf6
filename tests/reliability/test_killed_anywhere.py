"""Killed with SIGKILL at any moment, and gone on with, a training or a comparison ends as if never killed.

Half of the moments are any time, the others those at which a file is put into place: a checkpoint, metrics, weights, a
record, a report. A server that has loaded the program forks every process that is to be killed, so that moments fall on
the work and not on imports; a checkpoint is written after every step.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import training_parts as parts

from selfattn.files import HALF_WRITTEN

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

LIMIT = 300.0
_OF_TIME = ("command", "commit", "created", "run_bytes", "seconds", "timing", "when", "previous")


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
    assert not killed(processes, None, parts.die_at_write, 0, work, folder / "whole")[0]
    whole, writes = of(folder / "whole"), int((folder / "whole.writes").read_text())
    _, lasts = killed(processes, None, work, folder / "again")  # the first one found nothing in the disk's cache
    assert of(folder / "again") == whole
    seed = random.SystemRandom().randrange(2**32)
    print(f"moments of the kills: random.Random({seed})")  # shown when the test fails
    chance, died, number = random.Random(seed), 0, 0
    while died < count:
        number += 1
        out = folder / str(number)
        if died % 2 == 0:
            moment = f"at write {(place := chance.randint(1, writes))} of {writes}"
            was_killed, _ = killed(processes, None, parts.die_at_write, place, work, out)
        else:
            moment = f"after {(seconds := chance.uniform(0, lasts)):.3f} s of {lasts:.3f} s"
            was_killed, _ = killed(processes, seconds, work, out)
        died += was_killed
        if was_killed:
            assert not killed(processes, None, work, out)[0], moment
        assert of(out) == whole, f"killed {moment}"
        assert not list(folder.rglob(HALF_WRITTEN))
    print(f"{died} of {died} kills in work of {lasts:.2f} s and {writes} files: the same")


@pytest.mark.parametrize(
    "count", [pytest.param(4, marks=pytest.mark.slow), pytest.param(24, marks=pytest.mark.reliability)]
)
def test_a_training(processes: ForkServerContext, tmp_path: Path, count: int) -> None:
    kill_and_go_on(processes, count, parts.train_to_the_end, parts.outcome, tmp_path)


WORK = {
    "lengthening": (parts.lengthen_to_the_end, parts.outcome),
    "export": (parts.export_to_the_end, parts.files_of),
    "tokenizer train": (parts.train_a_tokenizer, parts.files_of),
}


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("count", [1, pytest.param(24, marks=pytest.mark.reliability)])
def test_what_ends_sooner(processes: ForkServerContext, tmp_path: Path, name: str, count: int) -> None:
    kill_and_go_on(processes, count, *WORK[name], tmp_path)


def report_of(out: Path) -> dict[str, Any]:
    """Everything that a comparison came to, but for when and how fast."""
    runs = {run.name: parts.outcome(run) for run in (out / "runs").iterdir()}
    answers = {label: (out / "runs" / label / "test.jsonl").read_bytes() for label in runs}
    record = _without_times(json.loads((out / "results.json").read_text()))
    record["plan"]["entries"].sort(key=itemgetter("run"))  # of two at once, either may be the first
    return {"runs": runs, "answers": answers, "record": record}


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(item) for name, item in value.items() if name not in _OF_TIME}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


@pytest.mark.reliability
@pytest.mark.parametrize(("jobs", "count"), [(1, 10), (2, 8)])
def test_a_comparison(processes: ForkServerContext, tmp_path: Path, jobs: int, count: int) -> None:
    kill_and_go_on(processes, count, partial(parts.compare_to_the_end, jobs=jobs), report_of, tmp_path)
