"""Pieces of a SentencePiece model that another program has made: what all such tokenizers have in common."""

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar, Literal

import sentencepiece

from selfattn.errors import UserError
from selfattn.tokenizers.segmented import SegmentedTokenizer

_SURROGATES = re.compile("[\ud800-\udfff]")


class BorrowedTokenizer(SegmentedTokenizer):
    """A SentencePiece model as it is, under ids that begin with ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    There is no sampling of segmentations. A subclass sets the two tables.

    Args:
        model: in sentencepiece's format.

    Attributes:
        origin: what the tokens are of, for messages.
        numbered_by: what sentencepiece gives of a piece that ``_ids`` is looked up by: its number, or itself.

    Raises:
        RuntimeError: it is no such model.
    """

    origin: ClassVar[str]
    numbered_by: ClassVar[Literal["ids", "pieces"]]
    _ids: Mapping[Hashable, int]

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)

    def sample(self, text: str, seed: int, alpha: float) -> list[int]:
        """Refuse.

        Raises:
            UserError: always.
        """
        raise UserError(f"`sampling`: not for {self.origin}; leave it out")

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids, as the base class does, without spaces at its ends."""
        return super().decode(ids).strip(" ")

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
