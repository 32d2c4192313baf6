"""Pieces of a SentencePiece model that another program has made: what all such tokenizers have in common."""

import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar, Literal, Self

import sentencepiece

from selfattn.errors import UserError
from selfattn.tokenizers.piece_table import PieceTable
from selfattn.tokenizers.protocol import BOS, EOS, PAD, UNK, Tokenizer, Unit

_SURROGATES = re.compile("[\ud800-\udfff]")


class BorrowedTokenizer(ABC):
    """A SentencePiece model as it is, under ids that begin with ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    There is no sampling of segmentations. A subclass sets the two tables.

    Args:
        model: in sentencepiece's format.

    Attributes:
        source: tokenizer of the source side, this one.
        target: tokenizer of the target side, this one.
        origin: what the tokens are of, for messages.
        numbered_by: what sentencepiece gives of a piece that ``_ids`` is looked up by: its number, or itself.

    Raises:
        RuntimeError: it is no such model.
    """

    pad_id = PAD
    bos_id = BOS
    eos_id = EOS
    unk_id = UNK
    unit: Unit = "characters"
    origin: ClassVar[str]
    numbered_by: ClassVar[Literal["ids", "pieces"]]
    _ids: Mapping[Hashable, int]
    _table: PieceTable

    def __init__(self, model: bytes) -> None:
        self.model = model
        self.source: Tokenizer = self
        self.target: Tokenizer = self
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)

    def __len__(self) -> int:
        """Return the size of the vocabulary, with the four special tokens."""
        return len(self._table)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the best segmentation, the same every time."""
        return [number for number, _ in self._located(text)]

    def sample(self, text: str, seed: int, alpha: float) -> list[int]:
        """Refuse.

        Raises:
            UserError: always.
        """
        raise UserError(f"`sampling`: not for {self.origin}; leave it out")

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the half-open range of characters of each id of ``encode(text)``, which is not normalised."""
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
        return self._table.text(ids).strip(" ")

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

    def _located(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """Return each id of ``encode(text)`` with its range of characters."""
        readable = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
        mapping: dict[str, Any] = self._processor.encode(readable, return_type="offset_mapping")
        located = []
        for name, (start, end) in zip(mapping[self.numbered_by], mapping["offsets"], strict=True):
            number = self._ids.get(name, self.unk_id)
            # Sentencepiece gives the character to its last byte only.
            located.append((number, (start, start + 1 if self._table.is_byte[number] else end)))
        return located
