"""What goes on, shown while it does: live bars in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from threading import Event, Thread
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from selfattn.console import visible

_LOOKED, _SAID = 0.25, 60.0  # seconds from one look to the next, and from one line to the next where nothing is live


class Live(ABC):
    """Looks again and again at what goes on, and shows it. A context manager.

    Args:
        console: where to; default standard error as it is now. Bars are live in a terminal, and in no notebook.
        width: of a bar, in characters.
    """

    def __init__(self, console: Console | None = None, *, width: int = 16) -> None:
        self.console = Console(file=sys.stderr, highlight=False) if console is None else console
        self.is_live = self.console.is_terminal and not self.console.is_jupyter
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=width),
            TextColumn("{task.fields[text]}"),
            console=self.console,
            transient=True,
            disable=not self.is_live,
        )
        self._ended, self._said = Event(), time.monotonic()
        # A thread that began before others are told to leave signals alone also is the one that hears them.
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Begin to look."""
        self.bars.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Look for the last time, and take the bars away."""
        self._ended.set()
        self._thread.join()
        self.bars.stop()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOKED):
            self.look()
        self.look()

    @abstractmethod
    def look(self) -> None:
        """Show how far everything is."""

    def say(self, line: str) -> None:
        """Write a line above the bars."""
        self.console.print(Text(visible(line)), soft_wrap=True)

    def tell(self, line: str, *, at_once: bool = False) -> None:
        """Write a line where no bars are live: once a minute, or at once."""
        if not self.is_live and (at_once or time.monotonic() - self._said > _SAID):
            self._said = time.monotonic()
            self.say(line)
