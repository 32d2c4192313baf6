"""A vocabulary for the source and another one for the target."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from selfattn.tokenizers.protocol import Tokenizer

SOURCE, TARGET = "source", "target"


class SeparateTokenizer:
    """Two tokenizers, one for each side of a pair; an id means one thing in the source and another in the target.

    A model needs two embedding tables for it, with ``len(tokenizer.source)`` rows and ``len(tokenizer)`` rows; source
    and target cannot be one sequence. Where the side is not named, it is the source that is encoded and the target
    that is decoded and counted, as in use.

    Args:
        source: of the source side.
        target: of the target side.

    Raises:
        ValueError: the two give the specials different ids.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = SeparateTokenizer(CharTokenizer("ab"), CharTokenizer("xyz"))
        >>> tokenizer.encode("ab"), tokenizer.target.encode("xy"), tokenizer.decode([4, 5])
        ([4, 5], [4, 5], 'xy')
        >>> len(tokenizer.source), len(tokenizer)
        (6, 7)
    """

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        specials = [(side.pad_id, side.bos_id, side.eos_id, side.unk_id) for side in (source, target)]
        if specials[0] != specials[1]:
            raise ValueError(f"source and target have different ids of pad, bos, eos and unk: {specials}")
        self._source, self._target = source, target

    @property
    def pad_id(self) -> int:
        """The id that fills a batch up."""
        return self._target.pad_id

    @property
    def bos_id(self) -> int:
        """The id that a target begins with."""
        return self._target.bos_id

    @property
    def eos_id(self) -> int:
        """The id that ends a text of either side."""
        return self._target.eos_id

    @property
    def unk_id(self) -> int:
        """The id of what the side's vocabulary has no token for."""
        return self._target.unk_id

    @property
    def source(self) -> Tokenizer:
        """The tokenizer of the source side."""
        return self._source

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of the target side."""
        return self._target

    def __len__(self) -> int:
        """Return the size of the target's vocabulary: what the model chooses from."""
        return len(self._target)

    def encode(self, text: str) -> list[int]:
        """Return the source ids of the text."""
        return self._source.encode(text)

    def sample(self, text: str, seed: int, alpha: float | None = None) -> list[int]:
        """Return source ids of one of the ways to cut the text up."""
        return self._source.sample(text, seed, alpha)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the range of characters of each id of ``encode(text)``."""
        return self._source.spans(text)

    def unknown(self, *texts: str) -> Counter[str]:
        """Count the characters that the source's vocabulary has no token for."""
        return self._source.unknown(*texts)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of target ids."""
        return self._target.decode(ids)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return something printable for each target id."""
        return self._target.pieces(ids)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the two tokenizers into ``source/`` and ``target/`` of the directory."""
        self._source.save(Path(directory) / SOURCE)
        self._target.save(Path(directory) / TARGET)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises:
            UserError: a file is missing or broken; the message names it.
        """
        from selfattn.tokenizers.load import load_tokenizer  # which itself loads this class

        return cls(load_tokenizer(Path(directory) / SOURCE), load_tokenizer(Path(directory) / TARGET))
