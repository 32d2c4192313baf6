"""How far the claims of a run are: a live bar in a terminal, a line a minute elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from threading import Event, Thread
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from selfattn.claims.units import Work
from selfattn.console import visible

_READ, _SAID = 0.5, 60.0  # seconds from one look to the next, and from one line to the next where no terminal is


class Shown:
    """Shows how far all works are. A context manager.

    Args:
        works: of the claims, whose units are counted.
    """

    def __init__(self, works: Sequence[Work]) -> None:
        self.works, self.console = works, Console(file=sys.stderr, highlight=False)
        self.total = sum(work.total for work in works)
        self._told: set[str] = set()
        self._said = time.monotonic()
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self._running, self._ended = 1, Event()
        # A thread that began before others are told to leave signals alone also is the one that hears them.
        self._thread = Thread(target=self._watch, daemon=True)
        self._bar = self._bars.add_task("claims", total=self.total, text="")

    def __enter__(self) -> Self:
        """Begin to show."""
        self._bars.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self._ended.set()
        self._thread.join()
        self._bars.stop()

    def _watch(self) -> None:
        while not self._ended.wait(_READ):
            self._look()

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        self.console.print(Text(visible(line)), soft_wrap=True)

    def ended(self, work: Work) -> None:
        """Say when a claim has come to its end."""
        name = work.claim.name
        if work.is_over and name not in self._told:
            self._told.add(name)
            seconds = sum(done.trial.seconds for done in work.done.values())
            self.say(f"{name}: {len(work.done)} units, {seconds:,.0f} s, all added up")

    def at_once(self, running: int) -> None:
        """Note how many units go on at once, for the estimate of what is left."""
        self._running = max(1, running)

    def _look(self) -> None:
        done = sum(len(work.done) + len(work.failed) for work in self.works)
        left = sum(work.expected * max(0, work.total - len(work.done) - len(work.failed)) for work in self.works)
        text = f"{done} of {self.total} units, about {left / self._running / 60:.0f} min left"
        self._bars.update(self._bar, completed=done, text=text)
        if not self.console.is_terminal and time.monotonic() - self._said > _SAID:
            self._said = time.monotonic()
            self.say(text)
