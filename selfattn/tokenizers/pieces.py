"""SentencePiece models that another program has made: used as they are, with the normalisation that is in them."""

import hashlib
import os
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import sentencepiece

from selfattn import codec
from selfattn.files import read_bytes, write_bytes
from selfattn.tokenizers.protocol import SPECIALS
from selfattn.tokenizers.segmented import ADVICE, BorrowedTokenizer, described_bytes, named_model

FILE_NAME = "pieces.json"
MODEL_NAME = "pieces.model"


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


class PieceTokenizer(BorrowedTokenizer):
    """Pieces of a SentencePiece model; ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Behind them come the model's pieces in its order, without its own special tokens. Most such models normalise texts
    (NFKC, spaces); an output is then in that form.

    Args:
        model: in sentencepiece's format.

    Attributes:
        source: tokenizer of the source side, this one.
        target: tokenizer of the target side, this one.

    Raises:
        RuntimeError: it is no such model.
    """

    origin = "a SentencePiece model of another program"
    numbered_by = "ids"

    def __init__(self, model: bytes) -> None:
        processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = list(SPECIALS)
        is_byte = [False] * len(SPECIALS)
        ids: dict[Hashable, int] = {}  # theirs to ours
        for number in range(len(processor)):
            if not (processor.is_control(number) or processor.is_unknown(number) or processor.is_unused(number)):
                ids[number] = len(pieces)
                pieces.append(processor.id_to_piece(number))
                is_byte.append(processor.is_byte(number))
        super().__init__(model, pieces, is_byte)
        self._processor = processor
        self._ids = ids

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write ``pieces.model``, the model as it is, and ``pieces.json`` with its checksum.

        Args:
            directory: created if it is missing.
        """
        path = Path(directory) / FILE_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path.with_name(MODEL_NAME), self.model)
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
        file = codec.read(PieceFile, path, advice=ADVICE, newest=1, key="version")
        model = path.with_name(MODEL_NAME)
        described_bytes(model, file.sha256, FILE_NAME)
        return cls.open(model)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the file of a SentencePiece model.

        Raises:
            UserError: it cannot be read, or is no such model.
        """
        with named_model(path, "name another"):
            tokenizer = cls(read_bytes(path, advice="name a SentencePiece model"))
            tokenizer.decode(tokenizer.encode("a b\N{HANGUL SYLLABLE HAN}"))
        return tokenizer
