"""Cleaning of pairs: what is changed in a text, what is left out, and how often.

Changed, in each text: control characters, the Unicode form, spaces at the ends. Left out: what is broken, not UTF-8,
empty or too long; and, when the whole corpus is known (`cache`), lengths that do not go together,
repeated pairs and pairs shared with the held-out parts.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from selfattn.data.corpus.cleaning_report import Tally
from selfattn.data.readers.records import BadRecord, RawPair

# Line ends, tabs and separators part words, so that a space stands for each; the other control characters (and the
# byte order mark, which files put together leave in the middle) are taken out.
_BREAKS = re.compile("[\t-\r\x1c-\x1f\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")  # what bytes that are not UTF-8 were decoded to, or a broken \u escape
_SPACES = re.compile("[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")

Lengths = NDArray[np.uint32]

_SHORT = 10.0  # characters added to both lengths before they are compared, for chance rules the ratio of short texts


@dataclass(frozen=True)
class CleaningOptions:
    """What to clean. Valid and test are never shortened by a limit: their scores must be those of the whole files.

    Args:
        nfc: put texts into Unicode's form NFC; default True. Korean jamo that were taken apart (as some file systems
            do) become syllables again. Not NFKC: that one also changes what is seen (``½`` to ``1⁄2``, ``ﾊ`` to
            ``ハ``, full-width ``Ａ`` to ``A``, the compatibility jamo of ``ㅋㅋ`` to others), and no output could be
            compared with its reference any more.
        spaces: write every space as the plain one, and runs of them as one; default False: a no-break space belongs
            to the text (French punctuation), a tokenizer may do as it likes.
        max_characters: longest text of either side in a training pair; default 1,000; None for no limit.
        max_ratio: how many times longer or shorter than the source lets expect a training pair's target may be;
            default 3; None for no limit. See `unlikely`. (In the captions of Multi30k and the short sentences of
            Tatoeba, in English with French, German, Japanese and Korean, no good pair is beyond 2.9.)
        length_ratio: characters of target to expect for one of source; default None: the median of the training
            pairs. (Texts in Korean, Japanese or Chinese have about half or a third as many characters as in English.)
        duplicates: leave training pairs out that were there before, character by character; default True.
        overlap: leave training pairs out whose source or target a valid or test pair has; default True. What is
            shared is counted in any case.

    Raises:
        ValueError: a limit is not positive, or `max_ratio` below 1.
    """

    nfc: bool = True
    spaces: bool = False
    max_characters: int | None = 1000
    max_ratio: float | None = 3.0
    length_ratio: float | None = None
    duplicates: bool = True
    overlap: bool = True

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.max_characters is not None and self.max_characters < 1:
            raise ValueError(f"max_characters must be at least 1, got {self.max_characters}")
        if self.max_ratio is not None and not 1 <= self.max_ratio < math.inf:
            raise ValueError(f"max_ratio must be at least 1, got {self.max_ratio}")
        if self.length_ratio is not None and not 0 < self.length_ratio < math.inf:
            raise ValueError(f"length_ratio must be positive, got {self.length_ratio}")


def clean_text(text: str, options: CleaningOptions | None = None) -> str:
    r"""Clean one text; a clean one stays as it is.

    Args:
        text: any text.
        options: of which `nfc` and `spaces` count here; default `CleaningOptions()`.

    Example:
        >>> clean_text(" 한\x00국\t어 ")
        '한국 어'
        >>> clean_text("Va\u00a0!  Oui.", CleaningOptions(spaces=True))
        'Va ! Oui.'
    """
    return _cleaned(text, options or CleaningOptions())[0]


def clean_rows(
    rows: Iterable[RawPair | BadRecord], options: CleaningOptions, tally: Tally, *, limited: bool
) -> Iterator[tuple[int, str, str]]:
    """Clean pairs one by one; what is left out or changed is noted in the tally.

    Args:
        rows: as read.
        options: what to clean.
        tally: where to note.
        limited: whether `max_characters` holds; it does for training pairs.

    Returns:
        Line, source and target of each pair that is kept, in their order.
    """
    for row in rows:
        if isinstance(row, BadRecord):
            tally.read += row.lines
            tally.drop("broken", row.line, row.reason, count=row.lines)
            continue
        tally.read += 1
        if found := _sides(_SURROGATES.search, row.source, row.target):
            tally.drop("invalid UTF-8", row.line, found)
            continue
        source, changed_source = _cleaned(row.source, options)
        target, changed_target = _cleaned(row.target, options)
        longest = max(len(source), len(target))
        if found := _sides(_is_blank, source, target):
            tally.drop("empty", row.line, found)
        elif limited and options.max_characters and longest > options.max_characters:
            tally.drop("too long", row.line, f"{longest:,} characters")
        else:
            for step in dict.fromkeys(changed_source + changed_target):
                tally.change(step, row.line)
            yield row.line, source, target


@overload
def unlikely(source: int, target: int, expected: float, limit: float) -> bool: ...
@overload
def unlikely(source: Lengths, target: Lengths, expected: float, limit: float) -> NDArray[np.bool_]: ...


def unlikely(source: int | Lengths, target: int | Lengths, expected: float, limit: float) -> bool | NDArray[np.bool_]:
    """Tell whether a target is more than `limit` times longer, or shorter, than its source lets expect.

    10 characters are added to both before they are compared, so that "Hi." may become "안녕하세요.".

    Args:
        source: characters of the source, of one pair or [n] of many.
        target: characters of the target.
        expected: characters of target to expect for one of source, such as the corpus' `median_ratio`.
        limit: at least 1.

    Example:
        >>> unlikely(30, 5, expected=0.5, limit=4), unlikely(30, 91, expected=0.5, limit=4)
        (False, True)
    """
    wanted, found = expected * source + _SHORT, target + _SHORT
    return (found > limit * wanted) | (wanted > limit * found)


def median_ratio(source: Lengths, target: Lengths) -> float:
    """Return the median of target length over source length: bad pairs, if fewer than half, cannot move it far.

    Args:
        source: [n] characters of each source, at least one pair and no zero.
        target: [n] characters of each target.

    Example:
        >>> median_ratio(np.array([10, 20, 10], np.uint32), np.array([5, 9, 100], np.uint32))
        0.5
    """
    return float(np.median(target / source))


def _cleaned(text: str, options: CleaningOptions) -> tuple[str, tuple[str, ...]]:
    """Return the clean text and the names of the steps that changed it."""
    if text.isascii() and text.isprintable() and not options.spaces:
        bare = text.strip(" ")
        return bare, () if bare == text else ("spaces",)
    changes = []
    plain = _CONTROLS.sub("", _BREAKS.sub(" ", text))
    if plain != text:
        changes.append("control characters")
    composed = unicodedata.normalize("NFC", plain) if options.nfc else plain
    if composed != plain:
        changes.append("Unicode form")
    bare = (_SPACES.sub(" ", composed) if options.spaces else composed).strip()
    if bare != composed:
        changes.append("spaces")
    return bare, tuple(changes)


def _is_blank(text: str) -> bool:
    """Whether a clean text has nothing but spaces and characters of formatting (such as the zero-width space)."""
    if text.isascii():
        return not text
    return all(character.isspace() or unicodedata.category(character) == "Cf" for character in text)


def _sides(is_so: Callable[[str], object], source: str, target: str) -> str:
    return " and ".join(name for name, text in (("source", source), ("target", target)) if is_so(text))
