"""Validation: the loss on unseen examples, and the measures that say which weights are best."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from selfattn.data.batches import batches
from selfattn.data.pairs import Example
from selfattn.models.protocol import Seq2Seq
from selfattn.process import poll
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed import Processes
from selfattn.training.loss import batch_loss
from selfattn.training.observer import EpochReport

LOSS = "loss"
"""Name of the deciding measure for the lowest validation loss."""


@dataclass(frozen=True)
class Criterion:
    """How quality is measured at a validation, and which measure decides.

    Attributes:
        measure: returns measures by name, given a model, its validation loss (nats per token) and the processes that
            validate together; called at every validation, by all of them.
        name: of the measure that decides; `LOSS` for the loss, where no measure has this name.
        higher_is_better: default True.
        part: returns the deciding measure on a part of the validation data, for points of the learning curve between
            validations; None where there is none.

    Example:
        >>> import math
        >>> perplexity = Criterion(lambda model, loss, processes: {"perplexity": math.exp(loss)}, "perplexity", False)
        >>> def report(loss: float) -> EpochReport:
        ...     return EpochReport(1, 2, 3, 4.0, 5.0, loss, 7.0, 8.0, perplexity.measure(None, loss, None))
        >>> perplexity.value(report(0.5)) > perplexity.value(report(0.9))
        True
    """

    measure: Callable[[Seq2Seq, float, Processes], Mapping[str, float]]
    name: str
    higher_is_better: bool = True
    part: Callable[[Seq2Seq, Processes], float] | None = None

    def value(self, report: EpochReport) -> float:
        """Return a number that is higher for better validations."""
        is_loss = self.name == LOSS and LOSS not in report.measures
        value = report.valid_loss if is_loss else report.measures[self.name]
        return value if self.higher_is_better else -value

    def by_loss(self) -> "Criterion":
        """Return a criterion with the same measures, where the lowest loss decides."""
        return replace(self, name=LOSS, higher_is_better=False, part=None)


@torch.no_grad()
def validation_loss(
    model: Seq2Seq, examples: Sequence[Example], config: TrainingConfig, processes: Processes | None = None
) -> float:
    """Return the mean loss on unseen examples, nats per token, without label smoothing; sets evaluation mode.

    Several processes share out the batches and add up in the order of the batches: the sum is, to the bit, that of a
    single process with the same weights and threads.

    Args:
        model: on its device.
        examples: at least one.
        config: gives ``batch_size``, ``max_tokens`` and ``precision``.
        processes: that share out the batches; default this one alone.

    Raises:
        Stopped: a stop was requested, see :mod:`selfattn.process`.
    """
    model.eval()
    device = model.device
    processes = processes or Processes()
    cut = batches(
        sorted(examples, key=lambda example: len(example.source)),
        batch_size=config.batch_size,
        max_tokens=config.max_tokens,
    )
    losses: list[tuple[float, int]] = []
    with processes.stopping_together():
        for batch in processes.share_of(cut):
            poll()
            on_device = batch.to(device)
            count = int(batch.target_mask.sum())
            with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
                losses.append((batch_loss(model, on_device).item() * count, count))
    losses = processes.joined(losses)
    total = 0.0
    for loss, _ in losses:  # not `sum`, which rounds in another way
        total += loss
    return total / sum(count for _, count in losses)
