"""Interrupts, which are Ctrl-C and SIGTERM: the first asks, the second does what it does elsewhere."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from selfattn.training.distributed.launch import is_main_process
from selfattn.training.observer import Observer, StepReport

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def first_interrupt(asked: Callable[[], None]) -> Iterator[None]:
    """Let the first interrupt ask, for a while, and the second do what it does elsewhere.

    A signal that this process ignores, as under ``nohup``, stays ignored. Outside the main thread, which alone hears
    signals, nothing changes.

    Args:
        asked: called at the first one, in the middle of anything.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [one for one in SIGNALS if signal.getsignal(one) not in (signal.SIG_IGN, None)]

    def handle(number: int, frame: FrameType | None) -> None:
        give_back()
        asked()

    def give_back() -> None:
        for one, handler in before.items():
            signal.signal(one, handler)

    before = {one: signal.signal(one, handle) for one in heard}
    try:
        yield
    finally:
        give_back()


class StopAtStep(Observer):
    """Stops a training when the user asks for it: at the end of its step, when everything can be saved.

    Of several processes the first one stops them all; the others only hear that they are not to stop at once.
    """

    def __init__(self) -> None:
        self.is_asked, self.has_begun = False, not is_main_process()

    def ask(self) -> None:
        """Ask for it.

        Raises:
            KeyboardInterrupt: there has been no step yet that could be saved.
        """
        if not self.has_begun:
            raise KeyboardInterrupt
        self.is_asked = True
        if is_main_process():
            with suppress(OSError):  # not by `print`, which may be what was interrupted
                os.write(2, b"stopping: this step comes to its end and is saved; once more stops at once\n")

    def started(self, epochs: int | None, steps: int) -> None:
        """From now on there are steps to be saved."""
        self.has_begun = True

    def stepped(self, report: StepReport) -> None:
        """Stop here where that was asked for.

        Raises:
            KeyboardInterrupt: it was.
        """
        if self.is_asked:
            raise KeyboardInterrupt
