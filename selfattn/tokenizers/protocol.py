"""What every tokenizer can do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Protocol, Self


class Tokenizer(Protocol):
    """Turns text into token ids and back. Models see the ids only.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer: Tokenizer = CharTokenizer.train(["abc"])
        >>> tokenizer.decode(tokenizer.encode("cab"))
        'cab'
    """

    @property
    def pad_id(self) -> int:
        """The id that fills a batch up; no text has it."""

    @property
    def bos_id(self) -> int:
        """The id that a target begins with when a model reads it."""

    @property
    def eos_id(self) -> int:
        """The id that ends a text."""

    @property
    def unk_id(self) -> int:
        """The id of everything that the vocabulary has no token for."""

    def __len__(self) -> int:
        """Return the size of the vocabulary, specials included."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of the text, with no special before or behind it."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids; padding, beginning and end are dropped."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return something printable for each id, as a label: specials as ``<eos>`` and the like."""

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the tokenizer into the directory, which is made where there is none."""

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read a tokenizer that `save` wrote."""
