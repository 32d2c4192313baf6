"""Tests of two models on the same items, and what many tests at once do to their p-values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# Probabilities below are lost in the rounding of the Fourier transform.
SMALLEST_P = 1e-12


def sign_flip_p(differences: Sequence[int] | npt.NDArray[np.int64]) -> float:
    r"""Test by exact randomisation whether the differences lean to one side: two-sided, items as the unit.

    If the models were interchangeable on every item, each difference might as well have had the other sign. The
    p-value is the share of all :math:`2^n` choices of signs whose sum lies at least as far from 0 as the one seen
    (Fisher 1935, chapter 3). With differences of -1, 0 and 1 it is McNemar's test in its exact form (McNemar 1947).

    All choices are counted, none is drawn: the characteristic function of the sum is
    :math:`\prod_i \cos(\omega d_i)`, and a Fourier transform turns it into probabilities.

    Args:
        differences: ``[items]``, whole numbers: on each item, the score of the one model less that of the other.

    Returns:
        A probability in ``(0, 1]``, at least ``SMALLEST_P``.

    Raises:
        ValueError: not one row of whole numbers.

    Example:
        >>> round(sign_flip_p([1, 1, 1, 1, 1, 0]), 12)  # 2 of the 32 choices of signs have a sum of 5 or -5
        0.0625
    """
    values = np.asarray(differences)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"sign_flip_p expects [items] whole numbers, got {values.dtype} of shape {values.shape}")
    values = values[values != 0]
    if not values.size:
        return 1.0
    values = values // np.gcd.reduce(values)
    sizes, counts = np.unique(np.abs(values), return_counts=True)
    seen, furthest = abs(int(values.sum())), int(sizes @ counts)
    length = 1 << (2 * furthest + 1).bit_length()
    angles = 2 * np.pi * np.arange(length // 2 + 1) / length
    characteristic = np.ones_like(angles)
    for size, count in zip(sizes, counts, strict=True):
        characteristic *= np.cos(angles * size) ** count
    probabilities = np.fft.irfft(characteristic, n=length)
    both_sides = 2 * float(probabilities[seen : furthest + 1].sum()) if seen else 1.0
    return min(1.0, max(SMALLEST_P, both_sides))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number: all tests together raise a false alarm no more often than one (Holm 1979).

    The smallest of ``n`` is multiplied by ``n``, the next by ``n - 1``, and so on; none falls below one before it.

    Args:
        p_values: of all tests of one question, in any order.

    Returns:
        The corrected p-values in the same order, at most 1.

    Example:
        >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03])]  # 3 x 0.01, 2 x 0.03, and 0.04 raised to it
        [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected
