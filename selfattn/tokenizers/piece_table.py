"""The pieces of a SentencePiece model by id: the bytes that each writes, and the label that each has."""

import re
from collections.abc import Iterable, Sequence

from selfattn.tokenizers.protocol import SPECIALS, UNK, printable
from selfattn.tokenizers.sampling import SPACE_MARK

_BYTE = re.compile("<0x([0-9A-F]{2})>")


class PieceTable:
    """The pieces of a vocabulary, which begin with ``<pad>``, ``<bos>``, ``<eos>`` and ``<unk>``.

    Args:
        pieces: in the order of their ids.
        is_byte: for each piece, whether it stands for a byte.

    Example:
        >>> table = PieceTable([*SPECIALS, "<0xC3>", "<0xA9>", f"{SPACE_MARK}a"], [False] * 4 + [True, True, False])
        >>> table.text([6, 4, 5]), table.labels([6, 4, 5]), table.is_outside(4)
        (' aé', ['␣a', '<0xC3>', '<0xA9>'], True)
    """

    def __init__(self, pieces: Sequence[str], is_byte: Sequence[bool]) -> None:
        self.pieces = pieces
        self.is_byte = is_byte
        self._written = [b"", b"", b"", "\N{REPLACEMENT CHARACTER}".encode()]
        for number in range(len(SPECIALS), len(pieces)):
            byte = _BYTE.fullmatch(pieces[number]) if is_byte[number] else None
            self._written.append(bytes.fromhex(byte[1]) if byte else _with_spaces(pieces[number]).encode())

    def __len__(self) -> int:
        """Return the size of the vocabulary."""
        return len(self.pieces)

    def is_outside(self, number: int) -> bool:
        """Return whether an id stands for text that has no piece of its own: a byte, or ``<unk>``."""
        return number == UNK or self.is_byte[number]

    def text(self, ids: Iterable[int]) -> str:
        """Return the text of the ids without ``<pad>``, ``<bos>`` and ``<eos>``; invalid bytes become U+FFFD.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        return b"".join(self._written[self._checked(number)] for number in ids).decode(errors="replace")

    def labels(self, ids: Iterable[int]) -> list[str]:
        """Return a printable label for each id: ``␣`` for a space, ``<0xE3>`` for a byte.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        return [printable(_with_spaces(self.pieces[self._checked(number)])) for number in ids]

    def _checked(self, number: int) -> int:
        if not 0 <= number < len(self):
            raise ValueError(f"token id {number} is outside the vocabulary of {len(self)}")
        return number


def _with_spaces(piece: str) -> str:
    return piece.replace(SPACE_MARK, " ")
