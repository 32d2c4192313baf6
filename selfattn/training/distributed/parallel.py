"""Several processes that train one model together: each reads its rows of every batch, the gradients are added up.

Every process makes the same batches; of each batch process ``r`` of ``n`` takes the rows ``r, r + n, ...``. A loss is
divided by the tokens of the whole step, so the sum of the gradients of all processes is the gradient that one process
would have. PyTorch's distributed data parallel adds it up (Li et al. 2020), and sends while the backward pass still
runs. :mod:`selfattn.training.distributed.sharding` is the way for a model that is too large for that.

The processes find each other through the environment that ``torchrun`` sets (``RANK``, ``WORLD_SIZE``, ...).
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from selfattn.data.batches import Batch
from selfattn.errors import UserError
from selfattn.models.protocol import Seq2Seq
from selfattn.training.distributed.launch import process_count
from selfattn.training.optim.averaging import Average
from selfattn.training.optim.weights import Weights, named_weights, put_into

HOST = torch.device("cpu")
# Longer than a validation may take: during it the other processes wait for the first.
_PATIENCE = timedelta(hours=2)
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
    """

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count

    @property
    def is_main(self) -> bool:
        """Whether this is the process that validates, watches and writes."""
        return self.rank == 0

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
                distributed.init_process_group(backend, timeout=_PATIENCE)
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
        found: list[Any] = [what] * self.count
        if self.count > 1:
            with self.together():
                distributed.all_gather_object(found, what)
        if len(set(found)) > 1:
            raise UserError("torchrun: the processes differ in settings or data; start all of them with the same")

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Give every process the first one's values of tensors, in place."""
        for tensor in tensors if self.count > 1 else ():
            distributed.broadcast(tensor, src=0)


class LossOf(nn.Module):
    """A model as what PyTorch's parallel modules want: all that reads its weights is computed inside ``forward``."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, compute: Callable[[Seq2Seq], Tensor]) -> Tensor:
        """Return a loss of the model."""
        return compute(self.model)


class Replica:
    """The model of a training, of which every process has all; the first has to say what is in it.

    :class:`selfattn.training.distributed.sharding.Shard` is the other way: every process has a part.

    Args:
        model: with its first weights, on its device.
        processes: that train it together; default this one alone.

    Attributes:
        whole: the model with all its weights: what is validated and kept.
        trained: the model whose parameters the optimizer moves; here the same one.
        is_needed: whether averages and checkpoints cannot be made without this process.
    """

    def __init__(self, model: Seq2Seq, processes: Processes | None = None) -> None:
        self.processes = processes or Processes()
        self.whole = self.trained = model
        self.is_needed = self.processes.is_main
        self.processes.broadcast(named_weights(model).values())

    @property
    def device(self) -> torch.device:
        """Where the training computes."""
        return next(self.trained.parameters()).device

    @cached_property
    def _parallel(self) -> DistributedDataParallel:
        loss_of = LossOf(self.trained)
        # Some parameters may have no part in a batch. PyTorch warns where all have, so here is one that never has.
        loss_of.without_part = nn.Parameter(torch.zeros(1, device=self.device))
        found = DistributedDataParallel(loss_of, find_unused_parameters=True, init_sync=False)
        found.broadcast_buffers = False  # nothing changes them

        def add_up(_, bucket):  # type: ignore[no-untyped-def]  # PyTorch refuses annotations that are texts
            sent = distributed.all_reduce(bucket.buffer(), async_op=True)
            return sent.get_future().then(lambda done: done.value()[0])

        found.register_comm_hook(None, add_up)  # a sum, not a mean: the loss is divided by the tokens of all processes
        return found

    def loss(self, compute: Callable[[Seq2Seq], Tensor], *, is_last: bool = True) -> Tensor:
        """Return a loss of the trained model, whose backward pass adds gradients up over the processes.

        Args:
            compute: the loss.
            is_last: of those whose gradients are accumulated: only then are they sent. Default True.
        """
        if self.processes.count == 1:
            return compute(self.trained)
        with nullcontext() if is_last else self._parallel.no_sync():
            loss: Tensor = self._parallel(compute)
        return loss

    def shown(self, average: Average) -> AbstractContextManager[None]:
        """Give the whole model, in the first process, the weights to be validated for a while."""
        return average.applied()

    def snapshot(self) -> Weights:
        """Return a copy of the whole model's present weights, in the host's memory."""
        return {name: tensor.to(HOST, copy=True) for name, tensor in named_weights(self.whole).items()}

    def gathered(self, tensors: Mapping[str, Tensor]) -> Weights:
        """Return tensors of the sizes that they have in the whole model."""
        return dict(tensors)

    def part(self, tensor: Tensor, like: Tensor | None) -> Tensor:
        """Return this process's part of a tensor that :meth:`gathered` gave.

        Args:
            tensor: such as a weight, or the average of one.
            like: the trained model's own tensor of that name; None where there is none.
        """
        return tensor

    def finish(self, best: Weights | None, *, agreed: bool) -> None:
        """Give the whole model its last weights.

        Args:
            best: to be put into it; None to leave it as it is.
            agreed: whether all processes got here, so that the first one's weights can be handed out.
        """
        if best is not None:
            put_into(self.whole, best)
        if agreed:
            self.processes.broadcast(named_weights(self.whole).values())
