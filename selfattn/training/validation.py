"""What a validation finds: the loss on unseen examples, and the figures that say which weights are best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from selfattn.data.batches import batches
from selfattn.data.examples import Example
from selfattn.models.protocol import Seq2Seq
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.processes import Processes
from selfattn.training.objective.loss import batch_loss


@dataclass(frozen=True)
class Criterion:
    """How quality on the validation is measured, and which of the figures says what is best.

    Attributes:
        figures: gives figures by name for a model, its validation loss (nats a token) and the processes that validate
            together; called at every validation, by all of them.
        name: of the figure that decides.
        higher_is_better: whether more of it is better; default True.

    Example:
        >>> import math
        >>> perplexity = Criterion(lambda model, loss, processes: {"perplexity": math.exp(loss)}, "perplexity", False)
        >>> low, high = ({"perplexity": value} for value in (2.0, 3.0))
        >>> perplexity.value(low) > perplexity.value(high)
        True
    """

    figures: Callable[[Seq2Seq, float, Processes], Mapping[str, float]]
    name: str
    higher_is_better: bool = True

    def value(self, figures: Mapping[str, float]) -> float:
        """Return a number that is the higher the better."""
        return figures[self.name] if self.higher_is_better else -figures[self.name]


@torch.no_grad()
def validation_loss(
    model: Seq2Seq,
    examples: Sequence[Example],
    config: TrainingConfig,
    *,
    pad_id: int,
    bos_id: int,
    processes: Processes | None = None,
) -> float:
    """Return the mean loss a token on unseen examples, nats, without label smoothing; leaves the model in evaluation.

    Several processes compute the loss of a batch each, and add up in the order of the batches: to the bit what one
    process finds that has the same weights and threads.

    Args:
        model: on its device.
        examples: at least one.
        config: gives ``batch_size``, ``max_tokens`` and ``precision``.
        pad_id: padding token.
        bos_id: the token that every target begins with.
        processes: those that share the batches out; default this one alone.
    """
    model.eval()
    device, processes = next(model.parameters()).device, processes or Processes()
    found: list[tuple[float, int]] = []
    made = batches(
        sorted(examples, key=lambda example: len(example.source)),
        batch_size=config.batch_size,
        max_tokens=config.max_tokens,
        pad_id=pad_id,
        bos_id=bos_id,
        generator=None,
    )
    for batch in processes.own(made):
        on_device, count = batch.to(device), int(batch.target_mask.sum())
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
            found.append((batch_loss(model, on_device).item() * count, count))
    summed, tokens = 0.0, 0
    for loss, count in processes.joined(found):
        summed += loss
        tokens += count
    return summed / tokens
