"""One attention map as a self-contained SVG picture, or as text for the terminal, and the tokens along its sides.

In a picture, source tokens stand along the top in the order in which the line is read (right-to-left text too),
target tokens down the side. The darker a cell, the larger its weight; zero is the colour of the page. Every cell tells
its value on hover. The same input gives the same bytes.

An axis of tokens follows the order in which the line is displayed, which differs from memory order for text written
from right to left. The order is that of the Unicode Bidirectional Algorithm (UAX #9) for one paragraph without explicit
embeddings: rules P2-P3, W1-W7, N1-N2, I1-I2 and L2, applied to whole tokens.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import Literal, SupportsFloat

from rich.console import Group, RenderableType
from rich.text import Text

from selfattn.report.pages import picture

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
        size = 1 if token == "<unk>" else len(token)
        if token in _ENDS:
            size = 0
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


# Pixels.
_CELL = 19
_ROW = 21
_SHADES = " ░▒▓█"


def attention_svg(
    weights: Iterable[Iterable[SupportsFloat]],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    title: str = "",
    axes: str = "",
) -> str:
    """Draw attention weights.

    Args:
        weights: [t][s], nested sequences or a 2-D tensor, between 0 and 1.
        source_tokens: s tokens, in the order of the text.
        target_tokens: t tokens.
        title: a line above the picture; default none.
        axes: what rows, columns and colours mean, a line beside the scale of colours; default none.

    Returns:
        An `<svg>` element that can stand in a page or be a file of its own.

    Raises:
        ValueError: the weights are not t rows of s.

    Example:
        >>> picture = attention_svg([[0.9, 0.1]], ["a", " "], ["b"])
        >>> picture.startswith("<svg"), "b ← ␣: 0.1000" in picture
        (True, True)
    """
    rows = weight_rows(weights, source_tokens, target_tokens, "attention_svg")
    order = visual_order(source_tokens)
    columns = [shown(token) for token in source_tokens]
    labels = [shown(token) for token in target_tokens]

    turned = max(map(width, columns), default=1) > 2
    top = (8 * max(map(width, columns)) + 12 if turned else 24) + (24 if title else 0)
    left = 8 * max(map(width, labels), default=1) + 12
    across = [left + _CELL * place for place in range(len(order) + 1)]
    down = [top + _ROW * k for k in range(len(labels) + 1)]
    cells: list[tuple[float, float, float, str]] = []
    for y, row, label in zip(down, rows, labels, strict=False):
        for x, k in zip(across, order, strict=False):
            if row[k] >= 0.00005:  # less is drawn as nothing and rounds to 0.0000
                cells.append((x + 0.5, y + 0.5, min(1.0, row[k]), f"{label} ← {columns[k]}: {row[k]:.4f}"))
    return picture(
        "attention",
        title=title,
        axes=axes,
        width=max(across[-1], left + 150 + 7 * width(axes), 8 * width(title)) + 10,
        height=down[-1] + 30,
        left=left,
        columns=[(x + _CELL / 2, top - 8, columns[k], turned) for x, k in zip(across, order, strict=False)],
        labels=[(left - 8, y + 15, label) for y, label in zip(down, labels, strict=False)],
        rules=[*((x, top, x, down[-1]) for x in across), *((left, y, across[-1], y) for y in down)],
        cells=cells,
        cell=_CELL,
        row=_ROW,
    )


def weight_rows(
    weights: Iterable[Iterable[SupportsFloat]], source: Sequence[str], target: Sequence[str], what: str
) -> list[list[float]]:
    """Weights as lists [t][s].

    Raises:
        ValueError: they are not t rows of s; the message says what expects them.
    """
    rows = [[float(weight) for weight in row] for row in weights]
    if len(rows) != len(target) or any(len(row) != len(source) for row in rows):
        expected = f"{len(target)} rows (target tokens) of {len(source)} weights (source tokens)"
        raise ValueError(f"{what} expects {expected}, got rows of {[len(row) for row in rows][:3]}")
    return rows


def attention_text(
    weights: Iterable[Iterable[SupportsFloat]],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    columns: int = 80,
) -> RenderableType:
    """Draw attention weights as text.

    Args:
        weights: [t][s], nested sequences or a 2-D tensor, between 0 and 1.
        source_tokens: s tokens; they stand in the order of the text, as not all terminals turn right-to-left lines.
        target_tokens: t tokens.
        columns: width to keep to; a longer source goes on in further blocks. Default 80.

    Returns:
        Something that `rich` can print.

    Raises:
        ValueError: the weights are not t rows of s.

    Example:
        >>> from rich.console import Console
        >>> picture = attention_text([[0.95, 0.05], [0.1, 0.9]], ["a", " "], ["x", "<eos>"])
        >>> Console(width=40, color_system=None).print(picture)
          a␣
        x █   a 0.95
        ⏎  █  ␣ 0.90
    """
    rows = weight_rows(weights, source_tokens, target_tokens, "attention_text")
    source = [_apart(shown(token)) for token in source_tokens]
    target = [_apart(shown(token)) for token in target_tokens]
    label, best = (max(map(width, tokens), default=0) for tokens in (target, source))
    sizes = [max(map(width, token), default=1) or 1 for token in source]
    return Group(*(_block(rows, source, target, sizes, k, label) for k in _blocks(sizes, columns - label - best - 9)))


def _blocks(sizes: Sequence[int], columns: int) -> list[list[int]]:
    """Cut the places of the source into stretches that fit."""
    blocks: list[list[int]] = []
    for k, size in enumerate(sizes):
        if blocks and sum(sizes[place] for place in blocks[-1]) + size <= columns:
            blocks[-1].append(k)
        else:
            blocks.append([k])
    return blocks


def _block(
    rows: list[list[float]], source: list[str], target: list[str], sizes: list[int], places: list[int], label: int
) -> Text:
    text = Text(no_wrap=True)
    stacks = [_characters(source[k]) for k in places]
    tallest = max(map(len, stacks))
    for line in zip(*([""] * (tallest - len(stack)) + stack for stack in stacks), strict=True):
        chars = (char + " " * (sizes[k] - width(char)) for char, k in zip(line, places, strict=True))
        text.append(f"{' ' * (label + 1)}{''.join(chars)}\n")
    for row, token in zip(rows, target, strict=True):
        text.append(token + " " * (label - width(token) + 1), style="bold")
        for k in places:
            shade = _SHADES[min(len(_SHADES) - 1, round(row[k] * (len(_SHADES) - 1)))]
            text.append(shade * sizes[k], style="blue")
        top = max(range(len(row)), key=row.__getitem__)
        text.append(f"  {source[top]} ", style="bold").append(f"{row[top]:.2f}\n", style="dim")
    text.rstrip()
    return text


def _apart(token: str) -> str:
    """Return a single Hangul letter in the form that does not join its neighbours in a syllable."""
    if len(token) == 1:
        kind, _, letter = unicodedata.name(token, "").partition("SEONG ")
        if kind in ("HANGUL CHO", "HANGUL JUNG", "HANGUL JONG"):
            with suppress(KeyError):  # a letter of old Korean that has no other form
                return unicodedata.lookup(f"HANGUL LETTER {letter}")
    return token


def _characters(token: str) -> list[str]:
    """Return the characters of a token, accents kept with their letters."""
    firsts = [k for k, char in enumerate(token) if k == 0 or width(char)]
    return [token[start:end] for start, end in pairwise([*firsts, len(token)])]
