"""Student's t distribution: its two-sided tail and its quantile, for any number of degrees of freedom."""

from __future__ import annotations

import functools
import math

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
