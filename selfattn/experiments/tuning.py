"""Tuning: try settings for every arm, take the best, and widen the search where a best lies at an edge."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K")
S = TypeVar("S")
Losses = Sequence[tuple[float, float]]


def search(
    settings: Mapping[K, Sequence[S]],
    measure: Callable[[Mapping[K, Sequence[S]]], Mapping[K, Losses]],
    beyond: Callable[[K, Sequence[S], int], Sequence[S]],
    *,
    widenings: int,
) -> tuple[Mapping[K, Sequence[S]], Mapping[K, int]]:
    """Find the best setting of each arm.

    Args:
        settings: to try for each arm.
        measure: returns the loss of each setting, and a second one that breaks ties.
        beyond: returns further settings for an arm, given those tried and the index of the best.
        widenings: most times that the search is widened.

    Returns:
        The settings of each arm in the order in which they were tried, and for each arm the index of its best one.

    Example:
        >>> def measure(tried): return {arm: [(abs(rate - 4), 0) for rate in rates] for arm, rates in tried.items()}
        >>> def beyond(arm, rates, best): return [2 * max(rates)] if rates[best] == max(rates) else []
        >>> search({"a": [1, 2]}, measure, beyond, widenings=3)
        ({'a': [1, 2, 4, 8]}, {'a': 2})
    """
    tried = {arm: list(first) for arm, first in settings.items()}
    while True:
        losses = measure(tried)
        best = {arm: min(range(len(same)), key=same.__getitem__) for arm, same in losses.items()}
        more = {arm: beyond(arm, same, best[arm]) for arm, same in tried.items()} if widenings else {}
        if not any(more.values()):
            return tried, best
        tried, widenings = {arm: [*same, *more[arm]] for arm, same in tried.items()}, widenings - 1
