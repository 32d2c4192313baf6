"""Several processes that train one model together: each reads its rows of every batch, the gradients are added up.

Of each batch process ``r`` of ``n`` takes the rows ``r, r + n, ...``. A loss is divided by the tokens of the whole
step, so the sum of the gradients of all processes is the gradient that one process would have. PyTorch's distributed
data parallel adds it up (Li et al. 2020), and sends while the backward pass still runs.
:mod:`selfattn.training.distributed.sharding` is the way for a model that is too large for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cached_property

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from selfattn.models.protocol import Seq2Seq
from selfattn.training.distributed.processes import Processes
from selfattn.training.optim.averaging import Average
from selfattn.training.optim.weights import Weights, copy_into, copy_of, named_weights, put_into

HOST = torch.device("cpu")


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

    @contextmanager
    def shown(self, average: Average) -> Iterator[None]:
        """Give the whole model, in every process, the weights to be validated for a while.

        Args:
            average: of the weights, as the first process has it.
        """
        with average.applied():
            if not self.processes.decide(average.weights() is not None):
                yield
                return
            own = named_weights(self.whole)
            kept = {} if self.processes.is_main else copy_of(own)
            self.processes.broadcast(own.values())
            try:
                yield
            finally:
                if kept:
                    copy_into(own, kept)

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
