"""Two models set against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Word = Literal["better", "worse", "no difference seen", "too few seeds to tell"]


@dataclass(frozen=True)
class PairTest:
    """Two models set against each other on one metric.

    Args:
        first: name of a model.
        second: name of another.
        metric: what is compared.
        difference: first minus second.
        low: lower end of the 95 % interval of the difference.
        high: upper end.
        p: of the test, before the correction.
        p_holm: corrected for all pairs of this metric.
        word: what may be said of the first.
    """

    first: str
    second: str
    metric: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    word: Word
