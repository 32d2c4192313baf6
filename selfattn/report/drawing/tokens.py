"""Prepare tokens for drawing: signs for invisible characters, visual order, wrong characters.

An axis of tokens follows the order in which the line is displayed, which differs from memory order for text written
from right to left. The order is that of the Unicode Bidirectional Algorithm (UAX #9) for one paragraph without explicit
embeddings: rules P2-P3, W1-W7, N1-N2, I1-I2 and L2, applied to whole tokens.
"""

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

SPECIAL = {"<eos>": "⏎", "<bos>": "⊢", "<pad>": "∅", "<unk>": "□"}
_INVISIBLE = {
    " ": "␣", "\t": "⇥", "\n": "↵", "\u00a0": "⍽", "\u202f": "⍽", "\u2009": "⍽", "\u3000": "␣",
    "\u200e": "⇢", "\u200f": "⇠",
}  # fmt: skip
_ENDS = frozenset(["<eos>", "<bos>", "<pad>"])  # have no characters in the text
_DIRECTED = ("L", "R", "AL", "AN", "EN")
# Bidirectional classes as one letter each, so that a line is a string; neutral classes are O.
_LETTERS = {"L": "L", "R": "R", "AL": "A", "EN": "E", "AN": "N", "ES": "S", "CS": "C", "ET": "T", "NSM": "M"}
_RULES = (  # pattern of a stretch, letters to replace in it, their replacement
    (r"A[^LRA]*", "E", "N"),  # W2
    (r"A", "A", "R"),  # W3
    (r"(?<=E)[SC](?=E)", "[SC]", "E"),  # W4
    (r"(?<=N)C(?=N)", "C", "N"),
    (r"T*E[ET]*", "T", "E"),  # W5
    (r"[^LREN]", ".", "O"),  # W6
    (r"L[^R]*", "E", "L"),  # W7
    (r"(?<=L)O+(?=L)", "O", "L"),  # N1
    (r"(?<=[REN])O+(?=[REN])", "O", "R"),
)


def shown(token: str) -> str:
    """Return a token as drawn: spaces as ␣, `<eos>` as ⏎, other invisible characters as ▫, a lone accent on ◌.

    Example:
        >>> [shown(token) for token in ("a", " ", "<eos>", "\\u0301")]
        ['a', '␣', '⏎', '◌́']
    """
    if token in SPECIAL:
        return SPECIAL[token]
    text = "".join(_INVISIBLE.get(char) or ("▫" if unicodedata.category(char)[0] == "C" else char) for char in token)
    return f"◌{text}" if text and unicodedata.combining(text[0]) else text


def width(text: str) -> int:
    """Return the columns of a text in a monospace font: 2 for a CJK character, 0 for an accent, else 1.

    Example:
        >>> width("年a"), width("e\\u0301")
        (3, 1)
    """
    taking = (c for c in text if not unicodedata.combining(c) and unicodedata.category(c) not in ("Cf", "Mn", "Me"))
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in taking)


def token_places(tokens: Sequence[str], start: int, end: int) -> list[int]:
    """Return the indices of the tokens that contain characters [start, end) of their joined text.

    Example:
        >>> token_places(["20", "08", "<eos>"], 1, 3)
        [0, 1]
    """
    places = []
    position = 0
    for k, token in enumerate(tokens):
        size = 0 if token in _ENDS else 1 if token == "<unk>" else len(token)
        if size and position < end and position + size > start:
            places.append(k)
        position += size
    return places


def visual_order(tokens: Sequence[str]) -> list[int]:
    """Return the indices of the tokens from left to right as displayed.

    Example:
        >>> visual_order(["a", "b"]), visual_order(["א", "ב", "1", "2"])
        ([0, 1], [2, 3, 1, 0])
    """
    levels = _line_levels(tokens)
    order = list(range(len(tokens)))
    for level in range(max(levels, default=0), 0, -1):  # L2
        reordered: list[int] = []
        for inside, run in groupby(order, lambda k: levels[k] >= level):  # noqa: B023  # read at once
            stretch = list(run)
            reordered += stretch[::-1] if inside else stretch
        order = reordered
    return order


def _line_levels(tokens: Sequence[str]) -> list[int]:
    """Return the embedding level of every token; odd levels run from right to left."""
    kinds = [_kind(token) for token in tokens]
    if not {"R", "AL", "AN"} & set(kinds):
        return [0] * len(kinds)
    base = "L" if next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") == "L" else "R"  # P2, P3
    line = f"{base}{''.join(_LETTERS.get(kind, 'O') for kind in kinds)}{base}"
    line = re.sub("(.)M+", lambda marked: marked[1] * len(marked[0]), line)  # W1
    for stretch, letters, other in (*_RULES, ("O", "O", base)):  # N2
        line = re.sub(stretch, lambda run: re.sub(letters, other, run[0]), line)  # noqa: B023  # called at once
    return [{"R": 1, "L": 0 if base == "L" else 2}.get(letter, 2) for letter in line[1:-1]]  # I1, I2


def _kind(token: str) -> str:
    """Return the bidirectional class of a token: of its first character with a direction, else of its first."""
    if token in SPECIAL or not token:
        return "ON"
    kinds = [unicodedata.bidirectional(char) for char in token]
    return next((kind for kind in kinds if kind in _DIRECTED), kinds[0])


def pieces(prediction: str, target: str) -> list[tuple[Literal["same", "wrong", "missing"], str]]:
    """Compare a prediction with its target, character by character.

    Texts of the same length are compared place by place (a date with one wrong digit has one wrong digit); others by
    the longest common stretches.

    Returns:
        Stretches of characters, each with its kind: `same` stands in both, `wrong` only in the prediction, `missing`
        only in the target. `same` and `wrong` together are the prediction; where lengths differ, `same` and `missing`
        together are the target.

    Example:
        >>> pieces("2008-11-31", "2008-11-13")
        [('same', '2008-11-'), ('wrong', '31')]
        >>> pieces("208", "2008")
        [('same', '20'), ('missing', '0'), ('same', '8')]
    """
    if len(prediction) == len(target):
        runs = groupby(zip(prediction, target, strict=True), key=lambda pair: pair[0] == pair[1])
        return [("same" if same else "wrong", "".join(char for char, _ in run)) for same, run in runs]
    parts: list[tuple[Literal["same", "wrong", "missing"], str]] = []
    for tag, i, j, m, n in SequenceMatcher(None, prediction, target, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.append(("same", prediction[i:j]))
        else:
            parts += [("wrong", prediction[i:j]), ("missing", target[m:n])]
    return [(kind, text) for kind, text in parts if text]
