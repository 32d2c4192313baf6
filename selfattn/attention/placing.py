"""Positions inside attention: turn queries and keys, add biases, check the axes of what a position returns."""

import torch
from torch import Tensor

from selfattn.attention.positions import AttentionPosition
from selfattn.attention.projections import KeyValue


def rotated(position: AttentionPosition, x: Tensor, positions: Tensor) -> Tensor:
    """Turn queries or keys by their positions.

    Args:
        position: of the layer.
        x: ``[b h i e]``.
        positions: ``[i]`` or ``[b i]``.

    Raises:
        ValueError: the position returns another shape.
    """
    turned = position.rotate(x, positions)
    if turned.shape != x.shape:
        name = type(position).__name__
        got = tuple(turned.shape)
        raise ValueError(f"MultiHeadAttention: expected {name}.rotate to keep {tuple(x.shape)}, got {got}")
    return turned


def placed(
    position: AttentionPosition, query: Tensor, keys: KeyValue, positions: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Turn queries by their positions, and add what the positions add to the scores to the bias.

    Args:
        position: of the layer.
        query: ``[b h i e]``.
        keys: projected with positions.
        positions: of the queries, ``[i]`` or ``[b i]``; None for the last ``i`` of the keys' positions.
        bias: broadcastable to ``[b h i j]``, or None.

    Raises:
        ValueError: the keys have no positions, there are not as many positions as queries, or the position returns
            another shape.
    """
    if keys.positions is None:
        raise ValueError("MultiHeadAttention: the layer uses positions, but context was projected without any")
    i = query.shape[2]
    if positions is None:
        positions = keys.positions[..., max(0, keys.positions.shape[-1] - i) :]
    check_positions(positions, i, "queries")
    query = rotated(position, query, positions)
    added = position.bias(positions, keys.positions)
    if added is None:
        return query, bias
    rows = max(positions.dim(), keys.positions.dim()) - 1
    _check_bias(position, added, [*query.shape[1 - rows : 3], keys.key.shape[2]])
    return query, added if bias is None else bias + added


def check_positions(positions: Tensor, expected: int, of: str) -> None:
    """Check that there are as many positions as vectors.

    Args:
        positions: ``[i]`` or ``[b i]``.
        expected: number of vectors.
        of: what they are, for the message.

    Raises:
        ValueError: there are more or fewer, or they have other axes.
        TypeError: they are bool, or integers of 8 or 16 bits, whose differences wrap around.
    """
    if not positions.is_floating_point() and positions.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"MultiHeadAttention: expected positions of {of} as int64, got {positions.dtype}")
    if positions.dim() not in (1, 2):
        raise ValueError(f"MultiHeadAttention: expected positions of {of} [i] or [b i], got {tuple(positions.shape)}")
    if positions.shape[-1] != expected:
        raise ValueError(
            f"MultiHeadAttention: expected {expected} positions of {of}, got {positions.shape[-1]}; "
            "state positions= where the queries are not the last of the keys"
        )


def _check_bias(position: AttentionPosition, bias: Tensor, full: list[int]) -> None:
    """Hold a bias against its axes: with as many rows as heads ``[b i j]`` would pass for ``[h i j]``."""
    if bias.dim() != len(full) or any(size not in (1, n) for size, n in zip(bias.shape, full, strict=True)):
        axes = "[h i j]" if len(full) == 3 else "[b h i j]"
        raise ValueError(
            f"MultiHeadAttention: expected {type(position).__name__}.bias to return {axes} {tuple(full)} for these "
            f"positions, got {tuple(bias.shape)}"
        )
