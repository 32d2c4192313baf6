"""A decoder's state as a list of tensors, which is all that other programs can hand over from step to step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from torch import Tensor


def tensors_of(tree: Any, name: str = "state") -> Iterator[tuple[str, Tensor]]:
    """Go through the tensors of a state, with names that say where they stand.

    Args:
        tree: a state of any family: dataclasses and tuples of tensors, nested at will.
        name: of the whole.

    Example:
        >>> import torch
        >>> from selfattn.attention import KeyValue
        >>> cache = KeyValue(torch.zeros(1, 2, 0, 4), torch.zeros(1, 2, 0, 4))
        >>> [name for name, _ in tensors_of((cache, torch.zeros(1)))]
        ['state.0.key', 'state.0.value', 'state.1']
    """
    if isinstance(tree, Tensor):
        yield name, tree
    elif isinstance(tree, tuple):
        for place, part in enumerate(tree):
            yield from tensors_of(part, f"{name}.{place}")
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            yield from tensors_of(getattr(tree, field.name), f"{name}.{field.name}")


def with_tensors(tree: Any, tensors: Iterator[Tensor]) -> Any:
    """Return the state with other tensors, in the order of :func:`tensors_of`."""
    if isinstance(tree, Tensor):
        return next(tensors)
    if isinstance(tree, tuple):
        return tuple(with_tensors(part, tensors) for part in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = {field.name: with_tensors(getattr(tree, field.name), tensors) for field in dataclasses.fields(tree)}
        return type(tree)(**parts)
    return tree


def completed(state: Any, first: Any, rows: Any) -> Any:
    """Write out what a state leaves out before the first step: a cache of no keys, zeros for anything else.

    Args:
        state: before the first step.
        first: an example of one that is complete, as :func:`first_of` makes it.
        rows: of the state.
    """
    if state is None and isinstance(first, Tensor):
        return first if first.shape == (0,) else first.new_zeros(rows, *first.shape[1:])  # positions have no rows
    if isinstance(first, tuple):
        return tuple(completed(*pair, rows) for pair in zip_longest(state or (), first))
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in dataclasses.fields(first)]
        parts = {name: completed(getattr(state, name, None), getattr(first, name), rows) for name in names}
        return type(first)(**parts)
    return first if state is None else state


def first_of(once: Any, twice: Any) -> Any:
    """Make an example of a complete state before the first step from those after one and after two: what has grown by
    a step is empty before them.

    Example:
        >>> import torch
        >>> first_of((torch.ones(3, 1), torch.ones(3)), (torch.ones(3, 2), torch.ones(3)))[0].shape
        torch.Size([3, 0])
    """
    pairs = zip(tensors_of(once), tensors_of(twice), strict=True)
    zeros = [
        one.new_zeros([2 * a - b for a, b in zip(one.shape, two.shape, strict=True)]) for (_, one), (_, two) in pairs
    ]
    return with_tensors(once, iter(zeros))
