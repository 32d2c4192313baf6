"""Whether two systems' scores on the same items differ by chance: the test by approximate randomisation.

Letters: `i` test items, `k` counts an item, `n` shuffles.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from selfattn.evaluation.metrics.metric import Array

SHUFFLES = 10_000
SEED = 12345  # sacreBLEU's
_ENUMERATED = 14  # most differing items for which every exchange is scored: half of them, by symmetry, is 8,192
_AT_ONCE = 512  # shuffles held in memory together
_TIE = 1e-10  # difference of two scores that are equal but for rounding


class Randomisation(NamedTuple):
    """Result of the test.

    Attributes:
        p: two-sided.
        shuffles: how many were drawn; None where every exchange was scored.
    """

    p: float
    shuffles: int | None


def randomisation_test(
    first: Array, second: Array, score: Callable[[Array], Array], seed: int | None = SEED
) -> Randomisation:
    r"""Test the difference of two scores by exchanging the systems' outputs item by item.

    If the systems were interchangeable, any choice of items whose outputs change places might have been observed. p is
    the share of choices whose difference is at least as large as the observed one (Noreen 1989; Riezler and Maxwell
    2005). Ties count, unlike in sacreBLEU 2.6, which therefore gives equal systems the smallest p of all.

    With at most 14 items that differ, all choices are scored, and p is exact. Otherwise 10,000 are drawn, as sacreBLEU
    draws them, and of these :math:`r` are as large: :math:`p = (r + 1) / (n + 1)`.

    Args:
        first: counts ``[i k]`` of a system.
        second: counts ``[i k]`` of the other.
        score: from sums ``[n k]`` to scores ``[n]``.
        seed: of the shuffles; default sacreBLEU's; None draws others every time.

    Example:
        >>> from selfattn.evaluation.metrics.metric import ratio
        >>> right = np.ones((100, 2))
        >>> wrong = right.copy()
        >>> wrong[:5, 0] = 0.0
        >>> randomisation_test(right, wrong, ratio), 2 * 0.5**5
        (Randomisation(p=0.0625, shuffles=None), 0.0625)
        >>> randomisation_test(right, right, ratio).p
        1.0
    """
    total = first.sum(axis=0) + second.sum(axis=0)
    observed = abs(_differences(first.sum(axis=0)[None], total, score)[0])
    differing = np.flatnonzero((first != second).any(axis=1))
    count = len(differing)
    if count <= _ENUMERATED:
        numbers = np.arange(2 ** max(0, count - 1))
        swapped = (numbers[:, None] >> np.arange(count)) % 2 == 1  # the last differing item never changes place
        base = first.sum(axis=0)
        change = (second - first)[differing]
        as_large = _as_large(swapped, base, change, total, score, observed)
        return Randomisation(as_large / len(numbers), None)
    taken = np.random.default_rng(seed).integers(2, size=(SHUFFLES, len(first)), dtype=bool)
    as_large = _as_large(taken, second.sum(axis=0), first - second, total, score, observed)
    return Randomisation((as_large + 1) / (SHUFFLES + 1), SHUFFLES)


def _as_large(
    chosen: npt.NDArray[np.bool_],
    base: Array,
    change: Array,
    total: Array,
    score: Callable[[Array], Array],
    observed: float,
) -> int:
    """Count the choices ``[n i]`` of items to exchange whose difference is at least the observed one."""
    as_large = 0
    for start in range(0, len(chosen), _AT_ONCE):
        sums = base + chosen[start : start + _AT_ONCE] @ change
        as_large += int(np.sum(abs(_differences(sums, total, score)) >= observed - _TIE))
    return as_large


def _differences(sums: Array, total: Array, score: Callable[[Array], Array]) -> Array:
    """Return the score of a system with these sums minus that of the system with all other outputs."""
    return score(sums) - score(total - sums)
