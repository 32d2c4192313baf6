"""Processes that compute together: how they find each other, by what ``torchrun`` sets, and what they share."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from selfattn.errors import UserError
from selfattn.processes import Stopped, process_count

# Longer than what the first process does alone: it writes, and scores what all have decoded.
_PATIENCE = timedelta(hours=2)
_MEETING = timedelta(minutes=5)  # for the start: a process that died before the others met is not waited for longer
_DIFFER = "torchrun: the processes differ in settings or data; start all of them with the same"
_T = TypeVar("_T")


class Processes:
    """The processes of a training, seen from one of them.

    Args:
        rank: of this process, counted from 0.
        count: number of processes.

    Example:
        >>> alone = Processes()
        >>> alone.is_main, alone.decide(7)
        (True, 7)
        >>> list(Processes(rank=1, count=2).share_of("abcde"))
        ['b', 'd']
    """

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank = rank
        self.count = count

    @property
    def is_main(self) -> bool:
        """Whether this process watches and writes."""
        return self.rank == 0

    def share_of(self, items: Iterable[_T]) -> Iterator[_T]:
        """Iterate over this process's share of items that all processes iterate over."""
        return islice(items, self.rank, None, self.count)

    @classmethod
    def join(cls, device: torch.device) -> Processes:
        """Meet the other processes that ``torchrun`` started; without ``torchrun`` there is this one alone.

        Args:
            device: of this process; tensors on CUDA go through NCCL, all others through gloo.

        Raises:
            UserError: they could not meet.
        """
        count = process_count()
        if count == 1:
            return cls()
        if not distributed.is_initialized():
            backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
            try:
                store, rank, _ = next(rendezvous("env://", timeout=_MEETING))
                distributed.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=_PATIENCE)
            except (RuntimeError, ValueError) as error:  # torch's message has many lines
                reason = str(error).strip().partition("\n")[0]
                raise UserError(f"torch.distributed: {count} processes could not meet: {reason}") from None
            atexit.register(distributed.destroy_process_group)
        return cls(distributed.get_rank(), distributed.get_world_size())

    @contextmanager
    def together(self) -> Iterator[None]:
        """Turn the loss of another process into one line.

        Raises:
            UserError: another process has ended or does not answer.
        """
        try:
            yield
        except RuntimeError as error:
            text = " ".join(str(error).split())
            if self.count == 1 or not (isinstance(error, distributed.DistError) or "/gloo/" in text):
                raise
            raise UserError(
                f"torch.distributed: another process is gone ({text}); see its message, and start all with `resume`"
            ) from None

    def sum(self, value: float) -> float:
        """Return the sum of a number over the processes."""
        message = torch.tensor([value], dtype=torch.float64)
        if self.count > 1:
            distributed.all_reduce(message)
        return float(message[0])

    def gather(self, value: _T) -> list[_T]:
        """Return the value of each process, in the order of their ranks."""
        values: list[Any] = [value] * self.count
        if self.count > 1:
            distributed.all_gather_object(values, value)
        return values

    def gather_items(self, items: Sequence[_T]) -> list[_T]:
        """Return all items in their order, given this process's share of them, see :meth:`share_of`.

        Raises:
            UserError: the processes do not have shares of the same sequence.
        """
        if self.count == 1:
            return list(items)
        parts = self.gather(list(items))
        places = range(sum(map(len, parts)))
        if [len(part) for part in parts] != [len(places[rank :: self.count]) for rank in range(self.count)]:
            raise UserError(_DIFFER)
        return [parts[place % self.count][place // self.count] for place in places]

    @contextmanager
    def stopping_together(self) -> Iterator[None]:
        """End a ``with`` block in all processes if it is stopped in one, see :mod:`selfattn.processes`.

        Raises:
            Stopped: in all processes.
        """
        is_stopped = False
        try:
            yield
        except Stopped:
            is_stopped = True
        if any(self.gather(is_stopped)):
            raise Stopped

    def decide(self, value: _T) -> _T:
        """Return the value of the first process."""
        values: list[Any] = [value]
        if self.count > 1:
            distributed.broadcast_object_list(values, src=0)
        return values[0]  # type: ignore[no-any-return]  # of the same type in the first process

    def check_same(self, description: str) -> None:
        """Raise unless all processes were started with the same settings; else they would wait for each other forever.

        Args:
            description: of everything that has to be the same.

        Raises:
            UserError: another process has another description.
        """
        with self.together():
            descriptions = self.gather(description)
        if len(set(descriptions)) > 1:
            raise UserError(_DIFFER)

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Copy the first process's values of tensors to all processes, in place."""
        for tensor in tensors if self.count > 1 else ():
            distributed.broadcast(tensor, src=0)
