"""Data-parallel training: each process reads its rows of every batch, and the gradients are added up.

Process ``r`` of ``n`` takes the rows ``r, r + n, ...`` of each batch. A loss is divided by the tokens of the step in
all processes, so the sum of their gradients is the gradient of a single process. PyTorch's distributed data parallel
(Li et al. 2020) adds it up while the backward pass still runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from selfattn.models.protocol import Seq2Seq
from selfattn.training.distributed.processes import Processes
from selfattn.training.weights import Average, Weights, copy_into, copy_of, named_weights

HOST = torch.device("cpu")


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
        self.processes, self.model = processes or Processes(), model
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

        parallel.register_comm_hook(
            None, add_up
        )  # a sum, not a mean: the loss is divided by the tokens of all processes
        return parallel

    def loss(self, compute: Callable[[Seq2Seq], Tensor], *, is_last: bool = True) -> Tensor:
        """Return a loss of the trained model whose backward pass adds gradients up over the processes.

        Args:
            compute: the loss.
            is_last: whether it is the last of the losses whose gradients are accumulated; only it sends. Default True.
        """
        if self.processes.count == 1:
            return compute(self.model)
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
            if not self.processes.decide(average.weights() is not None):
                yield
                return
            weights = named_weights(self.model)
            before = {} if self.processes.is_main else copy_of(weights)
            self.processes.broadcast(weights.values())
            try:
                yield
            finally:
                if before:
                    copy_into(weights, before)

    def snapshot(self) -> Weights:
        """Return a copy of the model's weights, in the host's memory."""
        return {name: tensor.to(HOST, copy=True) for name, tensor in named_weights(self.model).items()}
