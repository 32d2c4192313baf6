"""Averages of weights over the steps of a training: often better than the weights of any one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from selfattn.training.config import TrainingConfig
from selfattn.training.optim.weights import Weights, copy_into, copy_of, named_weights


class Average:
    """Weights that are validated and kept; these are those of the last step as they are, others do better.

    Args:
        model: whose weights; it must stay on its device.
    """

    def __init__(self, model: nn.Module) -> None:
        self.now = named_weights(model)  # the model's own tensors, which follow every step

    def stepped(self) -> None:
        """Take in the weights after a step."""

    def validating(self) -> None:
        """Take in the weights before a validation."""

    def weights(self) -> Weights | None:
        """Return the average; None where the model's own weights are meant."""
        return None

    def tensors(self) -> Weights:
        """Return everything that has to be kept to go on later."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what :meth:`tensors` gave."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give the model the average for a while, then its own weights back, bit for bit."""
        average = self.weights()
        if average is None:
            yield
            return
        own = copy_of(self.now)
        copy_into(self.now, average)
        try:
            yield
        finally:
            copy_into(self.now, own)


class ExponentialAverage(Average):
    r"""An exponential moving average over all steps.

    .. math:: \bar w_k = d_k \bar w_{k-1} + (1 - d_k) w_k, \qquad d_k = \min(d, \frac{1 + k}{10 + k})

    The smaller decay of the first steps lets the first random weights be forgotten soon (as in Marian and in
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

    def weights(self) -> Weights:
        """Return the moving average."""
        return self.mean

    def tensors(self) -> Weights:
        """Return the average and the number of steps."""
        return {f"mean/{name}": tensor for name, tensor in self.mean.items()} | {"steps": torch.tensor(self.steps)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what was kept."""
        self.steps = int(tensors["steps"])
        for name, tensor in self.mean.items():
            tensor.copy_(tensors[f"mean/{name}"])


class LastAverage(Average):
    """The mean of the weights at the last validations, that of now among them; of fewer while there are not as many.

    Checkpoint averaging as in Vaswani et al. 2017, section 6.1.

    Args:
        model: whose weights.
        count: over how many validations.
    """

    def __init__(self, model: nn.Module, count: int) -> None:
        super().__init__(model)
        self.count = count
        self.kept: list[Weights] = []

    def validating(self) -> None:
        """Keep the weights, and forget those that are too old."""
        self.kept = [*self.kept, copy_of(self.now)][-self.count :]

    def weights(self) -> Weights | None:
        """Return the mean of what is kept."""
        if not self.kept:
            return None
        return {
            name: torch.stack([one[name] for one in self.kept]).mean(dim=0) if last.is_floating_point() else last
            for name, last in self.kept[-1].items()
        }

    def tensors(self) -> Weights:
        """Return all weights that are kept."""
        return {f"{place}/{name}": tensor for place, one in enumerate(self.kept) for name, tensor in one.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what was kept."""
        places: dict[int, Weights] = {}
        for key, tensor in tensors.items():
            place, _, name = key.partition("/")
            places.setdefault(int(place), {})[name] = tensor.to(self.now[name].device)
        self.kept = [places[place] for place in sorted(places)]


def make_average(model: nn.Module, config: TrainingConfig) -> Average:
    """Make what ``config.average`` asks for, beginning with the model's present weights."""
    if config.average == "ema":
        return ExponentialAverage(model, config.ema_decay)
    return LastAverage(model, config.average_last) if config.average == "last" else Average(model)
