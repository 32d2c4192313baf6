"""Output layer and cross-entropy as one function that never holds all logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor


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
        states = states.to(weight.dtype)
        tokens = _Tokens(states, weight, bias, target, label_smoothing, low)
        if not (torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (states, weight, bias))):
            return tokens.loss()
        loss: Tensor = _LinearCrossEntropy.apply(tokens, states, weight, bias)  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        return loss


@dataclass(frozen=True, eq=False)
class _Tokens:
    """Tokens in chunks, with the sums over them; ``low`` is the dtype of the two products."""

    states: Tensor
    weight: Tensor
    bias: Tensor | None
    target: Tensor
    smoothing: float
    low: torch.dtype

    elements: ClassVar = 2**20  # of logits that exist at once: few enough to stay in a processor's cache

    def loss(self, gradients: tuple[Tensor, Tensor, Tensor | None] | None = None) -> Tensor:
        """Return the mean loss; add the summed loss's gradients to those given, but for what :meth:`finish` adds."""
        total, n, states = self.states.new_zeros(()), len(self.target), self.states.to(self.low)
        weight, bias = self.weight.to(self.low), None if self.bias is None else self.bias.to(self.low)
        chunk = max(1, min(n, self.elements // len(weight)))
        # Every chunk in the memory of the one before: fresh memory costs more than what is written there.
        memory = states.new_empty(2, chunk, len(weight))
        for begin in range(0, n, chunk):
            place = slice(begin, begin + chunk)
            x = states[place]
            logits, free = memory[:, : len(x)]
            if bias is None:
                torch.mm(x, weight.T, out=logits)
            else:
                torch.addmm(bias, x, weight.T, out=logits)
            value, slope = self.loss_and_slope(logits, self.target[place, None], total.dtype, free)
            total = total + value
            if gradients is not None:
                to_states, to_weight, to_bias = gradients
                to_states[place] = (slope @ weight).to(total.dtype)
                if self.low == to_weight.dtype:
                    to_weight.addmm_(slope.T, x)
                else:
                    to_weight += slope.T @ x
                if to_bias is not None:
                    to_bias += slope.new_ones(len(slope)) @ slope  # a sum over the first axis would copy to float32
        return self._smoothed(total) / len(self.target) if len(self.target) else total / 0

    def loss_and_slope(self, logits: Tensor, target: Tensor, dtype: torch.dtype, free: Tensor) -> tuple[Tensor, Tensor]:
        """Return some tokens' summed loss and its derivatives by their logits.

        Left out are what :meth:`_smoothed` takes off the one and :meth:`finish` off the other.

        Args:
            logits: ``[n v]``.
            target: ``[n 1]``.
            dtype: of the sum.
            free: like ``logits``, to be overwritten.
        """
        p = torch.softmax(logits, dim=-1, out=free)
        # The largest of the probabilities is 1 / sum(exp(logit - largest)), at least 1 / v: its log is safe.
        log_sum = logits.amax(dim=-1).to(dtype) - p.amax(dim=-1).to(dtype).log()
        right = logits.gather(-1, target)[:, 0].to(dtype)
        return (log_sum - (1 - self.smoothing) * right).sum(), p

    def finish(self, to_states: Tensor, to_weight: Tensor, to_bias: Tensor | None) -> None:
        """Take the smoothed target distribution off the probabilities in the summed loss's gradients."""
        right, even = 1 - self.smoothing, self.smoothing / self.weight.shape[0]
        to_states -= right * self.weight[self.target] + even * self.weight.sum(dim=0)
        to_weight.index_add_(0, self.target, self.states, alpha=-right)
        to_weight -= even * self.states.sum(dim=0)
        if to_bias is not None:
            to_bias.index_add_(0, self.target, to_bias.new_ones(()).expand(len(self.target)), alpha=-right)
            to_bias -= even * len(self.target)

    def _smoothed(self, total: Tensor) -> Tensor:
        """Take epsilon times the sum of the mean logits off."""
        if not self.smoothing:
            return total
        mean = self.states.sum(dim=0) @ self.weight.mean(dim=0)
        if self.bias is not None:
            mean = mean + len(self.target) * self.bias.mean()
        return total - self.smoothing * mean


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: _Tokens, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        to_states, to_weight = torch.zeros_like(states), torch.zeros_like(weight)
        to_bias = None if bias is None else torch.zeros_like(bias)
        loss = tokens.loss((to_states, to_weight, to_bias))
        tokens.finish(to_states, to_weight, to_bias)
        ctx.save_for_backward(to_states, to_weight, to_bias)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        to_states, to_weight, to_bias = ctx.saved_tensors
        factor = gradients[0] / max(1, len(to_states))
        to_bias = None if to_bias is None else to_bias * factor
        return None, to_states * factor, to_weight * factor, to_bias
