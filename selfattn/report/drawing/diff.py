"""Which characters of a prediction are wrong: where it agrees with its target, and where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
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
    found: list[Piece] = []

    def add(kind: Literal["same", "wrong", "missing"], text: str) -> None:
        if found and found[-1].kind == kind:
            found[-1] = Piece(kind, found[-1].text + text)
        elif text:
            found.append(Piece(kind, text))

    if len(prediction) == len(target):
        for said, meant in zip(prediction, target, strict=True):
            add("same" if said == meant else "wrong", said)
        return tuple(found)
    for tag, i, j, m, n in SequenceMatcher(None, prediction, target, autojunk=False).get_opcodes():
        if tag == "equal":
            add("same", prediction[i:j])
        else:
            add("wrong", prediction[i:j])
            add("missing", target[m:n])
    return tuple(found)
