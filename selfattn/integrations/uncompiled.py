"""Compiled models that run as they are written, for as long as somebody watches one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class _Stance:
    """The stance of torch's compiler, which is one for all threads: the first watch sets it, the last puts it back."""

    lock = threading.Lock()
    count = 0
    eager: Any = None


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run compiled models uncompiled within the block, in all threads.

    A compiled graph cannot say who wants its weights, and a change of that would compile it again.
    """
    with _Stance.lock:
        if _Stance.count == 0:
            _Stance.eager = torch.compiler.set_stance("force_eager")
        _Stance.count += 1
    try:
        yield
    finally:
        with _Stance.lock:
            _Stance.count -= 1
            if _Stance.count == 0:
                _Stance.eager.__exit__(None, None, None)
