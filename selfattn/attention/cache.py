"""Projected keys and values, and the cache of a decoder, in which they grow at every step.

Axis letters are those of :mod:`selfattn.attention.core`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class KeyValue:
    """Projected keys and values.

    :meth:`~selfattn.attention.layer.MultiHeadAttention.project_context` makes them, and the caller hands them over.

    Attributes:
        key: ``[b h j e]``.
        value: ``[b h j c]``.
        positions: ``[j]`` or ``[b j]``, where in its text each key stands; None where no position is used.
        shared_by: how many consecutive rows of queries attend to each row, such as the hypotheses of a source in a
            beam search; default 1.
    """

    key: Tensor
    value: Tensor
    positions: Tensor | None = None
    shared_by: int = 1

    def reorder(self, index: Tensor) -> KeyValue:
        """Pick rows along the batch axis, int64 ``[new b]``."""
        key = self.key.index_select(0, index)
        value = self.value.index_select(0, index)
        return KeyValue(key, value, self.picked_positions(index), self.shared_by)

    def picked_positions(self, index: Tensor) -> Tensor | None:
        """Return the positions of some rows; ``[j]`` are those of every row."""
        rows = self.positions
        return rows if rows is None or rows.dim() == 1 else rows.index_select(0, index)


@dataclass
class _Store:
    """Memory that caches grow into.

    Attributes:
        memory: ``[capacity b h (e c)]``, keys and values side by side. Positions come first, so that those in use lie
            in one piece.
        used: positions taken by the longest cache that lies here.
    """

    memory: Tensor
    used: int

    def entries(self, count: int, width: int, positions: Tensor | None) -> KeyValue:
        """Return the first ``count`` keys, of this width, and values as views."""
        both = self.memory[:count].permute(1, 2, 0, 3)
        key, value = torch.split(both, [width, both.shape[-1] - width], dim=-1)
        return KeyValue(key, value, positions)


@dataclass(frozen=True)
class Cache:
    """Keys and values of all positions read so far.

    Attributes:
        entries: the keys and values.
        store: the memory that they are the beginning of; None where they lie by themselves.
    """

    entries: KeyValue
    store: _Store | None = None

    @property
    def length(self) -> int:
        """Number of positions."""
        return self.entries.key.shape[-2]

    def next_positions(self, count: int) -> Tensor:
        """Return the positions of the next tokens, ``[i]`` or ``[b i]``: behind that of the last key, if it has one."""
        following = torch.arange(count, device=self.entries.key.device)
        positions = self.entries.positions
        if positions is None:
            return self.length + following
        last = F.pad(positions, (1, 0), value=-1)[
            ..., -1:
        ]  # -1 where there is no key: no branch in an exported program
        return last + 1 + following

    def append(self, new: KeyValue) -> Cache:
        """Return the cache with the keys and values of later positions behind it.

        Without gradients it grows in place and is copied only now and then; a compiled graph joins copies. Caches
        handed out before stay as they were, also where two go on from the same.

        Raises:
            ValueError: only one side has positions, or rows, heads, widths or dtypes differ.
        """
        old = self.entries
        positions = None
        if not torch.compiler.is_compiling():  # a graph compares no sizes
            _check_fits(old, new)
        if (old.positions is None) != (new.positions is None):
            raise ValueError("positions: keys in the cache and new ones must both have positions, or neither")
        if old.positions is not None and new.positions is not None:
            # Positions that are the same in every row, [j], may meet those of each row, [b j].
            rows = max(old.positions.shape[:-1], new.positions.shape[:-1])
            positions = torch.cat([part.expand(*rows, -1) for part in (old.positions, new.positions)], dim=-1)
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return Cache(KeyValue(torch.cat([old.key, new.key], -2), torch.cat([old.value, new.value], -2), positions))
        length = self.length
        total = self.length + new.key.shape[-2]
        store = self.store
        if store is None or store.used != length or total > len(store.memory):
            both = torch.cat([old.key, old.value], dim=-1).permute(2, 0, 1, 3)
            store = _Store(both.new_empty(2 * total + 14, *both.shape[1:]), length)
            store.memory[:length] = both
        store.used = total
        store.memory[length:total] = torch.cat([new.key, new.value], dim=-1).permute(2, 0, 1, 3)
        return Cache(store.entries(total, old.key.shape[-1], positions), store)

    def reorder(self, index: Tensor) -> Cache:
        """Pick rows along the batch axis, int64 ``[new b]``; memory to grow into stays."""
        if self.store is None:
            return Cache(self.entries.reorder(index))
        memory = self.store.memory
        length = self.length
        store = _Store(memory.new_empty(len(memory), len(index), *memory.shape[2:]), length)
        torch.index_select(memory[:length], 1, index, out=store.memory[:length])
        positions = self.entries.picked_positions(index)
        return Cache(store.entries(length, self.entries.key.shape[-1], positions), store)


def _check_fits(old: KeyValue, new: KeyValue) -> None:
    """Hold new keys and values against those of the cache: broadcasting would give a single row to every text."""
    for name, before, after in (("keys", old.key, new.key), ("values", old.value, new.value)):
        sizes = (*before.shape[:2], before.shape[3])
        if (*after.shape[:2], after.shape[3]) != sizes or after.dtype != before.dtype:
            kinds = f"{tuple(before.shape)} {before.dtype}, got {tuple(after.shape)} {after.dtype}"
            raise ValueError(f"cache: expected {name} [b h j e] that go on from {kinds}")
