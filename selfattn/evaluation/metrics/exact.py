"""How right the outputs are."""

from __future__ import annotations

from collections.abc import Sequence

EXACT_MATCH = "exact_match"


def exact_matches(predictions: Sequence[str], targets: Sequence[str]) -> list[bool]:
    """Say for each prediction whether it is the target, character by character.

    Raises:
        ValueError: not as many predictions as targets.

    Example:
        >>> exact_matches(["2008-11-13", "2008-11-14"], ["2008-11-13", "2008-11-13"])
        [True, False]
    """
    return [prediction == target for prediction, target in zip(predictions, targets, strict=True)]


def character_error_rate(predictions: Sequence[str], targets: Sequence[str]) -> float:
    """Character edits (insert, delete, replace) that turn all predictions into the targets, a target character.

    Can be above 1 where predictions are much too long.

    Raises:
        ValueError: not as many predictions as targets, or no target has a character.

    Example:
        >>> character_error_rate(["2008-11-13", "208-11-1"], ["2008-11-13", "2008-11-13"])
        0.1
    """
    edits = sum(edit_distance(p, t) for p, t in zip(predictions, targets, strict=True))
    characters = sum(len(target) for target in targets)
    if not characters:
        raise ValueError("character_error_rate needs at least one character in the targets")
    return edits / characters


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
