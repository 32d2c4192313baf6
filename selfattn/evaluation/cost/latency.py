"""How long an answer takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence


def median_ms(predict: Callable[[list[str]], object], texts: Sequence[str], *, warm_up: int = 3) -> float:
    """Time one input alone, for each of the texts; give the median.

    Args:
        predict: answers a list of texts; gets one at a time.
        texts: what to ask, at least one.
        warm_up: calls that are not counted before; default 3.

    Returns:
        Milliseconds.

    Raises:
        ValueError: no texts.

    Example:
        >>> median_ms(lambda texts: texts[0].upper(), ["a", "b"]) >= 0
        True
    """
    if not texts:
        raise ValueError("median_ms needs at least one text")
    for k in range(warm_up):
        predict([texts[k % len(texts)]])
    times = []
    for text in texts:
        started = time.perf_counter()
        predict([text])
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)
