"""Boolean masks, True = may attend; combine them with ``&``.

The sense is that of ``scaled_dot_product_attention``, Flax and Keras, and the reverse of ``nn.MultiheadAttention``.
"""

from __future__ import annotations

import torch
from torch import Tensor

HIDDEN = -1e30  # its exponential is 0, and it is finite in float32 and bfloat16


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """Mark the real tokens of right-padded rows.

    Args:
        lengths: int ``[b]``, tokens in each row.
        size: the padded length ``s``.

    Returns:
        bool ``[b s]``, True where ``position < length``.

    Example:
        >>> padding_mask(torch.tensor([1, 3]), 3).int().tolist()
        [[1, 0, 0], [1, 1, 1]]
    """
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def key_mask(tokens: Tensor) -> Tensor:
    """Turn a token mask ``[b s]`` into an attention mask ``[b 1 1 s]``: every query may see these keys.

    Example:
        >>> key_mask(torch.ones(2, 5, dtype=torch.bool)).shape
        torch.Size([2, 1, 1, 5])
    """
    return tokens[:, None, None, :]


def hide(seen: Tensor) -> Tensor:
    """Say a mask as a bias, ``HIDDEN`` where it is False: cheaper where many steps attend by it.

    :func:`~selfattn.attention.core.attend` keeps what a mask hides from being read at all, at some cost in each call.
    A bias does not: what is hidden must be finite, and every query must see a key.

    Example:
        >>> hide(torch.tensor([True, False])).exp().tolist()
        [1.0, 0.0]
    """
    return torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, HIDDEN)


def hide_keys(tokens: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Say a token mask ``[b s]`` so that attending by it many times costs least.

    Returns:
        An attention mask and a bias, each ``[b 1 1 s]`` or None: neither where every token is real, a bias where some
        are not, and the mask where a row has no real token at all.

    Example:
        >>> hide_keys(torch.ones(2, 5, dtype=torch.bool))
        (None, None)
    """
    mask = key_mask(tokens)
    if tokens.all():
        return None, None
    return (None, hide(mask)) if tokens.any(dim=1).all() else (mask, None)


def all_real(tokens: Tensor) -> bool:
    """Whether a token mask is known to hide nothing, so that all work for padding can be left out.

    False where the answer would have to be waited for (a device), or does not exist yet (a graph that is exported).

    Example:
        >>> all_real(torch.ones(2, 5, dtype=torch.bool)), all_real(torch.tensor([[True, False]]))
        (True, False)
    """
    return tokens.is_cpu and not torch.compiler.is_exporting() and bool(tokens.all())


def causal_mask(i: int, j: int, *, device: torch.device | str | None = None) -> Tensor:
    """Hide the future, right-aligned: the last of ``i`` queries sees all ``j`` keys.

    Args:
        i: number of queries.
        j: number of keys; the queries are the last ``i`` of the ``j`` positions.
        device: where the mask lies; default the CPU.

    Returns:
        bool ``[i j]``, True where ``key <= query + (j - i)``.

    Example:
        >>> causal_mask(2, 3).int().tolist()
        [[1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(i, j, dtype=torch.bool, device=device).tril(j - i)


def allowed_mask(
    i: int, j: int, *, mask: Tensor | None, causal: bool, device: torch.device | str | None = None
) -> Tensor | None:
    """Join what attention is told in two ways: its ``mask``, and whether it is ``causal``.

    Args:
        i: number of queries.
        j: number of keys.
        mask: bool, broadcastable to ``[b h i j]``, or None: nothing is hidden.
        causal: also hide the future, right-aligned.
        device: where a new mask lies; default the CPU.

    Returns:
        bool, broadcastable to ``[b h i j]``, or None where nothing is hidden.

    Example:
        >>> allowed_mask(2, 2, mask=torch.tensor([[False, True]]), causal=True).int().tolist()
        [[0, 0], [0, 1]]
    """
    if not causal or i == 1 <= j:  # a single query is the last: it has no future
        return mask
    future = causal_mask(i, j, device=device)
    return future if mask is None else mask & future


def check_mask(mask: Tensor, full: tuple[int, int, int, int]) -> None:
    """Hold a mask against the scores it is for.

    Args:
        mask: what should be bool and broadcastable to ``[b h i j]``.
        full: the sizes ``b, h, i, j``.

    Raises:
        ValueError: it does not broadcast to ``[b h i j]``.
        TypeError: it is not bool.

    Example:
        >>> check_mask(torch.ones(5, 7), (2, 3, 5, 7))
        Traceback (most recent call last):
        ...
        TypeError: attend: expected a bool mask, True = may attend, got torch.float32
    """
    check_broadcasts("mask", mask, full)
    if mask.dtype != torch.bool:
        raise TypeError(f"attend: expected a bool mask, True = may attend, got {mask.dtype}")


def check_broadcasts(name: str, tensor: Tensor, full: tuple[int, int, int, int]) -> None:
    """Hold a mask or a bias against the scores it is for.

    Args:
        name: what to call it in the message.
        tensor: the mask or bias.
        full: the sizes ``b, h, i, j``.

    Raises:
        ValueError: it does not broadcast to ``[b h i j]``.

    Example:
        >>> check_broadcasts("mask", torch.ones(5, 1), (2, 3, 5, 7))
        >>> check_broadcasts("mask", torch.ones(2, 7), (2, 3, 5, 7))
        Traceback (most recent call last):
        ...
        ValueError: attend: expected a mask that broadcasts to [b h i j] (2, 3, 5, 7), got (2, 7)
    """
    sizes = zip(reversed(tensor.shape), reversed(full), strict=False)
    if tensor.dim() > 4 or any(size not in (1, whole) for size, whole in sizes):
        raise ValueError(
            f"attend: expected a {name} that broadcasts to [b h i j] {tuple(full)}, got {tuple(tensor.shape)}"
        )


def sliding_window_mask(i: int, j: int, window: int, *, device: torch.device | str | None = None) -> Tensor:
    """Causal and local: each query sees itself and the ``window - 1`` keys before it.

    Beltagy et al. 2020, "Longformer", section 3.1.

    Args:
        i: number of queries, the last ``i`` of the ``j`` positions.
        j: number of keys.
        window: how many keys a query sees at most, itself included; at least 1.
        device: where the mask lies; default the CPU.

    Returns:
        bool ``[i j]``.

    Raises:
        ValueError: ``window`` is less than 1.

    Example:
        >>> sliding_window_mask(3, 3, 2).int().tolist()
        [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    if window < 1:
        raise ValueError(f"sliding_window_mask: window must be at least 1, got {window}")
    return causal_mask(i, j, device=device).triu(j - i - window + 1)
