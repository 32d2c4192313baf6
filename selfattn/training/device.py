"""Where a model is trained: the device, and the number of threads on a CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

import torch

from selfattn.errors import UserError
from selfattn.training.config import DeviceName

LARGE_MODEL = 10_000_000
"""Parameters from which on a model is trained with two threads."""


def choose_device(name: DeviceName = "auto") -> torch.device:
    """Return the device to train on.

    Args:
        name: ``auto`` takes a CUDA device if there is one: torch's current one, or, of several processes that train one
            model on a host, the one of its number, which ``torchrun`` puts into ``LOCAL_RANK``.

    Raises:
        UserError: the name is unknown, or CUDA is asked for and not there.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    if name not in get_args(DeviceName):
        raise UserError(f"device: expected one of {', '.join(get_args(DeviceName))}, got {name!r}")
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UserError("device: torch sees no CUDA device; take cpu")
    index = int(os.environ.get("LOCAL_RANK") or torch.cuda.current_device())
    if index >= (count := torch.cuda.device_count()):
        raise UserError(f"device: {index + 1} processes on this host, but {count} CUDA devices; start fewer")
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
