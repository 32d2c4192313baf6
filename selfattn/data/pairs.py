"""A pair of texts: what goes in, what should come out, and (where known) which part comes from which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import overload


@dataclass(frozen=True, slots=True)
class Span:
    """Where one field stands in the source and in the target: a piece of gold alignment.

    Args:
        field: the field's name, such as ``"year"``.
        source: half-open range of characters in the source, ``(start, end)``.
        target: half-open range of characters in the target, ``(start, end)``.

    Example:
        >>> span = Span("year", source=(13, 17), target=(0, 4))
        >>> "November 13, 2008"[slice(*span.source)], "2008-11-13"[slice(*span.target)]
        ('2008', '2008')
    """

    field: str
    source: tuple[int, int]
    target: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """One example of a task.

    Args:
        source: the text that is read.
        target: the text that should be written.
        tag: the name of the kind of example, for tables "by format"; default ``""`` (no kinds are told apart).
        spans: gold alignment, where the source of the pairs knows it; default none.

    Example:
        >>> Pair("11/13/08", "2008-11-13", tag="en_US short").target
        '2008-11-13'
    """

    source: str
    target: str
    tag: str = ""
    spans: tuple[Span, ...] = ()


def indices(count: int, start: int = 0) -> range:
    """Return the indices from `start` to ``start + count - 1``, of pairs that are found by their index.

    Raises:
        ValueError: a negative number.

    Example:
        >>> indices(2, start=5)
        range(5, 7)
    """
    if count < 0 or start < 0:
        raise ValueError(f"count and start must not be negative, got {count} and {start}")
    return range(start, start + count)


EVERY = slice(0, None, 1)
"""The share of pairs that is all of them."""
_AT_ONCE = 1000  # pairs of a share that are taken from a sequence at once


class DrawnPairs(Sequence[Pair]):
    """Pairs that are found by their index, and made anew whenever one is asked for.

    Args:
        make: gives the pair of an index.
        places: the indices.

    Example:
        >>> drawn = DrawnPairs(lambda index: Pair(str(index), ""), indices(4, start=5))
        >>> len(drawn), drawn[0].source, [pair.source for pair in drawn[1::2]]
        (4, '5', ['6', '8'])
    """

    def __init__(self, make: Callable[[int], Pair], places: range) -> None:
        self.make, self.places = make, places

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> Pair: ...
    @overload
    def __getitem__(self, place: slice) -> DrawnPairs: ...

    def __getitem__(self, place: int | slice) -> Pair | DrawnPairs:
        """Make one pair, or for a slice none yet."""
        if isinstance(place, slice):
            return DrawnPairs(self.make, self.places[place])
        return self.make(self.places[place])


def share_of(pairs: Iterable[Pair], share: slice) -> Iterator[Pair]:
    """Go through a share of pairs; the others are not read where the pairs are a sequence.

    Args:
        pairs: a sequence, or a stream.
        share: from where, and how many further the next is.

    Example:
        >>> [pair.source for pair in share_of([Pair(letter, "") for letter in "abcde"], slice(1, None, 2))]
        ['b', 'd']
    """
    start, step = share.start or 0, share.step or 1
    if not isinstance(pairs, Sequence):
        yield from islice(pairs, start, None, step)
        return
    for first in range(start, len(pairs), _AT_ONCE * step):
        yield from pairs[first : first + _AT_ONCE * step : step]
