"""Where p-values come from: Student's t, Fisher's F, exact randomisation of pairs; many tests at once."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# Probabilities below are lost in the rounding of the Fourier transform.
SMALLEST_P = 1e-12
# Beyond it the normal distribution differs by less than one part in a million, and the fraction converges slowly.
_NORMAL_FROM = 1e6


def t_tail(t: float, df: float) -> float:
    r"""Return how probable a value at least as far from 0 as ``t`` is, on either side (Student 1908).

    .. math:: P(|T_\nu| \ge |t|) = I_{\nu / (\nu + t^2)}(\nu / 2, 1 / 2)

    with the regularised incomplete beta function (DLMF 8.17).

    Args:
        t: any value.
        df: degrees of freedom, above 0, not necessarily whole; infinite gives the normal distribution.

    Returns:
        A probability in ``[0, 1]``.

    Example:
        >>> round(t_tail(1.0, 1), 12), round(t_tail(1.96, math.inf), 3)  # Cauchy: half lies beyond 1
        (0.5, 0.05)
    """
    if df >= _NORMAL_FROM:
        return math.erfc(abs(t) / math.sqrt(2))
    square = t * t
    x, other = df / (df + square), square / (df + square)
    return _incomplete_beta(x, other, df / 2, 0.5)


def f_tail(f: float, between: float, within: float) -> float:
    r"""Return how probable a ratio of variances of at least ``f`` is where both estimate the same one (Fisher 1925).

    .. math:: P(F \ge f) = I_{\nu_2 / (\nu_2 + \nu_1 f)}(\nu_2 / 2, \nu_1 / 2)

    Args:
        f: at least 0; infinite gives 0.
        between: degrees of freedom of the variance above the line, above 0.
        within: of the one below it.

    Example:
        >>> round(f_tail(4.0, 1, 7), 6) == round(t_tail(2.0, 7), 6)  # with one degree above it is t squared
        True
    """
    if f == math.inf:
        return 0.0
    total = within + between * f
    return _incomplete_beta(within / total, between * f / total, within / 2, between / 2)


@functools.lru_cache(maxsize=1024)
def t_quantile(df: float, tail: float = 0.05) -> float:
    """Return the value that is passed, on either side, with probability ``tail``: the inverse of ``t_tail``.

    Args:
        df: degrees of freedom, above 0.
        tail: probability of both sides together, above 0 and below 1; default 0.05.

    Example:
        >>> [round(t_quantile(df), 3) for df in (1, 2, 4, 8, math.inf)]  # any table of t
        [12.706, 4.303, 2.776, 2.306, 1.96]
    """
    high = 1.0
    while t_tail(high, df) > tail:
        high *= 2
    low = 0.0
    while (middle := (low + high) / 2) not in (low, high):  # until no number lies between
        low, high = (middle, high) if t_tail(middle, df) > tail else (low, middle)
    return high


def _incomplete_beta(x: float, other: float, a: float, b: float) -> float:
    """I_x(a, b); ``other`` is 1 - x, given apart because the difference would lose its digits."""
    if x <= 0 or other <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, its mirror image converges fast
        return 1 - _incomplete_beta(other, x, b, a)
    front = a * math.log(x) + b * math.log(other) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(front) / (a * _beta_fraction(x, a, b))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of DLMF 8.17.22, ``1 + d1 / (1 + d2 / (1 + ...))``, by Lentz's method (1976)."""
    value, c, d = 1.0, 1.0, 0.0
    for k in range(1, 10_000):
        m, odd = divmod(k, 2)
        if odd:
            term = -(a + m) * (a + b + m) * x / ((a + k - 1) * (a + k))
        else:
            term = m * (b - m) * x / ((a + k - 1) * (a + k))
        d = 1 / (1 + term * d)
        c = 1 + term / c
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


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
