"""Hold-out splits that share no sentence: pairs connected by a source or a target stay in one part."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from selfattn.data.pairs import Pair
from selfattn.streams import generator

_NOT_LETTERS = re.compile(r"[\W_]+")


def loose(text: str) -> str:
    """Return the letters and digits of a text, case ignored; a text without any stays as it is.

    Example:
        >>> loose("I'm tired!") == loose("I’m tired."), loose("?!")
        (True, '?!')
    """
    return _NOT_LETTERS.sub("", text.casefold()) or text


def components_of(pairs: Sequence[Pair]) -> NDArray[np.int64]:
    """Number the connected components of pairs: pairs that share a source or a target, directly or through others.

    Args:
        pairs: compared by `loose`.

    Returns:
        [n] number of each pair's component, from 0 in the order of their first pairs.

    Example:
        >>> components_of([Pair("Hi.", "Salut !"), Pair("Hi!", "Bonjour."), Pair("Go.", "Va !")]).tolist()
        [0, 0, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[tuple[str, str], int] = {}
    sources = [numbers.setdefault(("source", loose(pair.source)), len(numbers)) for pair in pairs]
    targets = [numbers.setdefault(("target", loose(pair.target)), len(numbers)) for pair in pairs]
    edges = np.ones(len(pairs), dtype=np.bool_), (sources, targets)
    graph = coo_array(edges, shape=(len(numbers), len(numbers)))
    labels = connected_components(graph, directed=False)[1][sources]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse], dtype=np.int64)


def hold_out_components(components: NDArray[np.int64], sizes: tuple[int, ...], seed: int = 0) -> NDArray[np.int8]:
    """Assign connected components of pairs to parts.

    Components are taken in a random order, for one part after the other, where they fit. Large components (short
    sentences with many translations) therefore stay in the first part more often than small ones.

    Args:
        components: [n] number of each pair's component.
        sizes: pairs of the second part, the third, and so on.
        seed: of the order; default 0.

    Returns:
        [n] the part of each pair, from 0. A part is smaller than its size only where no component fits any more.

    Example:
        >>> hold_out_components(np.array([0, 0, 1]), (1,)).tolist()
        [0, 0, 1]
    """
    members = np.bincount(components)
    order = torch.randperm(len(members), generator=generator(seed, "split")).tolist()
    parts = np.zeros(len(members), dtype=np.int8)
    for part, free in enumerate(sizes, 1):
        for component in order:
            if not free:
                break
            if not parts[component] and members[component] <= free:
                parts[component] = part
                free -= int(members[component])
    return np.asarray(parts[components])
