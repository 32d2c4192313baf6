"""Distributions and tests: Student's t, exact randomisation of pairs, Holm's correction."""

import functools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

SMALLEST_P = 1e-12  # smaller probabilities are lost in the rounding of the Fourier transform


def t_tail(t: float, df: float) -> float:
    """Return the two-sided tail probability of Student's t: how probable a value at least as far from 0 as ``t`` is.

    Args:
        t: any value.
        df: degrees of freedom, above 0, not necessarily whole; infinite gives the normal distribution.

    Example:
        >>> round(t_tail(1.0, 1), 12), round(t_tail(1.96, math.inf), 3)  # Cauchy: half lies beyond 1
        (0.5, 0.05)
    """
    return float(2 * (special.ndtr(-abs(t)) if df == math.inf else special.stdtr(df, -abs(t))))


@functools.lru_cache(maxsize=1024)
def t_quantile(df: float, tail: float = 0.05) -> float:
    """Return the value that is exceeded, on either side, with probability ``tail``: the inverse of `t_tail`.

    Args:
        df: degrees of freedom, above 0.
        tail: probability of both sides together, above 0 and below 1; default 0.05.

    Example:
        >>> [round(t_quantile(df), 3) for df in (1, 2, 4, 8, math.inf)]  # any table of t
        [12.706, 4.303, 2.776, 2.306, 1.96]
    """
    return float(-(special.ndtri(tail / 2) if df == math.inf else special.stdtrit(df, tail / 2)))


def sign_flip_p(differences: Sequence[int] | npt.NDArray[np.int64]) -> float:
    r"""Test by exact randomisation whether differences lean to one side: two-sided, items as the unit.

    If the models were interchangeable on every item, each difference might as well have had the other sign. The
    p-value is the share of all :math:`2^n` choices of signs whose sum lies at least as far from 0 as the observed sum
    (Fisher 1935, chapter 3). With differences of -1, 0 and 1 it is McNemar's exact test (McNemar 1947).

    All choices are counted, none is drawn: the characteristic function of the sum is
    :math:`\prod_i \cos(\omega d_i)`, and a Fourier transform turns it into probabilities.

    Args:
        differences: ``[items]``, whole numbers: the score of one model minus that of the other on each item.

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
    if not values.sum():
        return 1.0
    values = values // np.gcd.reduce(values)
    sizes, counts = np.unique(np.abs(values), return_counts=True)
    observed, furthest = abs(int(values.sum())), int(sizes @ counts)
    length = 1 << (2 * furthest + 1).bit_length()
    angles = 2 * np.pi * np.arange(length // 2 + 1) / length
    characteristic = np.ones_like(angles)
    for size, count in zip(sizes, counts, strict=True):
        characteristic *= np.cos(angles * size) ** count
    probabilities = np.fft.irfft(characteristic, n=length)
    return min(1.0, max(SMALLEST_P, 2 * float(probabilities[observed : furthest + 1].sum())))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for multiple testing: all tests together raise a false alarm no more often than one (Holm 1979).

    The smallest of ``n`` is multiplied by ``n``, the next by ``n - 1``, and so on; none falls below one before it.

    Args:
        p_values: of all tests of one question, in any order.

    Returns:
        The corrected p-values in the same order, at most 1.

    Example:
        >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03])]  # 3 x 0.01, 2 x 0.03, and 0.04 raised to it
        [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    corrected = np.empty_like(values)
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, values[order] * np.arange(len(values), 0, -1)))
    return [float(p) for p in corrected]
