"""Interrupts, which are Ctrl-C and SIGTERM: none is lost, the first may ask, the second does what it does elsewhere."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_IMPORTING = "<frozen importlib._bootstrap"
_SECONDS = 0.02


class Heard:
    """Does what an interrupt is to do; within an import only at its end, or at the second signal.

    What a library runs while it is imported may swallow every exception or turn it into another; what Python itself
    runs there, the callback that drops a module's lock, prints it and goes on.

    Args:
        do: raise `KeyboardInterrupt`, or note that it was asked for.
    """

    def __init__(self, do: Callable[[], None]) -> None:
        self._do, self._around = do, _imports(sys._getframe())
        self._is_waiting = self._is_again = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        is_again, self._is_again = self._is_again, False
        if _imports(frame) <= self._around or (self._is_waiting and not is_again):
            self._is_waiting = False
            self._do()
            return
        self._is_waiting = True
        threading.Thread(target=self._come_again, args=(signal.Signals(number),), daemon=True).start()

    def _come_again(self, number: signal.Signals) -> None:
        time.sleep(_SECONDS)
        if self._is_waiting:
            self._is_again = True
            _thread.interrupt_main(number)


def _imports(frame: FrameType | None) -> int:
    """Count the frames of imports that have not ended."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith(_IMPORTING)
        frame = frame.f_back
    return count


@contextmanager
def first_interrupt(asked: Callable[[], None]) -> Iterator[None]:
    """Let the first interrupt ask, for a while, and the second do what it does elsewhere.

    A signal that this process ignores, as under ``nohup``, stays ignored. Outside the main thread, which alone hears
    signals, nothing changes.

    Args:
        asked: called at the first one, in the middle of anything but an import.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [one for one in SIGNALS if signal.getsignal(one) not in (signal.SIG_IGN, None)]

    def ask() -> None:
        give_back()
        asked()

    def give_back() -> None:
        for one, handler in before.items():
            signal.signal(one, handler)

    handle = Heard(ask)
    before = {one: signal.signal(one, handle) for one in heard}
    try:
        yield
    finally:
        give_back()
