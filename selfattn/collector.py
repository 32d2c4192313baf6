"""Python's collector of cycles, paused where many objects are made, and memory that is free given back."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress


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
