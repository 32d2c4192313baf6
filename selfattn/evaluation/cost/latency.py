"""Latency: how long the answer to a single input takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence


def median_ms(predict: Callable[[list[str]], object], texts: Sequence[str], *, warm_up: int = 3) -> float:
    """Measure how long each text takes when it is asked alone; return the median.

    Args:
        predict: answers a list of texts; is called with one at a time; must return only when its work on a GPU is done.
        texts: the inputs, at least one.
        warm_up: untimed calls before the first timed one, with the same texts; default 3.

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
