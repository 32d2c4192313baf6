"""A pair of texts: what goes in, what should come out, and (where known) which part comes from which."""

from __future__ import annotations

from dataclasses import dataclass


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
