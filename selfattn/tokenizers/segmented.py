"""Pieces of a SentencePiece model as tokens: what all tokenizers with such pieces have in common."""

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import Self

from selfattn.tokenizers.piece_table import PieceTable
from selfattn.tokenizers.protocol import BOS, EOS, PAD, UNK, Tokenizer, Unit


class SegmentedTokenizer(ABC):
    """Pieces of a SentencePiece model; ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    A subclass sets the table of its pieces.

    Args:
        model: in sentencepiece's format.

    Attributes:
        source: tokenizer of the source side, this one.
        target: tokenizer of the target side, this one.
    """

    pad_id = PAD
    bos_id = BOS
    eos_id = EOS
    unk_id = UNK
    unit: Unit = "characters"
    _table: PieceTable

    def __init__(self, model: bytes) -> None:
        self.model = model
        self.source: Tokenizer = self
        self.target: Tokenizer = self

    def __len__(self) -> int:
        """Return the size of the vocabulary: special tokens, bytes and pieces."""
        return len(self._table)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the best segmentation, the same every time."""
        return [number for number, _ in self._located(text)]

    @abstractmethod
    def sample(self, text: str, seed: int, alpha: float) -> list[int]:
        """Return a random segmentation of the text.

        Args:
            text: any.
            seed: any integer; the same text, seed and alpha give the same ids.
            alpha: strength, as defined by the kind of tokenizer.
        """

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the half-open range of characters of each id of ``encode(text)``, which is not normalised.

        Bytes of one character share its range. A token of only the space before the text has the range (0, 0).
        """
        return [span for _, span in self._located(text)]

    def unknown(self, *texts: str) -> Counter[str]:
        """Count the characters of the texts that are bytes or ``<unk>`` tokens."""
        counts = Counter[str]()
        for text in texts:
            for start, end in {span for number, span in self._located(text) if self._table.is_outside(number)}:
                counts.update(text[start:end].replace(" ", ""))
        return counts

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids without ``<pad>``, ``<bos>`` and ``<eos>``.

        ``<unk>`` and invalid bytes become U+FFFD.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        return self._table.text(ids).removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return a printable label for each id: ``␣`` for a space, ``<0xE3>`` for a byte.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        return self._table.labels(ids)

    @abstractmethod
    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the model as it is, and a file that describes it.

        Args:
            directory: created if it is missing.
        """

    @classmethod
    @abstractmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Args:
            directory: of the files.

        Raises:
            UserError: a file is missing or broken, or the files do not belong together.
        """

    @abstractmethod
    def _located(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """Return each id of ``encode(text)`` with its range of characters."""
