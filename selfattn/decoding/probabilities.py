"""From logits to log-probabilities, and the best of them in an order that nothing but the numbers decides."""

import torch
from torch import Tensor

BLOCK = 64  # numbers of a long row that are looked through at once
FEW = 24_000  # numbers in all, for which one call takes less time than several
CHUNK = 2**17  # numbers that are exponentiated at once: few enough to stay in a core's own cache


def log_probabilities(logits: Tensor) -> Tensor:
    """Return ``log softmax(logits)`` over the last axis, in float32 or wider.

    Example:
        >>> log_probabilities(torch.zeros(1, 2, dtype=torch.bfloat16)).exp()
        tensor([[0.5000, 0.5000]])
    """
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def chosen_log_probabilities(logits: Tensor, ids: Tensor, largest: Tensor | None = None) -> Tensor:
    """Return the log-probabilities of ``ids [n k]`` given ``logits [n v]``, in float32 or wider: ``[n k]``.

    Where they are known, ``largest [n 1]`` are the largest logits of the rows.

    Example:
        >>> chosen_log_probabilities(torch.zeros(1, 2), torch.tensor([[1]])).exp()
        tensor([[0.5000]])
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    chosen = logits.gather(-1, ids)
    n, v = logits.shape
    rows = max(1, CHUNK // v)
    if n <= rows:
        return chosen - logits.logsumexp(dim=-1, keepdim=True)
    shifted = logits.new_empty(rows, v)  # one for all: fresh memory costs more time than the exponentials
    totals = logits.new_empty(n, 1)
    largest = logits.amax(dim=-1, keepdim=True) if largest is None else largest.to(logits.dtype)
    finite = largest.where(largest.abs() != torch.inf, 0.0)  # as torch.logsumexp, whose bits these are
    for start in range(0, n, rows):
        part = logits[start : start + rows]
        powers = torch.sub(part, finite[start : start + rows], out=shifted[: len(part)]).exp_()
        torch.sum(powers, dim=-1, keepdim=True, out=totals[start : start + rows])
    return chosen - totals.log_().add_(finite)


def top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest of each row, largest first; of equal ones the lowest id first.

    ``torch.topk`` leaves open which of equal numbers it takes, so that the neighbours in a batch might decide; and
    sorting whole rows is slow. So this takes one more than asked for, and sorts the rows where that one is a tie.
    Of long rows only the blocks with the largest maxima are searched: a maximum is cheap, ``torch.topk`` is not.

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
        values, ids = scores.sort(descending=True, stable=True)
        return values, ids
    values, ids = _largest(scores, count + 1)
    tied = values[:, -1] == values[:, -2]
    ids = ids[:, :-1].sort().values
    values, order = scores.gather(-1, ids).sort(descending=True, stable=True)
    ids = ids.gather(-1, order)
    if tied.any():
        every_value, every_id = scores[tied].sort(descending=True, stable=True)
        values[tied], ids[tied] = every_value[:, :count], every_id[:, :count]
    return values, ids


def _largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest of each row; which of equal ones, and at which end of the count, is left open."""
    blocks = scores.shape[-1] // BLOCK
    if len(scores) == 1 or scores.numel() <= FEW or blocks < 2 * count:
        return scores.topk(count)
    n = len(scores)
    rest = scores[:, blocks * BLOCK :]
    cut = scores[:, : blocks * BLOCK].view(n, blocks, BLOCK)  # also where there is a rest
    # Every number in another block has as many in these that are at least as large.
    best = cut.amax(dim=-1).topk(count).indices
    rows = torch.arange(n, device=scores.device)[:, None]
    values, places = torch.cat([cut[rows, best].flatten(1), rest], dim=-1).topk(count)
    best = torch.cat([best, best.new_full((n, 1), blocks)], dim=-1)  # behind them stands the rest, a shorter block
    return values, best.gather(-1, places // BLOCK) * BLOCK + places % BLOCK
