"""Pieces of a SentencePiece model as tokens: what all tokenizers with such pieces have in common."""

import hashlib
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

from selfattn.errors import UserError
from selfattn.files import read_bytes
from selfattn.tokenizers.protocol import SPECIALS, UNK, Tokenizer, Unit, checked_id, printable
from selfattn.tokenizers.sampling import SPACE_MARK

ADVICE = "restore the files of the run, or train again"
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_SURROGATES = re.compile("[\ud800-\udfff]")


class SegmentedTokenizer(Tokenizer):
    """Pieces of a SentencePiece model; ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Args:
        model: in sentencepiece's format.
        names: the pieces in the order of their ids, with U+2581 for spaces; the special tokens first.
        is_byte: for each piece, whether it stands for a byte.

    Attributes:
        source: tokenizer of the source side, this one.
        target: tokenizer of the target side, this one.
    """

    unit: Unit = "characters"

    def __init__(self, model: bytes, names: Sequence[str], is_byte: Sequence[bool]) -> None:
        self.model = model
        self.source: Tokenizer = self
        self.target: Tokenizer = self
        self._names = names
        self._is_byte = is_byte
        self._written = [b"", b"", b"", "\N{REPLACEMENT CHARACTER}".encode()]
        for number in range(len(SPECIALS), len(names)):
            byte = _BYTE.fullmatch(names[number]) if is_byte[number] else None
            self._written.append(bytes.fromhex(byte[1]) if byte else names[number].replace(SPACE_MARK, " ").encode())

    def __len__(self) -> int:
        """Return the size of the vocabulary: special tokens, bytes and pieces."""
        return len(self._names)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the best segmentation, the same every time."""
        return [number for number, _ in self._located(text)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the half-open range of characters of each id of ``encode(text)``, which is not normalised.

        Bytes of one character share its range. A token of only the space before the text has the range (0, 0).
        """
        return [span for _, span in self._located(text)]

    def unknown(self, *texts: str) -> Counter[str]:
        """Count the characters of the texts that are bytes or ``<unk>`` tokens."""
        counts = Counter[str]()
        for text in texts:
            if not any(map(self._is_outside, self.encode(text))):
                continue  # as most texts: without the places of their tokens this takes half of the time
            outside = {span for number, span in self._located(text) if self._is_outside(number)}
            for start, end in outside:
                counts.update(text[start:end].replace(" ", ""))
        return counts

    def _is_outside(self, number: int) -> bool:
        """Say whether a token stands for characters that no piece has."""
        return number == UNK or self._is_byte[number]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids without ``<pad>``, ``<bos>`` and ``<eos>``.

        ``<unk>`` and invalid bytes become U+FFFD.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        written = b"".join(self._written[checked_id(number, len(self))] for number in ids)
        return written.decode(errors="replace").removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return a printable label for each id: ``␣`` for a space, ``<0xE3>`` for a byte.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        return [printable(self._names[checked_id(number, len(self))].replace(SPACE_MARK, " ")) for number in ids]

    @abstractmethod
    def _located(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """Return each id of ``encode(text)`` with its range of characters."""


class BorrowedTokenizer(SegmentedTokenizer):
    """A SentencePiece model that another program has made, as it is. There is no sampling of segmentations.

    A subclass sets the model and the ids.

    Attributes:
        origin: what the tokens are of, for messages.
        numbered_by: what sentencepiece gives of a piece that ``_ids`` is looked up by: its number, or itself.
    """

    origin: ClassVar[str]
    numbered_by: ClassVar[Literal["ids", "pieces"]]
    _processor: Any
    _ids: Mapping[Hashable, int]

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
        readable = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
        mapping: dict[str, Any] = self._processor.encode(readable, return_type="offset_mapping")
        located = []
        for name, (start, end) in zip(mapping[self.numbered_by], mapping["offsets"], strict=True):
            number = self._ids.get(name, self.unk_id)
            # Sentencepiece gives the character to its last byte only.
            located.append((number, (start, start + 1 if self._is_byte[number] else end)))
        return located


def described_bytes(path: Path, sha256: str, description: str) -> bytes:
    """Read a file of a tokenizer.

    Args:
        path: of the file.
        sha256: that its description has.
        description: name of the file that describes it.

    Raises:
        UserError: it cannot be read, or is another file: with other pieces than in training, outputs would be wrong.
    """
    data = read_bytes(path, advice=ADVICE)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UserError(f"{path}: not the file that {description} speaks of; {ADVICE}")
    return data


@contextmanager
def named_model(path: Path, advice: str) -> Iterator[None]:
    """Turn errors of sentencepiece about the model of a file into a `UserError` inside a ``with`` block."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: damaged, or no model of sentencepiece ({reason}); {advice}") from None
