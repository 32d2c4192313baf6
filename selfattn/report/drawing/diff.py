"""Which characters of a prediction are wrong: where it agrees with its target, and where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal


@dataclass(frozen=True)
class Piece:
    """A stretch of characters: `same` stands in both, `wrong` only in the prediction, `missing` only in the target."""

    kind: Literal["same", "wrong", "missing"]
    text: str


def pieces(prediction: str, target: str) -> tuple[Piece, ...]:
    """Compare a prediction with its target, character by character.

    Texts of the same length are compared place by place (a date with one wrong digit has one wrong digit); others by
    the longest common stretches. The `same` and `wrong` pieces together are the prediction; where lengths differ, the
    `same` and `missing` pieces together are the target.

    Example:
        >>> [(p.kind, p.text) for p in pieces("2008-11-31", "2008-11-13")]
        [('same', '2008-11-'), ('wrong', '31')]
        >>> [(p.kind, p.text) for p in pieces("208", "2008")]
        [('same', '20'), ('missing', '0'), ('same', '8')]
    """
    if len(prediction) == len(target):
        runs = groupby(zip(prediction, target, strict=True), key=lambda pair: pair[0] == pair[1])
        return tuple(Piece("same" if same else "wrong", "".join(char for char, _ in run)) for same, run in runs)
    parts: list[Piece] = []
    for tag, i, j, m, n in SequenceMatcher(None, prediction, target, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.append(Piece("same", prediction[i:j]))
        else:
            parts += [Piece("wrong", prediction[i:j]), Piece("missing", target[m:n])]
    return tuple(piece for piece in parts if piece.text)
