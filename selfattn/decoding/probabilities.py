"""From logits to log-probabilities, and the best of them in an order that nothing but the numbers decides."""

from __future__ import annotations

import torch
from torch import Tensor


def log_probabilities(logits: Tensor) -> Tensor:
    """Return ``log softmax(logits)`` over the last axis, in float32 or wider.

    Example:
        >>> log_probabilities(torch.zeros(1, 2, dtype=torch.bfloat16)).exp()
        tensor([[0.5000, 0.5000]])
    """
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest of each row, largest first; of equal ones the lowest id first.

    ``torch.topk`` leaves open which of equal numbers it takes, so that the neighbours in a batch might decide; and
    sorting whole rows is slow. So this takes one more than asked for, and sorts the rows where that one is a tie.

    Args:
        scores: ``[n v]``.
        count: from 1; more than ``v`` gives all.

    Returns:
        Values and ids, each ``[n min(count, v)]``.

    Example:
        >>> top(torch.tensor([[3.0, 7.0, 5.0, 7.0, 5.0]]), 3)
        (tensor([[7., 7., 5.]]), tensor([[1, 3, 2]]))
    """
    if count >= scores.shape[-1]:
        values, ids = scores.sort(dim=-1, descending=True, stable=True)
        return values, ids
    values, ids = scores.topk(count + 1, dim=-1)
    tied = values[:, -1] == values[:, -2]
    ids = ids[:, :-1].sort(dim=-1).values
    values, order = scores.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
    ids = ids.gather(-1, order)
    if tied.any():
        every_value, every_id = scores[tied].sort(dim=-1, descending=True, stable=True)
        values[tied], ids[tied] = every_value[:, :count], every_id[:, :count]
    return values, ids
