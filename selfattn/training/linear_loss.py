"""Output layer and cross-entropy as one function that never holds all logits."""

from typing import Any

import torch
from torch import Tensor

_ELEMENTS = 2**20  # logits that exist at once: few enough to stay in a processor's cache


def linear_cross_entropy(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    *,
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Mean of ``cross_entropy(linear(states, weight, bias), target, label_smoothing)`` over all tokens.

    The gradient with respect to a token's logits is :math:`p - (1 - \epsilon) y - \epsilon / v` with softmax
    :math:`p` and right token :math:`y`, so it can be had in the forward pass, for as many tokens at a time as are
    convenient. What does not depend on :math:`p` is added in full precision. Under autocast the two products with
    ``weight`` and the softmax are computed in autocast's dtype, sums in that of ``states``.

    Where no gradient is wanted none is computed. The gradient has no gradient of its own.

    Args:
        states: ``[n d]``.
        weight: ``[v d]``.
        bias: ``[v]``, or None.
        target: the right tokens ``[n]``, int64.
        label_smoothing: :math:`\epsilon` in [0, 1); default 0.

    Returns:
        A scalar in nats a token; NaN where there is no token.

    Example:
        >>> states, weight = torch.ones(2, 3), torch.zeros(4, 3)
        >>> round(linear_cross_entropy(states, weight, None, torch.tensor([0, 3])).item(), 4)  # log 4
        1.3863
    """
    kind = states.device.type
    low = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    with torch.autocast(kind, enabled=False):
        inputs = states.to(weight.dtype), weight, bias
        if not (torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)):
            return _loss(None, *inputs, target, label_smoothing, low)
        loss: Tensor = _LinearCrossEntropy.apply(*inputs, target, label_smoothing, low)  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        gradients: Any = tuple(None if x is None else torch.zeros_like(x) for x in inputs[:3])
        loss = _loss(gradients, *inputs)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        factor = gradients[0] / max(1, len(ctx.saved_tensors[0]))
        return *(None if x is None else x * factor for x in ctx.saved_tensors), None, None, None


def _loss(
    gradients: tuple[Tensor, Tensor, Tensor | None] | None,
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    smoothing: float,
    low: torch.dtype,
) -> Tensor:
    """Return the mean loss, and add the gradients of the summed loss to those given.

    Args:
        gradients: with respect to states, weight and bias, all 0; None where they are not needed.
        states: ``[n d]``.
        weight: ``[v d]``.
        bias: ``[v]``, or None.
        target: ``[n]``.
        smoothing: the label smoothing.
        low: dtype of the two products with ``weight``.
    """
    total, n, low_states, low_weight = states.new_zeros(()), len(target), states.to(low), weight.to(low)
    low_bias = None if bias is None else bias.to(low)
    chunk = max(1, min(n, _ELEMENTS // len(weight)))
    # Every chunk in the memory of the one before: fresh memory costs more than what is written there.
    memory = low_states.new_empty(2, chunk, len(weight))
    if gradients is not None:
        to_states, to_weight, to_bias = gradients
    for begin in range(0, n, chunk):
        place = slice(begin, begin + chunk)
        x = low_states[place]
        logits, p = memory[:, : len(x)]
        if low_bias is None:
            torch.mm(x, low_weight.T, out=logits)
        else:
            torch.addmm(low_bias, x, low_weight.T, out=logits)
        torch.softmax(logits, dim=-1, out=p)
        # The largest of the probabilities is 1 / sum(exp(logit - largest)), at least 1 / v: its log is safe.
        log_sum = logits.amax(dim=-1).to(total.dtype) - p.amax(dim=-1).to(total.dtype).log()
        right = logits.gather(-1, target[place, None])[:, 0].to(total.dtype)
        total = total + (log_sum - (1 - smoothing) * right).sum()
        if gradients is not None:
            to_states[place] = (p @ low_weight).to(total.dtype)
            if low == to_weight.dtype:
                to_weight.addmm_(p.T, x)
            else:
                to_weight += p.T @ x
            if to_bias is not None:
                to_bias += p.new_ones(len(p)) @ p  # a sum over the first axis would copy to float32
    if gradients is not None:  # so far of the probabilities; the smoothed target distribution is subtracted at once
        even = smoothing / len(weight)
        to_states -= (1 - smoothing) * weight[target] + even * weight.sum(dim=0)
        to_weight.index_add_(0, target, states, alpha=smoothing - 1)
        to_weight -= even * states.sum(dim=0)
        if to_bias is not None:
            to_bias.index_add_(0, target, to_bias.new_ones(()).expand(n), alpha=smoothing - 1)
            to_bias -= even * n
    if smoothing:
        mean = states.sum(dim=0) @ weight.mean(dim=0)  # of the logits, summed over the tokens
        if bias is not None:
            mean = mean + n * bias.mean()
        total = total - smoothing * mean
    return total / n if n else total / 0
