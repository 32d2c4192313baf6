"""Python's collector of cycles, paused where many objects are made."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
