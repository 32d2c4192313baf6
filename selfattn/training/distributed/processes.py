"""The processes of a training, which find each other through what ``torchrun`` sets (``RANK``, ``WORLD_SIZE``, ...)."""

from __future__ import annotations

import atexit
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from selfattn.data.batches import Batch
from selfattn.errors import UserError
from selfattn.training.distributed.launch import process_count

# Longer than what the first process does alone: it writes, and judges what all have decoded.
_PATIENCE = timedelta(hours=2)
_MEETING = timedelta(minutes=5)  # for the start: one that died before the others met is not waited for longer
_DIFFER = "torchrun: the processes differ in settings or data; start all of them with the same"
_T = TypeVar("_T")


class Processes:
    """The processes of a training, seen from one of them.

    Args:
        rank: of this one, counted from 0.
        count: how many there are.

    Example:
        >>> alone = Processes()
        >>> alone.is_main, alone.decide(7)
        (True, 7)
        >>> list("abcde"[Processes(rank=1, count=2).share])
        ['b', 'd']
    """

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count

    @property
    def is_main(self) -> bool:
        """Whether this is the process that watches and writes."""
        return self.rank == 0

    @property
    def share(self) -> slice:
        """What of a sequence is this process's: the items ``r, r + n, ...`` of process ``r`` of ``n``."""
        return slice(self.rank, None, self.count)

    def own(self, items: Iterable[_T]) -> Iterator[_T]:
        """Go through this process's share of what all of them go through."""
        return islice(items, self.rank, None, self.count)

    @classmethod
    def join(cls, device: torch.device) -> Processes:
        """Meet the other processes that ``torchrun`` started; alone, where it did not.

        Args:
            device: that this process computes on; what is on CUDA goes through NCCL, all else through gloo.

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
            except (RuntimeError, ValueError) as error:  # what torch says of it has many lines
                reason = str(error).strip().partition("\n")[0]
                raise UserError(f"torch.distributed: {count} processes could not meet: {reason}") from None
            atexit.register(distributed.destroy_process_group)
        return cls(distributed.get_rank(), distributed.get_world_size())

    @contextmanager
    def together(self) -> Iterator[None]:
        """Do something that needs all processes, and say in one line that one of them is gone.

        Raises:
            UserError: another process has ended, or does not answer.
        """
        try:
            yield
        except RuntimeError as error:
            text = " ".join(str(error).split())
            if self.count == 1 or not (isinstance(error, distributed.DistError) or "/gloo/" in text):
                raise
            reason = re.sub(r"^\[.*?\] |[.] This is .*", "", text)
            raise UserError(
                f"torch.distributed: another process is gone ({reason}); see what it said, and start all with `resume`"
            ) from None

    def rows_of(self, batch: Batch) -> tuple[Batch, int]:
        """Return the rows that this process reads, and how many real target tokens they count for.

        Where there are fewer rows than processes, one without reads the first, which counts for nothing: gradients can
        only be added up by all.
        """
        if self.count == 1:
            return batch, int(batch.target_mask.sum())
        has_rows = self.rank < len(batch.indices)
        own = slice(self.rank, None, self.count) if has_rows else slice(1)
        batch = batch.changed(lambda tensor: tensor[own], batch.indices[own])
        return batch, int(batch.target_mask.sum()) if has_rows else 0

    def sum(self, value: float) -> float:
        """Return the sum of a number over the processes."""
        message = torch.tensor([value], dtype=torch.float64)
        if self.count > 1:
            distributed.all_reduce(message)
        return float(message[0])

    def gather(self, value: _T) -> list[_T]:
        """Return what every process gave, by their ranks."""
        found: list[Any] = [value] * self.count
        if self.count > 1:
            distributed.all_gather_object(found, value)
        return found

    def joined(self, own: Sequence[_T]) -> list[_T]:
        """Return all items in their order, of which every process has its :attr:`share`.

        Raises:
            UserError: what the processes have are not shares of the same.
        """
        if self.count == 1:
            return list(own)
        parts = self.gather(list(own))
        places = range(sum(map(len, parts)))
        if [len(part) for part in parts] != [len(places[rank :: self.count]) for rank in range(self.count)]:
            raise UserError(_DIFFER)
        return [parts[place % self.count][place // self.count] for place in places]

    def decide(self, value: _T) -> _T:
        """Return the value that the first process gave."""
        found: list[Any] = [value]
        if self.count > 1:
            distributed.broadcast_object_list(found, src=0)
        return found[0]  # type: ignore[no-any-return]  # one of the first process's, of the same type

    def check_same(self, what: str) -> None:
        """Find out whether all processes were started alike: those that were not would wait for each other for ever.

        Args:
            what: describes everything that has to be the same.

        Raises:
            UserError: another process describes it in other words.
        """
        with self.together():
            found = self.gather(what)
        if len(set(found)) > 1:
            raise UserError(_DIFFER)

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Give every process the first one's values of tensors, in place."""
        for tensor in tensors if self.count > 1 else ():
            distributed.broadcast(tensor, src=0)
