"""Weights of a training: by name, averaged over its steps, left as they are, and the same in several processes.

A loss is divided by the tokens of the step in all processes, so the sum of their gradients is the gradient of a single
process. PyTorch's distributed data parallel (Li et al. 2020) adds it up while the backward pass still runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from fnmatch import fnmatchcase
from functools import cached_property

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from selfattn.distributed import Processes
from selfattn.errors import SettingError, number_of, say
from selfattn.models.protocol import Seq2Seq
from selfattn.training.config import TrainingConfig

Weights = dict[str, Tensor]


def named_weights(model: nn.Module) -> Weights:
    """Return a model's parameters and persistent buffers by name, a shared tensor under its first name only.

    The tensors are the model's, not copies.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3))
        >>> model[1].bias = model[0].bias
        >>> list(named_weights(model))
        ['0.weight', '0.bias', '1.weight']
    """
    weights: Weights = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            weights[name] = tensor.detach()
    return weights


def copy_of(weights: Mapping[str, Tensor]) -> Weights:
    """Return a copy of weights."""
    return {name: tensor.clone() for name, tensor in weights.items()}


@torch.no_grad()
def copy_into(target: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Copy weights into tensors of the same names and shapes, in place, whatever device each side is on.

    Raises:
        ValueError: a name or a shape differs.
    """
    if {name: tensor.shape for name, tensor in target.items()} != {n: tensor.shape for n, tensor in weights.items()}:
        raise ValueError("these are the weights of another model")
    for name, tensor in target.items():
        tensor.copy_(weights[name])


def put_into(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights, by the names of :func:`named_weights`, into a model.

    Raises:
        ValueError: a name or a shape differs.
    """
    copy_into(named_weights(model), weights)


def mean_of(history: Sequence[Mapping[str, Tensor]], frozen: Collection[str] = ()) -> Weights:
    """Return the mean of weights; of tensors that are no floating-point numbers, the last.

    Args:
        history: at least one; the names and shapes are the same in all.
        frozen: names of weights that are equal in all, and stay bit for bit; default none.

    Example:
        >>> first = {"a": torch.tensor([1.0]), "b": torch.tensor([1.0]), "count": torch.tensor(3)}
        >>> second = {"a": torch.tensor([2.0]), "b": torch.tensor([2.0]), "count": torch.tensor(4)}
        >>> mean_of([first, second], frozen=["b"])
        {'a': tensor([1.5000]), 'b': tensor([2.]), 'count': tensor(4)}
    """
    mean = {}
    for name, last in history[-1].items():
        is_averaged = last.is_floating_point() and name not in frozen  # the mean of equal numbers may differ in a bit
        mean[name] = torch.stack([weights[name] for weights in history]).mean(dim=0) if is_averaged else last
    return mean


class Average:
    """The weights that are validated and kept: here those of the last step; subclasses average.

    Args:
        model: has the weights; it must stay on its device.
    """

    def __init__(self, model: nn.Module) -> None:
        self.now = named_weights(model)  # the model's tensors, which change with every step

    def plan(self, validations: int) -> None:
        """Set the number of validations that the training is going to have."""

    def stepped(self) -> None:
        """Add the weights after a step."""

    def validating(self) -> None:
        """Add the weights before a validation."""

    def validation_stopped(self) -> None:
        """Undo :meth:`validating`: the validation was stopped and will come again."""

    def weights(self) -> Weights | None:
        """Return the average; None for the model's weights as they are."""
        return None

    def tensors(self) -> Weights:
        """Return everything that a checkpoint needs."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`tensors` returned."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the average into the model inside a ``with`` block; the model's weights come back bit for bit."""
        average = self.weights()
        if average is None:
            yield
            return
        before = copy_of(self.now)
        copy_into(self.now, average)
        try:
            yield
        finally:
            copy_into(self.now, before)


class ExponentialAverage(Average):
    r"""An exponential moving average over all steps.

    .. math:: \bar w_k = d_k \bar w_{k-1} + (1 - d_k) w_k, \qquad d_k = \min(d, \frac{1 + k}{10 + k})

    The smaller decay of the first steps forgets the random initial weights soon (as in Marian and in
    ``tf.train.ExponentialMovingAverage``).

    Args:
        model: its weights are :math:`\bar w_0`.
        decay: :math:`d`, in ``[0, 1)``.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.constant_(model.weight, 0.0)
        >>> average = ExponentialAverage(model, 0.5)
        >>> _ = nn.init.constant_(model.weight, 11.0)
        >>> average.stepped()  # d is 2 / 11
        >>> round(average.weights()["weight"].item(), 4)
        9.0
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model)
        self.decay = decay
        self.steps = 0
        self.mean = copy_of(self.now)

    @torch.no_grad()
    def stepped(self) -> None:
        """Move the average towards the weights."""
        self.steps += 1
        share = 1.0 - min(self.decay, (1 + self.steps) / (10 + self.steps))
        for name, tensor in self.now.items():
            if tensor.is_floating_point():
                self.mean[name].lerp_(tensor, share)
            else:  # a count has no mean, as in `mean_of`
                self.mean[name].copy_(tensor)

    def weights(self) -> Weights:
        """Return the moving average."""
        return self.mean

    def tensors(self) -> Weights:
        """Return the average and the number of steps."""
        return {f"mean/{name}": tensor for name, tensor in self.mean.items()} | {"steps": torch.tensor(self.steps)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the average and the number of steps."""
        self.steps = int(tensors["steps"])
        for name, tensor in self.mean.items():
            tensor.copy_(tensors[f"mean/{name}"])


class LastAverage(Average):
    """The mean of the weights at the last validations, the present one included.

    Checkpoint averaging as in Vaswani et al. 2017, section 6.1. At most a quarter of the planned validations are
    averaged: the first ones of a short training would spoil the mean.

    Args:
        model: has the weights.
        count: most validations in the mean.
    """

    def __init__(self, model: nn.Module, count: int) -> None:
        super().__init__(model)
        self.count = self.window = count
        self.frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
        self.history: list[Weights] = []
        self.before: list[Weights] = []

    def plan(self, validations: int) -> None:
        """Set the window to a quarter of the planned validations, at least 1 and at most ``count``."""
        window = max(1, min(self.count, validations // 4))
        if window < self.count and window != self.window:
            why = f"at most {self.count}, and at most a quarter of the {validations}"
            averaged = f"the mean of the last {window} validations" if window > 1 else "the last validation alone"
            say(f"average: {averaged} ({why})")
        self.window = window

    def validating(self) -> None:
        """Add the weights, and drop the oldest ones."""
        self.before = self.history
        self.history = [*self.history, copy_of(self.now)][-self.window :]

    def validation_stopped(self) -> None:
        """Return to the weights before the validation."""
        self.history = self.before

    def weights(self) -> Weights | None:
        """Return the mean."""
        if not self.history:
            return None
        return mean_of(self.history, self.frozen)

    def tensors(self) -> Weights:
        """Return the weights of each validation in the window."""
        return {f"{k}/{name}": tensor for k, weights in enumerate(self.history) for name, tensor in weights.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the weights of each validation in the window."""
        history: dict[int, Weights] = {}
        for key, tensor in tensors.items():
            place, _, name = key.partition("/")
            history.setdefault(int(place), {})[name] = tensor.to(self.now[name].device)
        self.history = [history[place] for place in sorted(history)]


def make_average(model: nn.Module, config: TrainingConfig) -> Average:
    """Return the average that ``config.average`` names, starting from the model's present weights."""
    if config.average == "ema":
        return ExponentialAverage(model, config.ema_decay)
    return LastAverage(model, config.average_last) if config.average == "last" else Average(model)


EMBEDDINGS = "embeddings"


def freeze(model: nn.Module, parts: Sequence[str]) -> list[str]:
    """Exclude weights from the training: they get no gradient, and the optimizer has none of them.

    A tensor that has several names, such as a table that both sides and the output share, is frozen by each of them.

    Args:
        model: whose parameters stay as they are.
        parts: each ``embeddings`` for all embedding tables, a part of the model such as ``encoder``, or a pattern of
            names such as ``*.fc1.*``.

    Returns:
        A line for each part.

    Raises:
        SettingError: a part matches nothing, or nothing would be left to train.

    Example:
        >>> model = nn.ModuleDict({"encoder": nn.Linear(2, 3), "decoder": nn.Linear(3, 2)})
        >>> freeze(model, ["encoder"])
        ['frozen: encoder, 2 tensors with 9 of 17 numbers']
        >>> [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        ['decoder.weight', 'decoder.bias']
    """
    names = dict(model.named_parameters(remove_duplicate=False))
    total = sum(parameter.numel() for parameter in model.parameters())
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    lines = []
    for part in parts:
        chosen = {}
        for name, parameter in names.items():
            is_table = part == EMBEDDINGS and id(parameter) in tables
            if is_table or name.startswith(f"{part}.") or fnmatchcase(name, part):
                chosen[id(parameter)] = parameter
        if not chosen:
            valid = ", ".join(dict.fromkeys([EMBEDDINGS, *(name.partition(".")[0] for name in names)]))
            raise SettingError(f"`freeze` {part}: no weights have this name; there are {valid}, and patterns of names")
        for parameter in chosen.values():
            parameter.requires_grad_(False)
        numbers = sum(parameter.numel() for parameter in chosen.values())
        tensors = number_of(len(chosen), "tensor")
        lines.append(f"frozen: {part}, {tensors} with {numbers:,} of {total:,} numbers")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise SettingError(f"`freeze` {', '.join(parts)}: nothing is left to train; leave a part out")
    return lines


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
