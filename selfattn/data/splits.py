"""Hold-out splits: which items are trained on and which are held out, and whether a test pair was trained on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal, TypeVar

import numpy as np
import torch

from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.streams import generator

Split = Literal["train", "valid", "test"]
"""The three parts of any data."""

BOOK_SEED = 1984
_SPLIT_SEED = 0  # the same for every run, so that all runs have the same parts

Item = TypeVar("Item")


def hold_out(
    items: Sequence[Item], key: Callable[[Item], Hashable], most: int | None = None
) -> tuple[list[Item], list[Item]]:
    """Shuffle, and hold a tenth of the distinct keys out; what has the same key stays together.

    Args:
        items: to be split; the order that comes out is that of a fixed seed.
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


def book_split(pairs: Sequence[Pair], seed: int = BOOK_SEED) -> tuple[list[Pair], list[Pair]]:
    """Split as the book does: NumPy's legacy generator with this seed, shuffle, the last tenth is the test.

    Args:
        pairs: at least 10.
        seed: of ``numpy.random.RandomState``; default 1984, the book's.

    Returns:
        Training pairs and test pairs, each in shuffled order.

    Raises:
        UserError: fewer than 10 pairs.

    Example:
        >>> train, test = book_split([Pair(str(n), str(n)) for n in range(20)])
        >>> len(train), len(test)
        (18, 2)
    """
    if len(pairs) < 10:
        raise UserError(f"{len(pairs)} pairs are too few to split: the test is a tenth; give 10 or more")
    order = np.arange(len(pairs))
    np.random.RandomState(seed).shuffle(order)
    cut = len(pairs) - len(pairs) // 10
    shuffled = [pairs[index] for index in order.tolist()]
    return shuffled[:cut], shuffled[cut:]


def split_pairs(
    pairs: Sequence[Pair], validation_items: int, *, label: str, book: bool = False
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Split the pairs of a file: a tenth for the test, then some for validation, the rest for training.

    The book's file has its own split (`book_split`), and its validation pairs are the last of its training part. Any
    other is split by its sources (`hold_out`), so that a source which stands in it several times is in one part only.

    Args:
        pairs: 100 or more.
        validation_items: pairs taken from the training part for validation; a tenth of it at most.
        label: of the file, for the error message.
        book: whether it is the book's file; default False.

    Returns:
        The pairs for training, for validation and for the test; the same for every seed of a run.

    Raises:
        UserError: too few pairs.

    Example:
        >>> pairs = [Pair(str(number), "") for number in range(100)]
        >>> [len(part) for part in split_pairs(pairs, 5, label="a.tsv")]
        [85, 5, 10]
    """
    rest, test = book_split(pairs) if book else hold_out(pairs, lambda pair: pair.source)
    count = min(validation_items, len(rest) // 10)
    while not book and 0 < count < len(rest) and rest[-count].source == rest[-count - 1].source:
        count += 1  # a source stands on one side of the cut
    if not count or not test:
        raise UserError(f"{label}: {len(pairs)} pairs are too few for three parts; give 100 or more")
    return rest[:-count], rest[-count:], test


def seen(test: Sequence[Pair], train: Sequence[Pair], *, casefold: bool = False) -> list[bool]:
    """Say for each test pair whether the training pairs have it too (source and target): recall, not skill.

    Args:
        test: pairs to look up.
        train: pairs to look among.
        casefold: ignore case; default False.

    Example:
        >>> seen([Pair("MAY", "5"), Pair("June", "6")], [Pair("May", "5")], casefold=True)
        [True, False]
    """

    def key(pair: Pair) -> tuple[str, str]:
        return (pair.source.casefold(), pair.target.casefold()) if casefold else (pair.source, pair.target)

    known = {key(pair) for pair in train}
    return [key(pair) in known for pair in test]
