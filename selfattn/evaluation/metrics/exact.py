"""How right the outputs are, character by character."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from selfattn.evaluation.metrics.metric import Array, Metric, of_each, ratio
from selfattn.registry import register

EXACT_MATCH = "exact_match"


@final
@register.metric("exact_match")
class ExactMatch(Metric):
    """Share of outputs that are the reference, character by character.

    Example:
        >>> ExactMatch().of(["2008-11-13", "2008-11-14"], ["2008-11-13", "2008-11-13"])
        0.5
    """

    name, is_mean = "exact_match", True

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count right outputs, and outputs."""
        return of_each([output == right for output, right in zip(outputs, references, strict=True)])


@final
@register.metric("character_error_rate")
class CharacterErrorRate(Metric):
    """Character edits (insert, delete, replace) that turn outputs into references, a character of the references.

    Can be above 1 where outputs are much too long.

    Example:
        >>> CharacterErrorRate().of(["2008-11-13", "208-11-1"], ["2008-11-13", "2008-11-13"])
        0.1
    """

    name, better = "character_error_rate", "lower"

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count edits, and characters of the reference."""
        rows = [(edit_distance(one, right), len(right)) for one, right in zip(outputs, references, strict=True)]
        return np.array(rows, dtype=np.float64)

    def score(self, sums: Array) -> Array:
        """Divide.

        Raises:
            ValueError: the references have no character.
        """
        if not np.all(sums[..., 1]):
            raise ValueError("character_error_rate needs at least one character in the references")
        return ratio(sums)


def edit_distance(first: str, second: str) -> int:
    """Count the fewest insertions, deletions and replacements between two texts (Levenshtein 1966).

    Example:
        >>> edit_distance("kitten", "sitting")
        3
    """
    if first == second:
        return 0
    # Row k of the table: distances between first[:k] and every beginning of second.
    row = list(range(len(second) + 1))
    for k, character in enumerate(first, 1):
        diagonal, row[0] = row[0], k
        for j, other in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (character != other))
    return row[-1]
