"""A tokenizer in figures: how large it is, how much of a text it knows, how it cuts the text up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from selfattn.tokenizers.protocol import Tokenizer

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class Segmentation:
    """How one text is cut.

    Args:
        text: the text.
        pieces: a label for each token.
        spans: the half-open range of characters that each token stands for.
    """

    text: str
    pieces: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Card:
    """What a tokenizer does to texts. A word is what stands between spaces.

    Args:
        size: of the vocabulary.
        texts: how many.
        characters: of the texts.
        words: of the texts.
        tokens: of the texts, without begin and end.
        unknown: tokens that are ``<unk>``.
        bytes: tokens that are one byte of a character.
        outside: characters that have no token of their own, and how often each comes; the most frequent first.
        longest: tokens of the longest text.
        examples: how some texts are cut.
    """

    size: int
    texts: int
    characters: int
    words: int
    tokens: int
    unknown: int
    bytes: int
    outside: tuple[tuple[str, int], ...]
    longest: int
    examples: tuple[Segmentation, ...]

    @property
    def coverage(self) -> float:
        """Share of the characters, by count, that the vocabulary has: neither bytes nor ``<unk>``."""
        return 1 - sum(count for _, count in self.outside) / self.characters if self.characters else 1.0

    @property
    def tokens_per_word(self) -> float:
        """Tokens for one word, on average (also called fertility); spaces that are tokens count."""
        return _ratio(self.tokens, self.words)

    @property
    def characters_per_token(self) -> float:
        """Characters that one token stands for, on average."""
        return _ratio(self.characters, self.tokens)

    @property
    def tokens_per_text(self) -> float:
        """Tokens of a text, on average."""
        return _ratio(self.tokens, self.texts)

    @property
    def unknown_rate(self) -> float:
        """Share of the tokens that are ``<unk>``."""
        return _ratio(self.unknown, self.tokens)

    @property
    def byte_rate(self) -> float:
        """Share of the tokens that are one byte of a character."""
        return _ratio(self.bytes, self.tokens)


def card(tokenizer: Tokenizer, texts: Iterable[str], *, examples: Iterable[str] = ()) -> Card:
    """Measure a tokenizer on texts.

    Args:
        tokenizer: of one side; measure ``tokenizer.source`` and ``tokenizer.target`` apart where they differ.
        texts: to be counted; not kept.
        examples: texts to be shown as they are cut; not counted. Default none.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> found = card(CharTokenizer("abc "), ["ab ac", "a?"])
        >>> found.tokens, found.words, found.unknown, found.outside, round(found.coverage, 3)
        (7, 3, 1, (('?', 1),), 0.857)
    """
    totals, outside = Counter[str](), Counter[str]()
    for text in texts:
        ids = tokenizer.encode(text)
        pieces = tokenizer.pieces(ids)
        totals.update(
            texts=1,
            characters=len(text),
            words=len(text.split()),
            tokens=len(ids),
            unknown=ids.count(tokenizer.unk_id),
            bytes=sum(_BYTE.fullmatch(piece) is not None for piece in pieces),
        )
        outside += tokenizer.unknown(text)
        totals["longest"] = max(totals["longest"], len(ids))
    return Card(
        size=len(tokenizer),
        outside=tuple(sorted(outside.items(), key=lambda item: (-item[1], item[0]))),
        examples=tuple(
            Segmentation(text, tuple(tokenizer.pieces(tokenizer.encode(text))), tuple(tokenizer.spans(text)))
            for text in examples
        ),
        **{name: totals[name] for name in ("texts", "characters", "words", "tokens", "unknown", "bytes", "longest")},
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
