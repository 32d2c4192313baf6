"""SentencePiece models that another program has made: used as they are, with the normalisation that is in them."""

import hashlib
import os
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from selfattn import codec
from selfattn.errors import UserError
from selfattn.files import read_bytes, write_bytes
from selfattn.tokenizers.borrowed import BorrowedTokenizer
from selfattn.tokenizers.piece_table import PieceTable
from selfattn.tokenizers.protocol import SPECIALS

FILE_NAME = "pieces.json"
MODEL_NAME = "pieces.model"
_ADVICE = "restore the files of the run, or train again"


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
        super().__init__(model)
        processor = self._processor
        pieces = list(SPECIALS)
        is_byte = [False] * len(SPECIALS)
        ids: dict[Hashable, int] = {}  # theirs to ours
        for number in range(len(processor)):
            if not (processor.is_control(number) or processor.is_unknown(number) or processor.is_unused(number)):
                ids[number] = len(pieces)
                pieces.append(processor.id_to_piece(number))
                is_byte.append(processor.is_byte(number))
        self._ids = ids
        self._table = PieceTable(pieces, is_byte)

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
        file = codec.read(PieceFile, path, advice=_ADVICE, newest=1, key="version")
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
