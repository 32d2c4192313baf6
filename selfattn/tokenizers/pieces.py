"""SentencePiece models that another program has made: used as they are, with the normalisation that is in them."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import sentencepiece

from selfattn import codec
from selfattn.errors import UserError
from selfattn.files import read_bytes, write_atomically
from selfattn.tokenizers.piece_table import PieceTable
from selfattn.tokenizers.protocol import BOS, EOS, PAD, SPECIALS, UNK, Tokenizer, Unit

FILE_NAME = "pieces.json"
MODEL_NAME = "pieces.model"
_ADVICE = "restore the files of the run, or train again"
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class PieceFile(codec.Plain):
    """The content of ``pieces.json``, which describes the model beside it.

    Attributes:
        tokenizer: the kind of tokenizer.
        version: of the format.
        sha256: of the model, in hexadecimal digits.
    """

    tokenizer: Literal["pieces"]
    version: Literal[1]
    sha256: str


class PieceTokenizer:
    """Pieces of a SentencePiece model; ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Behind them come the model's pieces in its order, without its own special tokens. Most such models normalise texts
    (NFKC, spaces); an output is then in that form. There is no sampling of segmentations.

    Args:
        model: in sentencepiece's format.

    Attributes:
        source: tokenizer of the source side, this one.
        target: tokenizer of the target side, this one.

    Raises:
        RuntimeError: it is no such model.
    """

    pad_id = PAD
    bos_id = BOS
    eos_id = EOS
    unk_id = UNK
    unit: Unit = "characters"

    def __init__(self, model: bytes) -> None:
        self.model = model
        self.source: Tokenizer = self
        self.target: Tokenizer = self
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
        processor = self._processor
        pieces = list(SPECIALS)
        is_byte = [False] * len(SPECIALS)
        self._ids: dict[int, int] = {}  # theirs to ours
        for number in range(len(processor)):
            if not (processor.is_control(number) or processor.is_unknown(number) or processor.is_unused(number)):
                self._ids[number] = len(pieces)
                pieces.append(processor.id_to_piece(number))
                is_byte.append(processor.is_byte(number))
        self._table = PieceTable(pieces, is_byte)

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
        raise UserError("`sampling`: not for a SentencePiece model of another program; leave it out")

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
        """Return the text of the ids without ``<pad>``, ``<bos>`` and ``<eos>``; invalid bytes become U+FFFD.

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

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write ``pieces.model``, the model as it is, and ``pieces.json`` with its checksum.

        Args:
            directory: created if it is missing.
        """
        path = Path(directory) / FILE_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path.with_name(MODEL_NAME), lambda aside: aside.write_bytes(self.model))
        codec.write(path, PieceFile("pieces", 1, hashlib.sha256(self.model).hexdigest()))

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Args:
            directory: of the files.

        Raises:
            UserError: a file is missing or broken, or the two do not belong together.
        """
        path = Path(directory) / FILE_NAME
        values = codec.read_json(path, advice=_ADVICE)
        codec.refuse_newer(values, 1, file=path, key="version")
        file = codec.decode(PieceFile, values, file=path, advice=_ADVICE)
        tokenizer = cls.open(path.with_name(MODEL_NAME))
        if hashlib.sha256(tokenizer.model).hexdigest() != file.sha256:
            raise UserError(f"{path.with_name(MODEL_NAME)}: not the model that {FILE_NAME} speaks of; {_ADVICE}")
        return tokenizer

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the file of a SentencePiece model.

        Raises:
            UserError: it cannot be read, or is no such model.
        """
        try:
            tokenizer = cls(read_bytes(path, advice="name a SentencePiece model"))
            tokenizer.decode(tokenizer.encode("a b\N{HANGUL SYLLABLE HAN}"))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:  # of the library
            reason = " ".join(str(error).split())
            raise UserError(f"{path}: damaged, or no model of sentencepiece ({reason}); name another") from None
        return tokenizer

    def _located(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """Return each id of ``encode(text)`` with its range of characters."""
        readable = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
        mapping: dict[str, Any] = self._processor.encode(readable, return_type="offset_mapping")
        located = []
        for theirs, (start, end) in zip(mapping["ids"], mapping["offsets"], strict=True):
            number = self._ids.get(theirs, self.unk_id)
            # Sentencepiece gives the character to its last byte only.
            located.append((number, (start, start + 1 if self._table.is_byte[number] else end)))
        return located
