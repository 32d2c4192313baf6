"""Processes: interrupts, those that ``torchrun`` starts, device and threads, the collector of cycles, free memory.

Of Ctrl-C and SIGTERM the first may request a stop, the second acts as usual. Long computations call :func:`poll` at
each of their steps, so that a requested stop does not wait for their end. Imports torch only where it computes.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING

from selfattn.errors import SettingError, UserError, number_of
from selfattn.settings import shown

if TYPE_CHECKING:
    import torch

LARGE_MODEL = 10_000_000
"""Parameters from which on a model is trained with two threads."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_NEEDED = ("RANK", "MASTER_ADDR", "MASTER_PORT")  # beside WORLD_SIZE

_check: ContextVar[Callable[[], bool] | None] = ContextVar("check", default=None)


class Stopped(KeyboardInterrupt):
    """A computation was left at a step, by :func:`poll`."""


@contextmanager
def polling(is_requested: Callable[[], bool]) -> Iterator[None]:
    """Let :func:`poll` stop what is computed inside a ``with`` block.

    Args:
        is_requested: returns whether a stop is requested; called often.

    Example:
        >>> try:
        ...     with polling(lambda: True):
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
    """Stop here if requested; nothing outside :func:`polling`.

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


def is_main_process() -> bool:
    """Say whether this process writes files and messages: the first, or the only one."""
    return rank_and_size()[0] == 0


def process_count() -> int:
    """Return the number of processes that ``torchrun`` started."""
    return rank_and_size()[1]


def rank_and_size() -> tuple[int, int]:
    """Return the number of this process, counted from 0, and how many train together.

    ``WORLD_SIZE`` decides: without it, this process is the only one, whatever ``RANK`` says, which other programs set
    too.

    Raises:
        UserError: the variables are incomplete or contradict each other.
    """
    count = _number("WORLD_SIZE", 1)
    if count == 1 and not os.environ.get("WORLD_SIZE"):
        return 0, 1
    rank = _number("RANK", 0)
    if not 0 <= rank < count:
        raise UserError(f"RANK={rank} with WORLD_SIZE={count}: torchrun counts from 0 to {count - 1}; unset both")
    missing = [name for name in _NEEDED if not os.environ.get(name)]
    if count > 1 and missing:
        names = " and ".join(missing)
        raise UserError(f"WORLD_SIZE={count} without {names}: start the processes with torchrun, or unset WORLD_SIZE")
    return rank, count


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    try:
        return int(text or default)
    except ValueError:
        raise UserError(f"{name}={text}: expected a whole number, as torchrun sets it; unset it") from None


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """Return a device to compute on.

    Args:
        name: a device, or its name, such as ``cpu``, ``cuda`` or ``cuda:1``. ``auto`` takes a CUDA device if there is
            one. Without a number: torch's current one, or, of several processes that train one model on a host, the one
            of its number, which ``torchrun`` puts into ``LOCAL_RANK``.

    Raises:
        UserError: the name is unknown, the device is not there, or ``torch.set_default_device`` has set another.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    import torch

    if (default := torch.get_default_device()).type != "cpu":
        raise UserError(f"torch's default device is {default}; set it to cpu, and give `device` to train or load")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        is_there = device.type == "cpu" or torch.get_device_module(device).is_available()
    except (RuntimeError, TypeError, AttributeError):  # such as the meta device, which holds no numbers
        raise SettingError(
            f"`device`: expected auto, cpu, cuda, or a device such as cuda:1, got {shown(name)}"
        ) from None
    if not is_there:
        raise UserError(f"`device` {name}: torch sees no {device.type.upper()} device; take cpu")
    if device.type == "cpu" and device.index:
        raise SettingError(f"`device`: expected cpu, which has no number, got {shown(name)}")
    if device.type != "cuda":
        return torch.device("cpu") if device.type == "cpu" else device
    index = device.index
    if index is None:
        index = int(os.environ.get("LOCAL_RANK") or torch.cuda.current_device())
    count = torch.cuda.device_count()
    if index >= count:
        reason = f"torch sees {number_of(count, 'CUDA device')}, counted from 0"
        if device.index is None:
            reason = f"{index + 1} processes on this host, but {count} CUDA devices; start fewer"
        raise UserError(f"`device` {name}: {reason}")
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def default_threads(parameters: int) -> int:
    """Return the number of CPU threads for a training: 1 below :data:`LARGE_MODEL` parameters, else 2.

    The number depends on nothing but the model, because another number adds in another order. In a small model threads
    mostly wait for each other.

    Example:
        >>> default_threads(300_000), default_threads(60_000_000)
        (1, 2)
    """
    return 1 if parameters < LARGE_MODEL else 2


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let torch compute with this number of threads inside a ``with`` block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
