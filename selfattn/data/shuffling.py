"""Passes through a finite training set in ever new order: all at once, or place by place at constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import torch

from selfattn.data.pairs import Pair
from selfattn.streams import generator, seed_for

_Item = TypeVar("_Item")


def repeated(items: Sequence[_Item], count: int, *, start: int, seed: int) -> list[_Item]:
    """Take the next ``count`` items of an endless run through them, every pass in an order of its own.

    Args:
        items: at least one.
        count: how many to take.
        start: how many were taken before.
        seed: of the run; pass ``n`` has its stream ``data/lap/n``.

    Example:
        >>> sorted(repeated("abc", 2, start=0, seed=0) + repeated("abc", 1, start=2, seed=0))
        ['a', 'b', 'c']
    """
    taken: list[_Item] = []
    while len(taken) < count:
        number, place = divmod(start + len(taken), len(items))
        order = torch.randperm(len(items), generator=generator(seed, f"data/lap/{number}")).tolist()
        taken += [items[index] for index in order[place : place + count - len(taken)]]
    return taken


def shuffled(pairs: Sequence[Pair], seed: int, *, start: int = 0) -> Iterator[Pair]:
    """Go through all pairs once, in an order that the seed decides, at constant memory.

    The order is a permutation that is computed place by place and never written down, so that a mapped file of any
    length is shuffled as a whole, and going on at place `start` costs nothing.

    Args:
        pairs: with quick random access, such as `selfattn.data.corpus.mapped.MappedPairs`.
        seed: of the order.
        start: how many were taken before; default 0.

    Example:
        >>> pairs = [Pair(letter, letter) for letter in "abcde"]
        >>> order = [pair.source for pair in shuffled(pairs, seed=1)]
        >>> sorted(order), [pair.source for pair in shuffled(pairs, seed=1, start=3)] == order[3:]
        (['a', 'b', 'c', 'd', 'e'], True)
    """
    for place in range(start, len(pairs)):
        yield pairs[permuted(place, len(pairs), seed)]


def shuffled_passes(pairs: Sequence[Pair], seed: int, *, start: int = 0) -> Iterator[Pair]:
    """Go through all pairs again and again without end, every pass in an order of its own, at constant memory.

    Args:
        pairs: at least one; see `shuffled`.
        seed: of the run; pass ``n`` has its stream ``data/lap/n``.
        start: how many were taken before; default 0.

    Example:
        >>> pairs = [Pair(letter, letter) for letter in "abc"]
        >>> passes = shuffled_passes(pairs, seed=0, start=2)
        >>> _, *second = [next(passes).source for _ in range(4)]
        >>> sorted(second)
        ['a', 'b', 'c']
    """
    number, place = divmod(start, len(pairs))
    while True:
        yield from shuffled(pairs, seed_for(seed, f"data/lap/{number}"), start=place)
        number, place = number + 1, 0


def permuted(place: int, size: int, seed: int) -> int:
    """Return where a pseudo-random permutation of ``range(size)`` sends a place.

    A Feistel network of four rounds (Luby and Rackoff, 1988) permutes the numbers of an even number of bits; what
    falls outside the range is sent on until it falls inside (Black and Rogaway, 2002), at most four times on average.

    Args:
        place: from 0 to ``size - 1``.
        size: at least 1.
        seed: of the permutation.

    Example:
        >>> sorted(permuted(place, 7, seed=0) for place in range(7))
        [0, 1, 2, 3, 4, 5, 6]
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = place >> half, place & mask
        for turn in range(4):
            left, right = right, left ^ (_mixed(right + (turn << 60), seed) & mask)
        place = left << half | right
        if place < size:
            return place


def _mixed(number: int, seed: int) -> int:
    """Mix 64 bits as SplitMix64 does (Steele, Lea and Flood, 2014)."""
    word = (number + (seed + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return word ^ word >> 31
