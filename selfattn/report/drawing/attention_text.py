"""One attention map for the terminal: shaded blocks, and beside every target token the source token it reads most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import SupportsFloat

from rich.console import Group, RenderableType
from rich.text import Text

from selfattn.report.drawing.attention_svg import weight_rows
from selfattn.report.drawing.tokens import shown, width

_SHADES = " ░▒▓█"
_TALLEST = 10  # characters of a token that are written down the column


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
    source, target = [shown(token) for token in source_tokens], [shown(token) for token in target_tokens]
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


def _characters(token: str) -> list[str]:
    """The characters of a token, accents kept with their letters, at most as many as are written down a column."""
    firsts = [k for k, char in enumerate(token) if k == 0 or width(char)]
    characters = [token[start:end] for start, end in pairwise([*firsts, len(token)])]
    return characters if len(characters) <= _TALLEST else [*characters[: _TALLEST - 1], "…"]
