"""The protocol of tokenizers, and printable names of tokens."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Protocol, Self

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""Names of the ids 0 to 3, the same in every tokenizer."""


class Tokenizer(Protocol):
    """Turns text into token ids and back. Models see the ids only.

    Source and target of a pair share a tokenizer as a rule; `source` and `target` are then the tokenizer itself. Code
    that knows which side a text is of asks that side, and so works where each has a vocabulary of its own.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer: Tokenizer = CharTokenizer.train(["abc"])
        >>> tokenizer.decode(tokenizer.encode("cab"))
        'cab'
        >>> tokenizer.source is tokenizer.target
        True
    """

    @property
    def pad_id(self) -> int:
        """Id of padding."""

    @property
    def bos_id(self) -> int:
        """Id at the start of every decoder input."""

    @property
    def eos_id(self) -> int:
        """Id at the end of a text."""

    @property
    def unk_id(self) -> int:
        """Id of text outside the vocabulary."""

    @property
    def source(self) -> Tokenizer:
        """The tokenizer of the source side."""

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of the target side."""

    def __len__(self) -> int:
        """Return the size of the vocabulary, specials included."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of the text, with no special before or behind it. The same text gives the same ids."""

    def sample(self, text: str, seed: int, alpha: float | None = None) -> list[int]:
        """Return the ids of one of the ways to cut the text up, drawn anew for each seed; it decodes to the text.

        Args:
            text: any.
            seed: the same text, seed and alpha give the same ids, whatever was drawn before.
            alpha: how bold the draw is, as the kind of tokenizer defines it; default the kind's own.
        """

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids; padding, beginning and end are dropped."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return something printable for each id, as a label: specials as ``<eos>`` and the like."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return for each id of ``encode(text)`` the half-open range of the characters that it stands for.

        Ranges come in the order of the text and together cover it. Ids that write one character as bytes share its
        range; an id that stands for no character of the text has an empty one.
        """

    def unknown(self, *texts: str) -> Counter[str]:
        """Count the characters of the texts that the vocabulary has no token for."""

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the tokenizer into the directory, which is made where there is none."""

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read a tokenizer that `save` wrote."""


def printable(text: str) -> str:
    """Return a text with every character visible: a space as ``␣``, an invisible character by its code.

    Example:
        >>> printable(" a\\u200f")
        '␣a<U+200F>'
    """
    return "".join(
        "␣" if character == " " else character if character.isprintable() else f"<U+{ord(character):04X}>"
        for character in text
    )
