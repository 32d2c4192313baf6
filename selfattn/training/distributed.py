"""One training in several processes: what they share, and gradients that are added up over all of them.

The processes find each other by what ``torchrun`` sets. Process ``r`` of ``n`` takes the rows ``r, r + n, ...`` of each
batch. A loss is divided by the tokens of the step in all processes, so the sum of their gradients is the gradient of a
single process. PyTorch's distributed data parallel (Li et al. 2020) adds it up while the backward pass still runs.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from selfattn.data.batches import Batch
from selfattn.errors import UserError
from selfattn.models.protocol import Seq2Seq
from selfattn.process import Stopped
from selfattn.training.launch import process_count
from selfattn.training.weights import Average, copy_into, copy_of, named_weights

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

    def rows_of(self, batch: Batch) -> tuple[Batch, int]:
        """Return this process's rows of a batch, and the number of target tokens that they count for.

        With fewer rows than processes, a process without rows reads the first one, which counts for nothing: gradients
        can only be added up by all processes.
        """
        if self.count == 1:
            return batch, int(batch.target_mask.sum())
        has_rows = self.rank < len(batch.indices)
        rows = slice(self.rank, None, self.count) if has_rows else slice(1)
        batch = batch.changed(lambda tensor: tensor[rows], batch.indices[rows])
        return batch, int(batch.target_mask.sum()) if has_rows else 0

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

    def joined(self, items: Sequence[_T]) -> list[_T]:
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
        """End a ``with`` block in all processes if it is stopped in one, see :mod:`selfattn.process`.

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
        """Check that all processes were started alike: others would wait for each other forever.

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


class LossOf(nn.Module):
    """A model for PyTorch's parallel modules: everything that reads its weights is computed inside ``forward``."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, compute: Callable[[Seq2Seq], Tensor]) -> Tensor:
        """Return a loss of the model."""
        return compute(self.model)


class Replica:
    """The model of a training, of which every process has a copy, with the weights of the first.

    Args:
        model: with its initial weights, on its device.
        processes: that train it together; default this one alone.
    """

    def __init__(self, model: Seq2Seq, processes: Processes | None = None) -> None:
        self.processes = processes or Processes()
        self.model = model
        self.processes.broadcast(named_weights(model).values())

    @property
    def device(self) -> torch.device:
        """Device of the training."""
        return next(self.model.parameters()).device

    @cached_property
    def _parallel(self) -> DistributedDataParallel:
        loss_of = LossOf(self.model)
        # A batch may leave parameters unused. PyTorch warns where none is, so here is one that always is.
        loss_of.unused = nn.Parameter(torch.zeros(1, device=self.device))
        parallel = DistributedDataParallel(loss_of, find_unused_parameters=True, init_sync=False)
        parallel.broadcast_buffers = False  # nothing changes them

        def add_up(_, bucket):  # type: ignore[no-untyped-def]  # PyTorch refuses annotations that are texts
            sent = distributed.all_reduce(bucket.buffer(), async_op=True)
            return sent.get_future().then(lambda done: done.value()[0])

        # A sum, not a mean: the loss is divided by the tokens of all processes.
        parallel.register_comm_hook(None, add_up)
        return parallel

    def loss(self, compute: Callable[[Seq2Seq], Tensor], *, is_last: bool = True) -> Tensor:
        """Return a loss of the trained model whose backward pass adds gradients up over several processes.

        Args:
            compute: the loss.
            is_last: whether it is the last of the losses whose gradients are accumulated; only it sends. Default True.
        """
        with nullcontext() if is_last else self._parallel.no_sync():
            loss: Tensor = self._parallel(compute)
        return loss

    @contextmanager
    def shown(self, average: Average) -> Iterator[None]:
        """Put the weights to be validated into the model of every process, inside a ``with`` block.

        Args:
            average: of the weights, in the first process.
        """
        with average.applied():
            weights = named_weights(self.model)
            before = {} if self.processes.is_main else copy_of(weights)
            self.processes.broadcast(weights.values())
            try:
                yield
            finally:
                if before:
                    copy_into(weights, before)
