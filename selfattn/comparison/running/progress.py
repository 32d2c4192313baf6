"""How far the trainings of a comparison are: a file and a log for each, written where it is trained, shown where the
user is.

=========== ==================================================================================
NAME.log    what the training said: a line for each validation, and why it failed if it did
NAME.json   its :class:`Progress`, while the comparison is trained
stop        asks every training to stop at its next step
=========== ==================================================================================
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.progress import TaskID

from selfattn.codec import Plain, read, write
from selfattn.comparison.running.live import Live
from selfattn.errors import UserError
from selfattn.training.observer import Observer, StepReport

LOGS = "logs"
_WRITTEN = 0.5  # seconds from one time to the next
_NAMED = 8  # trainings that a line names


@dataclass(frozen=True)
class Progress(Plain):
    """How far a training is.

    Attributes:
        pid: of the process that does it.
        state: of the job.
        reason: why it failed.
        first: the step that it went on from.
        step: the last one.
        steps: of the whole training; 0 where that is not known yet.
        seconds: since it was begun or gone on with.
        loss: of the last step.
        speed: target tokens a second.
    """

    pid: int
    state: Literal["running", "done", "failed", "interrupted"] = "running"
    reason: str = ""
    first: int = 0
    step: int = 0
    steps: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    speed: float = 0.0

    @property
    def expected(self) -> float | None:
        """Seconds that the whole of it takes; None where nothing is known."""
        if self.state == "done":
            return self.seconds or None
        return self.seconds * self.steps / (self.step - self.first) if self.step > self.first else None


class Logs:
    """The directory of logs.

    Args:
        comparison: whose it is.
    """

    def __init__(self, comparison: Path) -> None:
        self.path = comparison / LOGS
        self.stop = self.path / "stop"

    def log(self, label: str) -> Path:
        """Return the file that keeps what a training says."""
        return self.path / f"{label}.log"

    def file(self, label: str) -> Path:
        """Return the file that keeps how far a training is."""
        return self.path / f"{label}.json"

    def read(self, label: str) -> Progress | None:
        """Say how far a training is; None where it has not begun."""
        try:
            return read(Progress, self.file(label), advice="")
        except UserError:
            return None

    def clear(self, labels: Sequence[str]) -> None:
        """Forget what is known of trainings that are to be begun or gone on with."""
        for path in (self.stop, *map(self.file, labels)):
            path.unlink(missing_ok=True)


class Reporter(Observer):
    """Writes how far a training is, and stops it where that is asked for, or where its parent process is gone.

    Args:
        logs: where to.
        label: of the training.
    """

    def __init__(self, logs: Logs, label: str) -> None:
        self.logs, self.file = logs, logs.file(label)
        self._progress, self._begun, self._parent = Progress(os.getpid()), time.monotonic(), os.getppid()
        self._written = 0.0
        self.write()

    def write(self, **changes: object) -> None:
        """Write down what has changed. A disk that does not take it stops no training."""
        self._written = time.monotonic()
        self._progress = replace(self._progress, seconds=self._written - self._begun, **changes)  # type: ignore[arg-type]  # its fields
        with suppress(OSError):
            write(self.file, self._progress)

    def stepped(self, report: StepReport) -> None:
        """Write down the step, now and then.

        Raises:
            KeyboardInterrupt: the training is to stop.
        """
        if not self._progress.steps:
            self._progress = replace(self._progress, first=report.step - 1)
        elif time.monotonic() - self._written < _WRITTEN:
            return
        self.write(step=report.step, steps=report.total_steps, loss=report.loss, speed=report.tokens_per_second)
        self.check()

    def check(self) -> None:
        """Stop where that is asked for.

        Raises:
            KeyboardInterrupt: it is.
        """
        if self.logs.stop.exists() or os.getppid() != self._parent:
            raise KeyboardInterrupt


class View(Live):
    """Shows all trainings of a comparison.

    Of what a training says at its validations the last is shown when it has ended; its log has all of it.

    Args:
        logs: where the trainings write.
        labels: those that are left to do, each with its share of a whole training.
        workers: how many go on at once.
        console: where to; default standard error.
    """

    def __init__(self, logs: Logs, labels: Mapping[str, float], workers: int, console: Console | None = None) -> None:
        super().__init__(console)
        self.logs, self.labels, self.workers = logs, labels, workers
        self._read = {label: _size(logs.log(label)) for label in labels}  # what is there already was shown once
        self._last: dict[str, str] = {}  # what each said at its last validation
        self._failed: set[str] = set()
        self._done = 0
        self._all = self.bars.add_task("all trainings", total=len(labels), text="")
        self._rows: dict[str, TaskID] = {}

    def look(self) -> None:
        """Show what logs and files say by now."""
        known = {label: found for label in self.labels if (found := self.logs.read(label))}
        for label in self.labels:
            self._show_log(label)
        for label, found in known.items():
            self._show_row(label, found)
            if found.state != "running" and label in self._last:
                self.say(self._last.pop(label))
        done = sum(found.state in ("done", "failed") for found in known.values())
        left = f"{done} of {len(self.labels)} done" + _about(_seconds_left(self.labels, known, self.workers))
        self.bars.update(self._all, completed=sum(map(_share, known.values())), text=left)
        if done < len(self.labels):
            now = [f"{label} {_share(found):.0%}" for label, found in known.items() if found.state == "running"]
            self.tell(f"trainings: {left}" + "; ".join(["", *now[:_NAMED]]), at_once=done > self._done)
        self._done = done

    def _show_log(self, label: str) -> None:
        with suppress(OSError), self.logs.log(label).open("rb") as file:
            file.seek(self._read[label])
            whole, newline, _ = file.read().rpartition(b"\n")
            self._read[label] += len(whole) + len(newline)
            for line in whole.decode(errors="replace").splitlines():
                if line.startswith(f"{label} "):
                    self._last[label] = line
                elif label not in self._failed:  # what follows the reason is for the log alone
                    self.say(line)
                if line.startswith(f"{label}: failed"):
                    self._failed.add(label)

    def _show_row(self, label: str, found: Progress) -> None:
        if found.state == "running":
            if label not in self._rows:
                self._rows[label] = self.bars.add_task(label, total=None, text="")
            doing = "testing" if found.step and found.step == found.steps else f"{found.speed:,.0f} tokens/s"
            self.bars.update(
                self._rows[label],
                total=found.steps or None,
                completed=found.step,
                text=f"loss {found.loss:.3f}  {doing}" if found.step else "",
            )
        elif label in self._rows:
            self.bars.remove_task(self._rows.pop(label))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _share(found: Progress) -> float:
    return 1.0 if found.state in ("done", "failed") else found.step / found.steps if found.steps else 0.0


def _seconds_left(labels: Mapping[str, float], known: Mapping[str, Progress], workers: int) -> float | None:
    """Estimate how long the rest takes: a whole training as long as others of its model, or as the mean of all."""
    times: dict[str, list[float]] = {}
    for label, found in known.items():
        if found.expected is not None:
            times.setdefault(_model(label), []).append(found.expected / labels[label])
    if not times:
        return None
    every = statistics.mean(one for own in times.values() for one in own)
    left = 0.0
    for label, size in labels.items():
        share = 1 - _share(known[label]) if label in known else 1
        left += size * share * statistics.mean(times.get(_model(label), [every]))
    return left / workers


def _model(label: str) -> str:
    return re.sub(r"-(seed|trial)\d+[^/]*$", "", label)


def _about(seconds: float | None) -> str:
    if seconds is None or seconds < 1:
        return ""
    return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"
