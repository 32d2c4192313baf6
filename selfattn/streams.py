"""Named random streams: a separate generator for data, initial weights, dropout and sampling.

A change in one place never changes another: the order of the data does not depend on the model.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING

from selfattn.errors import say

if TYPE_CHECKING:
    import torch

_TRAINING = RLock()  # taken first where both are needed
_GLOBAL_STATE = RLock()


def seed_for(seed: int, name: str) -> int:
    """Derive the seed of a named stream: the first eight bytes of SHA-256 of ``"seed/name"``, as 63 bits.

    Args:
        seed: the run's seed, any integer.
        name: the stream's name, such as ``"data"``, ``"init"``, ``"dropout"`` or ``"sampling"``.

    Returns:
        An integer in ``[0, 2**63)``, the same on every machine and in every version.

    Example:
        >>> seed_for(0, "data") == seed_for(0, "data"), seed_for(0, "data") == seed_for(0, "init")
        (True, False)
    """
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, name: str) -> "torch.Generator":
    """Return a fresh ``torch.Generator`` for the stream ``name`` of the run with this ``seed``.

    Args:
        seed: the run's seed.
        name: the stream's name.

    Example:
        >>> generator(0, "init").initial_seed() == seed_for(0, "init")
        True
    """
    import torch

    return torch.Generator().manual_seed(seed_for(seed, name))


@contextmanager
def training_lock(label: str) -> Iterator[None]:
    """Let one thread of this process train at a time inside a ``with`` block; a thread that has to wait says so.

    The number of threads of PyTorch, standard error and the working directory belong to the process. Two trainings that
    change them side by side would compute other figures than one after the other.

    Args:
        label: begins the line that a waiting thread says.
    """
    if not _TRAINING.acquire(blocking=False):
        say(f"{label}: waits until another training of this process has ended; side by side they need two processes")
        _TRAINING.acquire()
    try:
        yield
    finally:
        _TRAINING.release()


@contextmanager
def global_state() -> Iterator[None]:
    """Let one thread at a time use what PyTorch has once for a process, such as its global generators.

    Dropout draws from these generators: PyTorch's functions for it, the fused attention kernel among them, take no
    other. Threads of a user's program that draw from them at the same time are not kept out.
    """
    with _GLOBAL_STATE:
        yield


@contextmanager
def fixed_seed(seed: int, device: "torch.device | None" = None) -> Iterator[None]:
    """Seed PyTorch's global generators inside a ``with`` block, for one thread at a time; their states come back.

    Args:
        seed: of all of them.
        device: a GPU whose generator is used as well; default the CPU alone, and no other generator is touched.

    Example:
        >>> import torch
        >>> before = torch.get_rng_state()
        >>> with fixed_seed(1):
        ...     first = torch.rand(3)
        >>> with fixed_seed(1):
        ...     torch.equal(torch.rand(3), first)
        True
        >>> torch.equal(torch.get_rng_state(), before)
        True
    """
    import torch

    devices = [device] if device is not None and device.type == "cuda" else []
    with _GLOBAL_STATE, torch.random.fork_rng(devices=devices):
        if devices:
            torch.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)
        yield


class GlobalStream:
    """A random stream that PyTorch's global generators draw, for what takes no generator, above all dropout.

    The state is kept here and handed to the generators only inside :meth:`drawing`, so that streams of several
    threads, and what a program draws in between, do not change each other.

    Args:
        device: whose generator is used, beside that of the CPU.

    Example:
        >>> import torch
        >>> streams = [GlobalStream(torch.device("cpu")) for _ in range(2)]
        >>> drawn = []
        >>> for _ in range(2):
        ...     for stream in streams:
        ...         with stream.drawing():
        ...             drawn.append(torch.rand(()).item())
        >>> drawn[0] == drawn[1], drawn[2] == drawn[3], drawn[0] == drawn[2]
        (True, True, False)
    """

    def __init__(self, device: "torch.device") -> None:
        self.device = device
        self.states: tuple[torch.Tensor, ...] = ()
        self.seed(0)

    def seed(self, seed: int) -> None:
        """Begin the stream anew.

        Args:
            seed: from 0 to 2^63 - 1.
        """
        with fixed_seed(seed, self.device):
            self.states = self._read()

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Draw from this stream inside a ``with`` block, in one thread at a time; the generators' states come back."""
        with _GLOBAL_STATE:
            before = self._read()
            self._write(self.states)
            try:
                yield
            finally:
                self.states = self._read()
                self._write(before)

    def _read(self) -> "tuple[torch.Tensor, ...]":
        import torch

        of_cpu = torch.get_rng_state()
        return (of_cpu, torch.cuda.get_rng_state(self.device)) if self.device.type == "cuda" else (of_cpu,)

    def _write(self, states: "Sequence[torch.Tensor]") -> None:
        import torch

        torch.set_rng_state(states[0])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(states[1], self.device)
