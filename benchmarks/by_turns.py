"""Two ways of doing the same thing, timed by turns: a busy moment meets both."""

from __future__ import annotations

import statistics
from collections.abc import Callable


def by_turns(
    first: Callable[[], float], second: Callable[[], float], *, pairs: int, warm_up: int = 1
) -> tuple[float, float, float]:
    """Return the median time of each and the median over the pairs of how many times as long the first takes.

    Args:
        first: does it once and returns how long that took.
        second: likewise.
        pairs: how often.
        warm_up: how many pairs go before, uncounted.
    """
    for _ in range(warm_up):
        first(), second()
    taken = [(first(), second()) for _ in range(pairs)]
    one, other = (statistics.median(times) for times in zip(*taken, strict=True))
    return one, other, statistics.median(a / b for a, b in taken)
