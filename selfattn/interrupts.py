"""Handle interrupts (Ctrl-C and SIGTERM): none is lost, the first may request a stop, the second acts as usual."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_IMPORTING = "<frozen importlib._bootstrap"
_SECONDS = 0.02


class SignalHandler:
    """A signal handler that acts at once, but inside an import only at its end, or at the second signal.

    Code that a library runs while it is imported may swallow exceptions or turn them into others.

    Args:
        action: raises `KeyboardInterrupt`, or notes the request.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        self._action, self._depth = action, _imports(sys._getframe())
        self._is_waiting = self._is_retry = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        is_retry, self._is_retry = self._is_retry, False
        if _imports(frame) <= self._depth or (self._is_waiting and not is_retry):
            self._is_waiting = False
            self._action()
            return
        self._is_waiting = True
        threading.Timer(_SECONDS, self._retry, args=(signal.Signals(number),)).start()

    def _retry(self, number: signal.Signals) -> None:
        if self._is_waiting:
            self._is_retry = True
            _thread.interrupt_main(number)


def _imports(frame: FrameType | None) -> int:
    """Count the frames of imports that have not ended."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith(_IMPORTING)
        frame = frame.f_back
    return count


@contextmanager
def first_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Call an action at the first interrupt inside a ``with`` block; the second one acts as usual.

    A signal that this process ignores, as under ``nohup``, stays ignored. Outside the main thread nothing changes.

    Args:
        action: called at the first interrupt, anywhere but in an import.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def act() -> None:
        restore()
        action()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    handler = SignalHandler(act)
    active = [number for number in SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handler) for number in active}
    try:
        yield
    finally:
        restore()
