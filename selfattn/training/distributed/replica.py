"""How the processes of a training hold its model; here: each all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from selfattn.data.batches import Batch
from selfattn.models.protocol import Seq2Seq
from selfattn.training.distributed.parallel import Processes
from selfattn.training.optim.averaging import Average
from selfattn.training.optim.weights import Weights, copy_of, named_weights, put_into


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
        self.processes.broadcast_weights(list(named_weights(model).values()))

    @property
    def device(self) -> torch.device:
        """Where the training computes."""
        return next(self.trained.parameters()).device

    def agree(self, decision: bool) -> bool:
        """Return what is to be done by all that are needed: the first process's decision."""
        return decision

    def rows_of(self, batch: Batch) -> tuple[Batch, int] | None:
        """Return the rows that this process reads and their real target tokens; None where it has nothing to do."""
        own = self.processes.rows_of(batch)
        return None if own is None else (own, int(own.target_mask.sum()))

    def loss(self, compute: Callable[[Seq2Seq], Tensor]) -> Tensor:
        """Return a loss of the trained model."""
        return compute(self.trained)

    def reduce_gradients(self, loss: float) -> float:
        """Make every gradient the sum over the processes, and return the sum of the losses."""
        return self.processes.reduce_gradients(self.trained, loss)

    @contextmanager
    def shown(self, average: Average) -> Iterator[None]:
        """Give the whole model, in the first process, the weights to be validated for a while."""
        with average.applied():
            yield

    def snapshot(self) -> Weights:
        """Return a copy of the whole model's present weights."""
        return copy_of(named_weights(self.whole))

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
            self.processes.broadcast_weights(list(named_weights(self.whole).values()))
