"""What concerns the process: interrupts, the collector of cycles, free memory.

Of Ctrl-C and SIGTERM the first may request a stop, the second acts as usual. Long computations call :func:`poll` at
each of their steps, so that a requested stop does not wait for their end.
"""

import ctypes
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_check: ContextVar[Callable[[], bool] | None] = ContextVar("check", default=None)


class Stopped(KeyboardInterrupt):
    """A computation was left at a step, by :func:`poll`."""


@contextmanager
def polled(is_requested: Callable[[], bool]) -> Iterator[None]:
    """Let :func:`poll` stop what is computed inside a ``with`` block.

    Args:
        is_requested: returns whether a stop is requested; called often.

    Example:
        >>> try:
        ...     with polled(lambda: True):
        ...         poll()
        ... except Stopped:
        ...     print("stopped")
        stopped
    """
    token = _check.set(is_requested)
    try:
        yield
    finally:
        _check.reset(token)


def poll() -> None:
    """Stop here if requested; nothing outside :func:`polled`.

    Raises:
        Stopped: a stop is requested.
    """
    is_requested = _check.get()
    if is_requested is not None and is_requested():
        raise Stopped


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


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the collector of cycles inside a ``with`` block, or as a decorator, during a function.

    For code that makes millions of objects and no cycles: the collector would look through all of them again and again.

    Example:
        >>> with paused_collector():
        ...     gc.isenabled()
        False
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def give_back_memory() -> None:
    """Give free memory back to the system where the C library would keep it (glibc); elsewhere do nothing.

    For a place between two kinds of work: what one has freed lies in pieces that the other may not fit into.

    Example:
        >>> give_back_memory()
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
