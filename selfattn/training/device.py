"""Where a model is trained: the device, and the number of threads on a CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from selfattn.errors import SettingError, UserError, number_of
from selfattn.settings import shown

LARGE_MODEL = 10_000_000
"""Parameters from which on a model is trained with two threads."""


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """Return a device to compute on.

    Args:
        name: a device, or its name, such as ``cpu``, ``cuda`` or ``cuda:1``. ``auto`` takes a CUDA device if there is
            one. Without a number: torch's current one, or, of several processes that train one model on a host, the one
            of its number, which ``torchrun`` puts into ``LOCAL_RANK``.

    Raises:
        UserError: the name is unknown, or the device is not there.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
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
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
