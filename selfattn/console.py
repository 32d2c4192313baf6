"""How far some work is: a bar on the terminal of the command line, or a line every 30 seconds."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from selfattn.errors import LINES, say
from selfattn.processes import polling

T = TypeVar("T")

EVERY = 30.0
"""Seconds between two lines about the progress of work where there is no bar."""
_POLL = 256  # items between two looks at the clock


def has_terminal() -> bool:
    """Whether the command line runs and standard error is a terminal."""
    return LINES.is_command_line and sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Tell how far some work is: by a bar from the first second, or without a terminal by a line every 30 seconds.

    Args:
        label: the work and its items, such as ``"a.tsv: pairs"``.
        total: number of items, where it is known.

    Returns:
        A function that takes the number of items done so far.
    """
    of_total = "" if total is None else f" of {total:,}"
    if not has_terminal():
        last = time.monotonic()

        def tell(count: int) -> None:
            nonlocal last
            if time.monotonic() - last >= EVERY:
                last = time.monotonic()
                say(f"{label}: {count:,}{of_total} so far")

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}  {task.completed:,.0f}"), BarColumn(bar_width=16), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.update(task, completed=count)


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """Tell that work goes on whose items cannot be counted, as :func:`progress` does for those that can.

    Args:
        label: the work, such as ``"learning the vocabulary"``.
    """
    if has_terminal():
        with progress(label):
            yield
        return
    started = time.monotonic()
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(EVERY):
            say(f"{label}: {time.monotonic() - started:.0f} s so far")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def counting(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Iterate over items and tell how many there were, as :func:`progress` does.

    Example:
        >>> list(counting("ab", "letters"))
        ['a', 'b']
    """
    with progress(label, total) as tell:
        for number, item in enumerate(items):
            if number % _POLL == 0:
                tell(number)
            yield item


@contextmanager
def counting_steps(label: str) -> Iterator[None]:
    """Tell how many steps of decoding were computed inside a ``with`` block, as :func:`progress` does.

    Args:
        label: the work, such as ``"evaluate"``.
    """
    steps = 0
    with progress(f"{label}: decoding steps") as tell:

        def count() -> bool:
            nonlocal steps
            steps += 1
            tell(steps)
            return False  # no stop is requested

        with polling(count):
            yield
