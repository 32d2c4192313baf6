"""Tokens of a Marian model of Hugging Face (opus-mt): pieces of a SentencePiece model, with ids of its vocabulary."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import sentencepiece

from selfattn import codec
from selfattn.errors import UserError
from selfattn.files import read_bytes, write_bytes
from selfattn.tokenizers.protocol import SPECIALS
from selfattn.tokenizers.segmented import ADVICE, BorrowedTokenizer, described_bytes, named_model

FILE_NAME = "marian.json"
MODEL_NAME = "pieces.spm"
VOCABULARY_NAME = "vocab.json"
_CODE_START = ">>"
_CODE_END = "<<"


@dataclass(frozen=True)
class MarianSpecials(codec.Plain):
    """Ids of the special tokens in the model's own vocabulary.

    Attributes:
        pad: of padding.
        start: at the start of every decoder input; in published models it is the padding.
        eos: at the end of a text.
        unk: of pieces that the vocabulary lacks.
    """

    pad: int
    start: int
    eos: int
    unk: int


@dataclass(frozen=True)
class MarianFile(codec.Plain):
    """The content of ``marian.json``, which describes the two files beside it.

    Attributes:
        tokenizer: the kind of tokenizer.
        version: of the format.
        specials: ids in the model's own vocabulary.
        model_sha256: of ``pieces.spm``, in hexadecimal digits.
        vocabulary_sha256: of ``vocab.json``, in hexadecimal digits.
    """

    tokenizer: Literal["marian"]
    version: Literal[1]
    specials: MarianSpecials
    model_sha256: str
    vocabulary_sha256: str


class MarianTokenizer(BorrowedTokenizer):
    """One side of a Marian model: a text is cut by a SentencePiece model, and a vocabulary numbers the pieces.

    Both files stay as they are. Ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>`` and ``<unk>``, as everywhere in
    selfattn; behind them come the other pieces in the order of the vocabulary. :attr:`theirs` translates: the tokens
    are those of ``transformers``' ``MarianTokenizer``, one to one. A language code such as ``>>deu<<`` at the start of
    a text is one token.

    Args:
        model: in sentencepiece's format.
        vocabulary: the bytes of ``vocab.json``, an object from pieces to ids.
        specials: ids of the special tokens in this vocabulary.

    Attributes:
        source: tokenizer of the source side, this one.
        target: tokenizer of the target side, this one.
        theirs: the id in the model's own vocabulary of each id here; ``<bos>`` has that of the start token.

    Raises:
        RuntimeError: it is no model of sentencepiece.
        ValueError: the vocabulary does not number its pieces from 0 on, or lacks a special token.
    """

    origin = "the tokens of a Marian model"
    numbered_by = "pieces"

    def __init__(self, model: bytes, vocabulary: bytes, specials: MarianSpecials) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.vocabulary = vocabulary
        self.specials = specials
        pieces = _pieces_in(vocabulary)
        first = [specials.pad, specials.start, specials.eos, specials.unk]
        if not all(0 <= number < len(pieces) for number in first):
            raise ValueError(f"a special token is not among its {len(pieces):,} pieces")
        self.theirs = [*first, *(number for number in range(len(pieces)) if number not in first)]
        self._ids = {pieces[theirs]: number for number, theirs in enumerate(self.theirs) if number >= len(SPECIALS)}
        is_byte = [False] * len(SPECIALS)
        names = [*SPECIALS, *(pieces[theirs] for theirs in self.theirs[len(SPECIALS) :])]
        for name in names[len(SPECIALS) :]:
            is_byte.append(bool(self._processor.is_byte(self._processor.piece_to_id(name))))
        super().__init__(model, names, is_byte)

    @property
    def codes(self) -> list[str]:
        """Language codes such as ``>>deu<<``, with one of which a source of a model for several targets begins."""
        return [name for name in self._names if name.startswith(_CODE_START) and name.endswith(_CODE_END)]

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write ``pieces.spm`` and ``vocab.json`` as they are, and ``marian.json`` with their checksums.

        Args:
            directory: created if it is missing.
        """
        path = Path(directory) / FILE_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        checksums = []
        for name, data in ((MODEL_NAME, self.model), (VOCABULARY_NAME, self.vocabulary)):
            write_bytes(path.with_name(name), data)
            checksums.append(hashlib.sha256(data).hexdigest())
        codec.write(path, MarianFile("marian", 1, self.specials, *checksums))

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Args:
            directory: of the files.

        Raises:
            UserError: a file is missing or broken, or the three do not belong together.
        """
        path = Path(directory) / FILE_NAME
        file = codec.read(MarianFile, path, advice=ADVICE, newest=1, key="version")
        described_bytes(path.with_name(MODEL_NAME), file.model_sha256, FILE_NAME)
        described_bytes(path.with_name(VOCABULARY_NAME), file.vocabulary_sha256, FILE_NAME)
        return cls.open(path.with_name(MODEL_NAME), path.with_name(VOCABULARY_NAME), file.specials)

    @classmethod
    def open(cls, model: Path, vocabulary: Path, specials: MarianSpecials) -> Self:
        """Read a SentencePiece model and a vocabulary.

        Raises:
            UserError: one of them cannot be read, or is not what it should be.
        """
        data = [read_bytes(path, advice="restore the files of the model") for path in (model, vocabulary)]
        with named_model(model, "restore it"):
            try:
                tokenizer = cls(data[0], data[1], specials)
                tokenizer.decode(tokenizer.encode("a b\N{HANGUL SYLLABLE HAN}"))
            except ValueError as error:
                raise UserError(f"{vocabulary}: not the vocabulary of a Marian model ({error}); restore it") from None
        return tokenizer

    def _located(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """Return each id of ``encode(text)`` with its range of characters."""
        if not text.startswith(_CODE_START) or _CODE_END not in text:
            return super()._located(text)
        place = text.index(_CODE_END) + len(_CODE_END)
        located = [(self._ids.get(text[:place], self.unk_id), (0, place))]
        for number, (start, end) in super()._located(text[place:]):
            located.append((number, (place + start, place + end)))
        return located


def _pieces_in(vocabulary: bytes) -> list[str]:
    """Return the pieces of a vocabulary in the order of their ids."""
    numbers = codec.parse(vocabulary)
    if not isinstance(numbers, dict) or not numbers:
        raise ValueError("expected an object from pieces to ids")
    if not all(type(number) is int for number in numbers.values()):
        raise ValueError("an id is no whole number")
    if sorted(numbers.values()) != list(range(len(numbers))):
        raise ValueError(f"the ids of its {len(numbers):,} pieces are not 0 to {len(numbers) - 1:,}, each once")
    return sorted(numbers, key=numbers.__getitem__)
