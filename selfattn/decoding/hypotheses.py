"""What every way of decoding hands back, and what a long hypothesis is granted when hypotheses are ranked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from selfattn.errors import DivergedError

LARGEST_PENALTY = 10
"""Largest exponent of a length penalty; beyond it the powers of lengths overflow."""


@dataclass(frozen=True)
class Hypothesis:
    """One target for a source.

    Attributes:
        ids: its tokens, without ``<bos>`` and ``<eos>``.
        log_probability: summed, natural, of those tokens and, where there is one, of the ``<eos>`` behind them.
        score: the log-probability divided by the length penalty; what a search ranks by. Without one, the same.
        finished: whether it ends with ``<eos>``; otherwise it was cut off at the longest length allowed.
    """

    ids: list[int]
    log_probability: float
    score: float
    finished: bool


@dataclass(frozen=True)
class LengthPenalty:
    r"""What a hypothesis' log-probability is divided by, as a function of its length.

    .. math:: lp(n) = \left(\frac{o + n}{o + 1}\right)^\alpha

    With the offset 5 this is equation 14 of Wu et al. 2016, "Google's Neural Machine Translation System"; with the
    offset 0 it is :math:`n^\alpha`, as in ``transformers`` and fairseq. ``n`` counts tokens, ``<eos>`` among them.

    Args:
        alpha: 0 is no penalty, the search for the most probable target; the larger, the longer the targets; 0.6 with
            the offset 5 is Vaswani et al. 2017's (section 6.1). Below 0 it favours short ones.
        offset: from 0, default 5.

    Raises:
        ValueError: alpha is beyond -10 to 10; the offset is negative or not finite.

    Example:
        >>> LengthPenalty(1.0)(7), LengthPenalty(1.0, offset=0)(7), LengthPenalty(0.0)(7)
        (2.0, 7.0, 1.0)
    """

    alpha: float
    offset: float = 5.0

    def __post_init__(self) -> None:
        if not abs(self.alpha) <= LARGEST_PENALTY:
            raise ValueError(f"LengthPenalty: alpha must be from -10 to 10, got {self.alpha}")
        if not 0.0 <= self.offset < math.inf:
            raise ValueError(f"LengthPenalty: offset must be finite and not negative, got {self.offset}")

    def __call__(self, length: int) -> float:
        """Return the divisor for a length of at least 1."""
        return float(((self.offset + length) / (self.offset + 1)) ** self.alpha)


NO_PENALTY = LengthPenalty(0.0)


def check_number(log_probability: float) -> None:
    """Make sure that a log-probability is a number.

    Raises:
        DivergedError: it is NaN: logits overflowed.
    """
    if math.isnan(log_probability):
        raise DivergedError("the weights of this model overflow on this input: its probabilities are NaN; train again")
