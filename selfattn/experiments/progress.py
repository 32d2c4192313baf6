"""Progress of an experiment's trials: a log and a progress file for each, and the display that reads them.

=========== =====================================================================
NAME.log    what the trial printed: a line a validation, and why it failed
NAME.json   its :class:`Progress`, while the experiment runs
stop        asks every trial to stop at its next step
=========== =====================================================================
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Literal, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from selfattn.codec import Plain, read, write
from selfattn.console import EVERY
from selfattn.errors import UserError, visible
from selfattn.training.observer import Observer, StepReport
from selfattn.words.messages import SOURCE, message

LOGS = "logs"
# Seconds.
_WRITE_EVERY = 0.5
_READ_EVERY = 0.25
_SPEED_OVER = 600.0  # seconds of which the mean speed is taken
_NAMED = 4  # running trials whose steps stand in a line


@dataclass(frozen=True)
class Progress(Plain):
    """Progress of a trial.

    Attributes:
        pid: process that runs it.
        state: of the trial.
        reason: why it failed.
        step: last step.
        steps: of the full training; 0 where unknown.
    """

    pid: int
    state: Literal["running", "done", "failed", "interrupted"] = "running"
    reason: str = ""
    step: int = 0
    steps: int = 0

    @property
    def share(self) -> float:
        """Share of the trial that is done."""
        if self.state in ("done", "failed"):
            return 1.0
        return self.step / self.steps if self.steps else 0.0


class Logs:
    """Logs and progress files of an experiment.

    Args:
        out: directory of the experiment.
    """

    def __init__(self, out: Path) -> None:
        self.path = out / LOGS
        self.stop = self.path / "stop"

    def log(self, label: str) -> Path:
        """Return the log file of a trial."""
        return self.path / f"{label}.log"

    def file(self, label: str) -> Path:
        """Return the progress file of a trial."""
        return self.path / f"{label}.json"

    def read(self, label: str) -> Progress | None:
        """Return the progress of a trial; None before it begins."""
        try:
            return read(Progress, self.file(label), advice="")
        except UserError:
            return None

    def clear(self, labels: Sequence[str]) -> None:
        """Remove the progress of trials and the request to stop."""
        for path in (self.stop, *map(self.file, labels)):
            path.unlink(missing_ok=True)


class Reporter(Observer):
    """Writes the progress of a trial, and stops it on request or when its parent process is gone.

    Args:
        logs: of the experiment.
        label: of the trial.
        is_first: whether the trial prints notes that hold for all trials.
    """

    def __init__(self, logs: Logs, label: str, *, is_first: bool = False) -> None:
        self.logs = logs
        self.label = label
        self.file = logs.file(label)
        self.is_first = is_first
        self._progress = Progress(os.getpid())
        self._parent = os.getppid()
        self._written = 0.0
        self._looked = 0.0
        self.write()

    def write(self, **changes: object) -> None:
        """Write what has changed; a full disk stops no trial."""
        self._written = time.monotonic()
        self._progress = replace(self._progress, **changes)  # type: ignore[arg-type]  # its fields
        with suppress(OSError):
            write(self.file, self._progress)

    def stepped(self, report: StepReport) -> None:
        """Write the step, at most twice a second.

        Raises:
            KeyboardInterrupt: the trial has to stop.
        """
        if self._progress.steps and time.monotonic() - self._written < _WRITE_EVERY:
            return
        self.write(step=report.step, steps=report.total_steps)
        if self._is_stopped():
            raise KeyboardInterrupt

    def requests_stop(self) -> bool:
        """Say whether the trial has to stop; look at most twice a second."""
        if time.monotonic() - self._looked < _WRITE_EVERY:
            return False
        self._looked = time.monotonic()
        return self._is_stopped()

    def _is_stopped(self) -> bool:
        return self.logs.stop.exists() or os.getppid() != self._parent


class Display:
    """Shows the progress of trials: a bar in a terminal, elsewhere a line every 30 seconds. A context manager.

    Args:
        logs: of the experiment.
        labels: trials that are left.
        console: default standard error.
        lang: language of the lines; default English.
    """

    def __init__(self, logs: Logs, labels: Sequence[str], console: Console | None = None, lang: str = SOURCE) -> None:
        self.lang = lang
        self.console = Console(file=sys.stderr, highlight=False) if console is None else console
        self.is_live = self.console.is_terminal
        columns = (BarColumn(bar_width=16), TextColumn("{task.description}"))
        self.bar = Bar(
            *columns, console=self.console, transient=True, disable=not self.is_live, speed_estimate_period=_SPEED_OVER
        )
        self.logs = logs
        self.labels = labels
        self._read = dict.fromkeys(labels, 0)
        for label in labels:
            if logs.log(label).exists():  # its lines were shown before
                self._read[label] = logs.log(label).stat().st_size
        self._last: dict[str, str] = {}  # last validation of each trial
        self._failed: set[str] = set()
        self._known: dict[str, Progress] = {}
        self._done = 0
        self._printed = time.monotonic()
        self._all = self.bar.add_task("", total=len(labels))
        self._end = Event()
        # A thread that starts before signals are blocked is the one that receives them.
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Start the display."""
        self.bar.start()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Show the last state and remove the bar."""
        self._end.set()
        self._thread.join()
        self.bar.stop()

    def _watch(self) -> None:
        while not self._end.wait(_READ_EVERY):
            self._show()
        self._show()

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(Text(visible(line)), soft_wrap=True)

    def _show(self) -> None:
        ended = {label for label, progress in self._known.items() if progress.state in ("done", "failed")}
        for label in self.labels:
            if label not in ended and (progress := self.logs.read(label)):
                self._known[label] = progress
            self._show_log(label)
        for label, progress in self._known.items():
            if progress.state != "running" and label in self._last:
                self.say(self._last.pop(label))
        done = sum(progress.state in ("done", "failed") for progress in self._known.values())
        summary = message("progress.done", done=done, count=len(self.labels)).say(self.lang)
        if seconds := self.bar.tasks[0].time_remaining:
            summary += message("progress.minutes", left=f"{max(1, seconds / 60):.0f}").say(self.lang)
        share = sum(progress.share for progress in self._known.values())
        self.bar.update(self._all, completed=share, description=summary)
        is_late = done > self._done or time.monotonic() - self._printed > EVERY
        if done < len(self.labels) and not self.is_live and is_late:
            state = "; ".join([summary, *self._running()])
            self.say(message("progress.trials", state=state).say(self.lang))
            self._printed = time.monotonic()
        self._done = done

    def _running(self) -> list[str]:
        """Return the step of each trial that runs, of the first few."""
        steps = []
        for label, progress in self._known.items():
            if progress.state == "running" and progress.steps:
                place = {"step": f"{progress.step:,}", "steps": f"{progress.steps:,}"}
                steps.append(message("progress.step", trial=label, **place).say(self.lang))
        return steps if len(steps) <= _NAMED else [*steps[:_NAMED], "..."]

    def _show_log(self, label: str) -> None:
        with suppress(OSError), self.logs.log(label).open("rb") as file:
            file.seek(self._read[label])
            lines, newline, _ = file.read().rpartition(b"\n")
            self._read[label] += len(lines) + len(newline)
            for line in lines.decode(errors="replace").splitlines():
                if line.startswith(f"{label} "):
                    self._last[label] = line
                elif label not in self._failed:  # what follows the reason stays in the log
                    self.say(line)
                if line.startswith(f"{label}: failed"):
                    self._failed.add(label)
