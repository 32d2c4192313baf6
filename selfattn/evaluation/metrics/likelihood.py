"""How probable texts are to language models.

The output of a model for a text is its counts, nats and tokens: "31.25 14". So language models are archived, compared
and verified as all other models are, and every figure follows from the counts of each text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import numpy as np

from selfattn.errors import UserError
from selfattn.evaluation.metrics.metric import Array, Metric
from selfattn.registry import register

if TYPE_CHECKING:
    from selfattn.decoding.scoring import TargetScore

BITS_PER_CHARACTER = "bits_per_character"
PERPLEXITY = "perplexity"
_ROUNDING = 1e-4  # relative; a text that is read beside others has slightly different nats


def write_counts(score: TargetScore) -> str:
    """Write how probable a text is.

    Example:
        >>> from selfattn.decoding.scoring import TargetScore
        >>> write_counts(TargetScore(-31.25, 14))
        '31.250000 14'
    """
    return f"{-score.log_probability:.6f} {score.tokens}"


def read_counts(output: str) -> tuple[float, int]:
    """Read the nats and the tokens of a text.

    Raises:
        UserError: it is another output than that of a language model.
    """
    nats, _, tokens = output.partition(" ")
    try:
        return float(nats), int(tokens)
    except ValueError:
        reason = "is for language models, whose outputs are counts of texts"
        raise UserError(f"{BITS_PER_CHARACTER}, {PERPLEXITY}: {reason}; choose another metric") from None


def agree(first: str, second: str) -> bool:
    """Whether two counts are equal, but for rounding."""
    nats, tokens = read_counts(first)
    nats_again, tokens_again = read_counts(second)
    return tokens == tokens_again and math.isclose(nats, nats_again, rel_tol=_ROUNDING, abs_tol=_ROUNDING)


@final
@register.metric(BITS_PER_CHARACTER)
class BitsPerCharacter(Metric):
    """All bits of texts, those of their ends too, divided by their characters; it compares models with other tokens.

    Example:
        >>> BitsPerCharacter().of([f"{8 * math.log(2)} 5"], ["abcd"])
        2.0
    """

    unit = "bits"
    better = "lower"
    signature = "ends counted"

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count bits and characters."""
        bits = [read_counts(output)[0] / math.log(2) for output in outputs]
        return np.array([bits, list(map(len, references))], dtype=np.float64).T


@final
@register.metric(PERPLEXITY)
class Perplexity(Metric):
    """``exp`` of the nats a token, ends included: as if the model chose among this many equally probable tokens.

    Example:
        >>> round(Perplexity().of([f"{5 * math.log(7)} 5"], ["abcd"]), 6)
        7.0
    """

    unit = "number"
    better = "lower"
    signature = "ends counted"

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count nats and tokens."""
        return np.array([read_counts(output) for output in outputs], dtype=np.float64)

    def score(self, sums: Array) -> Array:
        """Turn added counts ``[.. 2]`` into perplexities."""
        return np.exp(super().score(sums))
