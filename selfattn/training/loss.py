"""The loss: cross-entropy over real tokens."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def token_loss(logits: Tensor, target: Tensor, target_mask: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    r"""Mean negative log-likelihood of the target's real tokens, in nats a token.

    With smoothing :math:`\epsilon` the target distribution is :math:`(1 - \epsilon)` on the right token plus
    :math:`\epsilon / v` on every token (Szegedy et al. 2016, section 7). Computed in at least float32. Padding has
    no part in it: not in the sum, not in the count, not in the gradient.

    Args:
        logits: ``[b t v]``.
        target: the right tokens ``[b t]``, int64.
        target_mask: bool ``[b t]``, True = real token; at least one.
        label_smoothing: ``epsilon`` in [0, 1); default 0.

    Returns:
        A scalar; NaN where no token is real.

    Example:
        >>> import torch
        >>> logits, mask = torch.zeros(1, 2, 4), torch.tensor([[True, False]])
        >>> round(token_loss(logits, torch.tensor([[3, 0]]), mask).item(), 4)  # log 4
        1.3863
    """
    real = logits[target_mask]
    if real.dtype.itemsize < 4:
        real = real.float()
    return functional.cross_entropy(real, target[target_mask], label_smoothing=label_smoothing)
