"""A finite store, dealt out: parts that share nothing, and epochs of any size in ever new order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import torch

from selfattn.streams import generator

_SPLIT_SEED = 0  # the same for every run, so that all runs have the same parts

Item = TypeVar("Item")


def hold_out(
    items: Sequence[Item], key: Callable[[Item], Hashable], most: int | None = None
) -> tuple[list[Item], list[Item]]:
    """Shuffle, and hold a tenth of the distinct keys out; what has the same key stays together.

    Args:
        items: what to deal; the order that comes out is that of a fixed seed.
        key: what must not be in both parts.
        most: keys held out at most; default no bound.

    Returns:
        The rest, and what is held out.

    Example:
        >>> rest, held_out = hold_out(["a"] * 3 + list("bcdefghijk"), key=lambda item: item)
        >>> len(rest) + len(held_out), len(set(held_out)), set(rest) & set(held_out)
        (13, 1, set())
    """
    keys = list(dict.fromkeys(key(item) for item in items))
    order = torch.randperm(len(keys), generator=generator(_SPLIT_SEED, "split")).tolist()
    count = len(keys) // 10 if most is None else min(most, len(keys) // 10)
    place = {keys[index]: rank for rank, index in enumerate(order)}
    shuffled = sorted(items, key=lambda item: place[key(item)])
    return (
        [item for item in shuffled if place[key(item)] >= count],
        [item for item in shuffled if place[key(item)] < count],
    )


def laps(items: Sequence[Item], count: int, *, start: int, seed: int) -> list[Item]:
    """Take ``count`` items from an endless run through them, every lap in an order of its own.

    Args:
        items: at least one.
        count: how many to take.
        start: how many were taken before.
        seed: of the run; lap ``n`` has its stream ``data/lap/n``.

    Example:
        >>> sorted(laps("abc", 2, start=0, seed=0) + laps("abc", 1, start=2, seed=0))
        ['a', 'b', 'c']
    """
    found: list[Item] = []
    while len(found) < count:
        lap, place = divmod(start + len(found), len(items))
        order = torch.randperm(len(items), generator=generator(seed, f"data/lap/{lap}")).tolist()
        found += [items[index] for index in order[place : place + count - len(found)]]
    return found
