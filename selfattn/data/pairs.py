"""A pair of texts with its gold alignment, and pairs made on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


class DrawnPairs(Sequence[Pair]):
    """A sequence of pairs that are made from their index on each access.

    Args:
        make: gives the pair of an index.
        places: the indices.

    Example:
        >>> drawn = DrawnPairs(lambda index: Pair(str(index), ""), range(5, 9))
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
