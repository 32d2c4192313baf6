"""Several processes that train one model together: each reads its rows of every batch, the gradients are added up.

Every process has the whole model and makes the same batches; of each batch process ``r`` of ``n`` takes the rows
``r, r + n, ...``. A loss is divided by the tokens of the whole step, so the sum of the gradients of all processes is
the gradient that one process would have. It is added up by hand, all parameters in one message after the backward
pass: that is right for every model and every way of computing its logits, also where some parameters had no part in
a batch, and there is nothing to configure. What it does not do is send while the backward pass still runs.
:mod:`selfattn.training.distributed.sharding` is the way for a model that is too large for that.

The processes find each other through the environment that ``torchrun`` sets (``RANK``, ``WORLD_SIZE``, ...).
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from selfattn.errors import UserError

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from selfattn.data.batches import Batch

# Longer than a validation may take: during it the other processes wait for the first.
_PATIENCE = timedelta(hours=2)


def is_main_process() -> bool:
    """Say whether this process is the one that writes files and speaks: the first, or the only one. Loads no torch."""
    return _environment("RANK", 0) == 0


def process_count() -> int:
    """Return how many processes ``torchrun`` started, this one among them. Loads no torch."""
    return _environment("WORLD_SIZE", 1)


def _environment(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise UserError(f"{name}={text}: expected a whole number, as torchrun sets it; unset it") from None


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
            device: that this process computes on; on CUDA they talk through NCCL, else through gloo.

        Raises:
            UserError: they could not meet.
        """
        count = process_count()
        if count == 1:
            return cls()
        from torch import distributed

        if not distributed.is_initialized():
            backend = "nccl" if device.type == "cuda" else "gloo"
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
            from torch import distributed

            text = " ".join(str(error).split())
            if self.count == 1 or not (isinstance(error, distributed.DistError) or "/gloo/" in text):
                raise
            reason = re.sub(r"^\[.*?\] |[.] This is .*", "", text)
            raise UserError(
                f"torch.distributed: another process is gone ({reason}); see what it said, and start all with --resume"
            ) from None

    def rows_of(self, batch: Batch) -> Batch | None:
        """Return the rows that this process reads; None where there are fewer rows than processes."""
        if self.count == 1:
            return batch
        if len(batch.indices) <= self.rank:
            return None
        own = slice(self.rank, None, self.count)
        return batch.changed(lambda tensor: tensor[own], batch.indices[own])

    def reduce_gradients(self, model: nn.Module, loss: float) -> float:
        """Give every process the sum of all gradients, and return the sum of the losses.

        A parameter that had no part in any process's loss keeps no gradient, as it would in a single process.
        """
        if self.count == 1:
            return loss
        import torch
        from torch import distributed

        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        present = [float(parameter.grad is not None) for parameter in parameters]
        sizes = [parameter.numel() for parameter in parameters]
        device = parameters[0].device
        parts = [p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1) for p in parameters]
        message = torch.cat([*parts, torch.tensor([*present, loss], dtype=parts[0].dtype, device=device)])
        distributed.all_reduce(message)
        *sums, flags = torch.split(message, [*sizes, len(parameters) + 1])
        *had_part, summed = [float(value) for value in flags.tolist()]
        for parameter, total, some in zip(parameters, sums, had_part, strict=True):
            parameter.grad = total.view_as(parameter) if some else None
        return summed

    def sum(self, value: float) -> float:
        """Return the sum of a number over the processes."""
        if self.count == 1:
            return value
        import torch
        from torch import distributed

        message = torch.tensor([value], dtype=torch.float64, device=_device_for_messages())
        distributed.all_reduce(message)
        return float(message[0])

    def decide(self, value: int) -> int:
        """Return the value that the first process gave."""
        if self.count == 1:
            return value
        import torch

        return int(self.broadcast(torch.tensor([value], dtype=torch.int64))[0])

    def check_same(self, what: str) -> None:
        """Find out whether all processes were started alike: those that were not would wait for each other for ever.

        Args:
            what: describes everything that has to be the same.

        Raises:
            UserError: another process describes it in other words.
        """
        if self.count == 1:
            return
        import torch
        from torch import distributed

        digest = int.from_bytes(hashlib.sha256(what.encode()).digest()[:7], "big")
        extremes = torch.tensor([digest, -digest], device=_device_for_messages())
        with self.together():
            distributed.all_reduce(extremes, distributed.ReduceOp.MAX)
        if extremes.tolist() != [digest, -digest]:
            raise UserError("torchrun: the processes differ in settings or data; start all of them with the same")

    def broadcast(self, tensor: Tensor) -> Tensor:
        """Give every process the first one's values of a tensor, in place; return it."""
        if self.count > 1:
            from torch import distributed

            device = _device_for_messages()
            message = tensor.to(device)
            distributed.broadcast(message, src=0)
            tensor.copy_(message)
        return tensor

    def broadcast_weights(self, weights: Sequence[Tensor]) -> None:
        """Give every process the first one's weights."""
        if self.count > 1:
            for tensor in weights:
                self.broadcast(tensor)

    def broadcast_bytes(self, data: bytes | None) -> bytes | None:
        """Give every process the first one's bytes, or None where it has none."""
        if self.count == 1:
            return data
        import torch

        length = self.decide(-1 if data is None else len(data))
        if length < 0:
            return None
        own = torch.frombuffer(bytearray(data or bytes(length)), dtype=torch.uint8)
        return bytes(self.broadcast(own).numpy().tobytes())


def _device_for_messages() -> torch.device:
    import torch
    from torch import distributed

    if distributed.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
