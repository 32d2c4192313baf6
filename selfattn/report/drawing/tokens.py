"""How tokens are drawn: signs for what cannot be seen, the order of a line on the page, joined letters.

A token axis has one place a token. For text written from right to left the places follow the visual order of the line,
not the order of the characters in memory, so that numbers and foreign words inside it still read correctly. The order
is that of the Unicode Bidirectional Algorithm (UAX #9) for one paragraph without explicit embeddings: rules P2-P3,
W1-W7, N1-N2, I1-I2, L2 and L4, applied to whole tokens.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

SPECIAL = {"<eos>": "⏎", "<bos>": "⊢", "<pad>": "∅", "<unk>": "□"}
_INVISIBLE = {
    " ": "␣", "\t": "⇥", "\n": "↵", "\u00a0": "⍽", "\u202f": "⍽", "\u2009": "⍽", "\u3000": "␣",
    "\u200e": "⇢", "\u200f": "⇠",
}  # fmt: skip
_ENDS = frozenset(["<eos>", "<bos>", "<pad>"])  # stand for no character of the text
_RIGHT_JOINING = frozenset("آأؤإاةدذرزوٱڈڑژےۓ")
_NOT_JOINING = frozenset("ء،؛؟٠١٢٣٤٥٦٧٨٩")
_ZWJ = "\u200d"
_MIRRORED = dict(zip("()[]{}<>«»‹›", ")(][}{><»«›‹", strict=True))


def shown(token: str) -> str:
    """A token as it is drawn: spaces as ␣, `<eos>` as ⏎, other characters that cannot be seen as ▫, a lone accent on ◌.

    Example:
        >>> [shown(token) for token in ("a", " ", "<eos>", "\\u0301")]
        ['a', '␣', '⏎', '◌́']
    """
    if token in SPECIAL:
        return SPECIAL[token]
    text = "".join(_INVISIBLE.get(char) or ("▫" if unicodedata.category(char)[0] == "C" else char) for char in token)
    return f"◌{text}" if text and unicodedata.combining(text[0]) else text


def drawn(tokens: Sequence[str]) -> list[str]:
    """All tokens of a line as they are drawn: Arabic letters joined as in their word, brackets facing their content."""
    out = [shown(token) for token in tokens]
    for k in range(len(tokens) - 1):
        here, there = tokens[k][-1:], tokens[k + 1][:1]
        if _joins_left(here) and _joins_right(there):
            out[k] += _ZWJ
            out[k + 1] = _ZWJ + out[k + 1]
    for k, level in enumerate(_line_levels(tokens)):
        if level % 2 and tokens[k] in _MIRRORED:  # L4
            out[k] = _MIRRORED[tokens[k]]
    return out


def _joins_right(char: str) -> bool:
    """Whether a letter joins the one before it."""
    is_arabic = "\u0620" <= char <= "\u06d3" and unicodedata.category(char) == "Lo"
    return is_arabic and char not in _NOT_JOINING


def _joins_left(char: str) -> bool:
    """Whether a letter joins the one after it."""
    return _joins_right(char) and char not in _RIGHT_JOINING


def width(text: str) -> int:
    """Columns of a monospace line: 2 for a CJK character, 0 for an accent or an invisible mark, else 1.

    Example:
        >>> width("年a"), width("e\\u0301")
        (3, 1)
    """
    columns = 0
    for char in text:
        if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Mn", "Me"):
            continue
        columns += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return columns


def wrapped(items: Sequence[str], columns: int, between: str = " ") -> list[str]:
    """Lines of at most so many columns of items, such as words, with something between two of them.

    Example:
        >>> wrapped(["one", "two", "three"], 8), wrapped(["a", "b", "c"], 3, "|")
        (['one two', 'three'], ['a|b', 'c'])
    """
    lines: list[str] = []
    for item in items:
        longer = f"{lines[-1]}{between}{item}" if lines else item
        if lines and width(longer) <= columns:
            lines[-1] = longer
        else:
            lines.append(item)
    return lines


def token_places(tokens: Sequence[str], start: int, end: int) -> list[int]:
    """Which tokens hold the characters [start, end) of the text that the tokens make up.

    Example:
        >>> token_places(["20", "08", "<eos>"], 1, 3)
        [0, 1]
    """
    places, position = [], 0
    for k, token in enumerate(tokens):
        size = 0 if token in _ENDS else 1 if token == "<unk>" else len(token)
        if size and position < end and position + size > start:
            places.append(k)
        position += size
    return places


def visual_order(tokens: Sequence[str]) -> list[int]:
    """Indices of the tokens from left to right as the line is drawn.

    Example:
        >>> visual_order(["a", "b"]), visual_order(["א", "ב", "1", "2"])
        ([0, 1], [2, 3, 1, 0])
    """
    levels = _line_levels(tokens)
    order = list(range(len(tokens)))
    for level in range(max(levels, default=0), 0, -1):  # L2
        start = None
        for place in range(len(order) + 1):
            inside = place < len(order) and levels[order[place]] >= level
            if inside and start is None:
                start = place
            elif not inside and start is not None:
                order[start:place] = order[start:place][::-1]
                start = None
    return order


def _line_levels(tokens: Sequence[str]) -> list[int]:
    """Embedding level of every token: odd ones run from right to left."""
    kinds = [_kind(token) for token in tokens]
    if not {"R", "AL", "AN"} & set(kinds):
        return [0] * len(kinds)
    first = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L")  # P2, P3
    base = 0 if first == "L" else 1
    return _levels(_weak(kinds, base), base)


def _kind(token: str) -> str:
    """Bidirectional class of a token: that of its first character with a direction, else of its first character."""
    if token in SPECIAL or not token:
        return "ON"
    kinds = [unicodedata.bidirectional(char) for char in token]
    return next((kind for kind in kinds if kind in ("L", "R", "AL", "AN", "EN")), kinds[0])


def _weak(kinds: list[str], base: int) -> list[str]:
    out = list(kinds)
    strong = "L" if base == 0 else "R"
    for k, kind in enumerate(out):
        if kind == "NSM":  # W1
            out[k] = out[k - 1] if k else strong
        if out[k] in ("L", "R", "AL"):
            strong = out[k]
        elif out[k] == "EN" and strong == "AL":  # W2
            out[k] = "AN"
    for k in range(1, len(out) - 1):  # W4
        before, after = out[k - 1], out[k + 1]
        if before == after and ((out[k] == "ES" and before == "EN") or (out[k] == "CS" and before in ("EN", "AN"))):
            out[k] = before
    for line in (range(len(out)), range(len(out) - 1, -1, -1)):  # W5
        previous = ""
        for k in line:
            if out[k] == "ET" and previous == "EN":
                out[k] = "EN"
            previous = out[k]
    strong = "L" if base == 0 else "R"
    for k, kind in enumerate(out):  # W3, W6, W7
        if kind in ("L", "R", "AL"):
            strong = "L" if kind == "L" else "R"
            out[k] = strong
        elif kind == "EN" and strong == "L":
            out[k] = "L"
        elif kind not in ("EN", "AN"):
            out[k] = "ON"
    return out


def _levels(kinds: list[str], base: int) -> list[int]:
    embedding = "L" if base == 0 else "R"
    resolved = list(kinds)
    k = 0
    while k < len(resolved):  # N1, N2
        if resolved[k] != "ON":
            k += 1
            continue
        end = k
        while end < len(resolved) and resolved[end] == "ON":
            end += 1
        before = embedding if k == 0 else "L" if resolved[k - 1] == "L" else "R"
        after = embedding if end == len(resolved) else "L" if resolved[end] == "L" else "R"
        resolved[k:end] = [before if before == after else embedding] * (end - k)
        k = end
    odd = {"L": 2, "R": 1, "EN": 2, "AN": 2}
    even = {"L": 0, "R": 1, "EN": 2, "AN": 2}
    return [(odd if base else even)[kind] for kind in resolved]  # I1, I2
