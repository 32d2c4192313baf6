"""Hold-out splits that share no sentence: connected components of pairs, by source or target, are never divided."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from selfattn.streams import generator

_NOT_LETTERS = re.compile(r"[\W_]+")


def digest(text: str) -> bytes:
    """Return 16 bytes that stand for the text: two different texts never have the same, for all that can be tried."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def loose(text: str) -> str:
    """Return what two texts have in common that differ in case, spaces and punctuation only.

    Example:
        >>> loose("I'm tired!") == loose("I’m tired."), loose("?!")
        (True, '?!')
    """
    return _NOT_LETTERS.sub("", text.casefold()) or text


def numbered(digests: bytes | bytearray) -> NDArray[np.int64]:
    """Number texts by their digests, put one behind the other: the same text has the same number.

    Example:
        >>> numbers = numbered(b"".join(map(digest, ["a", "b", "a"])))
        >>> bool(numbers[0] == numbers[2]), sorted(set(numbers.tolist()))
        (True, [0, 1])
    """
    return np.asarray(np.unique(np.frombuffer(digests, dtype="S16"), return_inverse=True)[1], dtype=np.int64)


def first_of_each(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark where each number stands for the first time.

    Example:
        >>> first_of_each(np.array([7, 5, 7, 7, 2])).tolist()
        [True, True, False, False, True]
    """
    return np.isin(np.arange(len(numbers)), np.unique(numbers, return_index=True)[1])


def connected(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the connected components of pairs: by a source or a target in common, directly or through others.

    Args:
        source: [n] number of each pair's source.
        target: [n] number of each pair's target.

    Returns:
        [n] numbers of components, 0 for the one that begins first, and so on.

    Example:
        >>> connected(np.array([0, 1, 0, 2]), np.array([0, 1, 2, 2])).tolist()
        [0, 1, 0, 0]
    """
    # Each pair points to the earliest it knows of in its component. The pairs of one sentence agree on the earliest
    # among them; pointing on (label[label]) then doubles how far word goes each time, till nothing changes.
    label = np.arange(len(source))
    while True:
        before = label
        for side in (source, target):
            earliest = np.full(int(side.max(initial=-1)) + 1, len(source))
            np.minimum.at(earliest, side, label)
            label = earliest[side]
        label = label[label]
        if np.array_equal(label, before):
            return np.asarray(np.unique(label, return_inverse=True)[1], dtype=np.int64)


def components_of(pairs: Iterable[tuple[str, str]]) -> NDArray[np.int64]:
    """Number the connected components of pairs, their texts compared by letters and digits, case ignored.

    Args:
        pairs: source and target of each.

    Returns:
        [n] numbers of components, as `connected` gives them.

    Example:
        >>> components_of([("Hi.", "Salut !"), ("Hi!", "Bonjour."), ("Go.", "Va !")]).tolist()
        [0, 0, 1]
    """
    sides = bytearray(), bytearray()
    for pair in pairs:
        for side, text in zip(sides, pair, strict=True):
            side += digest(loose(text))
    return connected(numbered(sides[0]), numbered(sides[1]))


def hold_out_components(components: NDArray[np.int64], sizes: tuple[int, ...], seed: int = 0) -> NDArray[np.int8]:
    """Put whole components of pairs into parts.

    Components are taken in an order of the seed, for one part after the other, wherever they still fit. So large ones
    (short sentences with many translations) stay in the first part more often than small ones do.

    Args:
        components: [n] number of each pair's component.
        sizes: how many pairs the second part should have, and the third, and so on.
        seed: of the order; default 0.

    Returns:
        [n] the part of each pair, from 0. A part has fewer pairs than wanted only where no component fits any more.

    Example:
        >>> hold_out_components(np.array([0, 0, 1]), (1,)).tolist()
        [0, 0, 1]
    """
    members = np.bincount(components)
    order = torch.randperm(len(members), generator=generator(seed, "split")).tolist()
    parts = np.zeros(len(members), dtype=np.int8)
    for part, size in enumerate(sizes, 1):
        room = size
        for component in order:
            if not room:
                break
            if not parts[component] and members[component] <= room:
                parts[component] = part
                room -= int(members[component])
    return np.asarray(parts[components])
