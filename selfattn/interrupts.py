"""Handle interrupts (Ctrl-C and SIGTERM): the first may request a stop, the second acts as usual."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def first_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Call an action at the first interrupt inside a ``with`` block; the second one acts as usual.

    A signal that this process ignores, as under ``nohup``, stays ignored. Outside the main thread nothing changes.

    Args:
        action: called at the first interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        restore()
        action()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    active = [number for number in SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handle) for number in active}
    try:
        yield
    finally:
        restore()
