"""SentencePiece models that another program has made, used as they are: any of them, and those of Marian (opus-mt)."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import sentencepiece

from selfattn import codec
from selfattn.errors import UserError
from selfattn.files import read_bytes
from selfattn.tokenizers.protocol import SPECIALS
from selfattn.tokenizers.subword import SegmentedTokenizer, named_model

_PROBE = "a b\N{HANGUL SYLLABLE HAN}"
_READABLE = dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")  # sentencepiece reads no surrogates
_CODE_START = ">>"
_CODE_END = "<<"


class BorrowedTokenizer(SegmentedTokenizer):
    """A SentencePiece model that another program has made, as it is. There is no sampling of segmentations.

    Args:
        model: in sentencepiece's format.
        pieces: behind the special tokens, in the order of the ids.
        ids: ours, by what `numbered_by` says.

    Attributes:
        origin: what it is, for messages.
        numbered_by: what of sentencepiece's answer the ids belong to.
    """

    origin: ClassVar[str]
    numbered_by: ClassVar[Literal["ids", "pieces"]]

    def __init__(self, model: bytes, pieces: Sequence[str], ids: dict[Hashable, int]) -> None:
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._ids = ids
        is_byte = [bool(self._processor.is_byte(self._processor.piece_to_id(piece))) for piece in pieces]
        super().__init__(model, [*SPECIALS, *pieces], [*[False] * len(SPECIALS), *is_byte])
        self.decode(self.encode(_PROBE))  # which fails with a damaged model

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
        mapping: dict[str, Any] = self._processor.encode(text.translate(_READABLE), return_type="offset_mapping")
        located = []
        for name, (start, end) in zip(mapping[self.numbered_by], mapping["offsets"], strict=True):
            number = self._ids.get(name, self.unk_id)
            # Sentencepiece gives the character to its last byte only.
            located.append((number, (start, start + 1 if self._is_byte[number] else end)))
        return located


@dataclass(frozen=True)
class PieceFile(codec.Plain):
    """The content of ``pieces.json``, which describes the model beside it.

    Attributes:
        tokenizer: kind of the tokenizer.
        version: of the format.
        sha256: checksum of the model.
    """

    tokenizer: Literal["pieces"]
    version: Literal[1]
    sha256: str


class PieceTokenizer(BorrowedTokenizer):
    """Pieces of a SentencePiece model; ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    The model's own control symbols and its unknown piece are left out; all other pieces follow in its order. Texts are
    normalised as the model says, so `decode` gives the normalised text.

    Args:
        model: in sentencepiece's format.
    """

    origin = "a SentencePiece model of another program"
    numbered_by = "ids"
    kind = "pieces"
    Description = PieceFile
    files = ("pieces.model",)

    def __init__(self, model: bytes) -> None:
        theirs: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
        tests = (theirs.is_control, theirs.is_unknown, theirs.is_unused)
        used = [number for number in range(len(theirs)) if not any(test(number) for test in tests)]
        ids: dict[Hashable, int] = {number: place for place, number in enumerate(used, len(SPECIALS))}
        super().__init__(model, [theirs.id_to_piece(number) for number in used], ids)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the file of a SentencePiece model.

        Raises:
            UserError: it is missing or damaged.
        """
        with named_model(path, "name another"):
            return cls(read_bytes(path, advice="name a SentencePiece model"))

    def _described(self, *checksums: str) -> PieceFile:
        return PieceFile("pieces", 1, *checksums)

    @classmethod
    def _opened(cls, description: PieceFile, *paths: Path) -> Self:
        return cls.open(*paths)


@dataclass(frozen=True)
class MarianSpecials(codec.Plain):
    """Ids of the special tokens in the model's own vocabulary.

    Attributes:
        pad: of padding.
        start: with which a decoder begins.
        eos: of the end.
        unk: of what the vocabulary lacks.
    """

    pad: int
    start: int
    eos: int
    unk: int


@dataclass(frozen=True)
class MarianFile(codec.Plain):
    """The content of ``marian.json``, which describes the two files beside it.

    Attributes:
        tokenizer: kind of the tokenizer.
        version: of the format.
        specials: ids in the vocabulary.
        model_sha256: checksum of the SentencePiece model.
        vocabulary_sha256: checksum of the vocabulary.
    """

    tokenizer: Literal["marian"]
    version: Literal[1]
    specials: MarianSpecials
    model_sha256: str
    vocabulary_sha256: str


class MarianTokenizer(BorrowedTokenizer):
    """One side of a Marian model: a text is cut by a SentencePiece model, and a vocabulary numbers the pieces.

    Our ids begin with the special tokens; all others follow in the order of the vocabulary. The first word of a source
    may be a language code, ``>>deu<<``, which is one token.

    Args:
        model: in sentencepiece's format.
        vocabulary: JSON, an object from pieces to ids.
        specials: ids of the special tokens in it.

    Attributes:
        theirs: for each of our ids that of the vocabulary.

    Raises:
        ValueError: the vocabulary is none.
    """

    origin = "the tokens of a Marian model"
    numbered_by = "pieces"
    kind = "marian"
    Description = MarianFile
    files = ("pieces.spm", "vocab.json")

    def __init__(self, model: bytes, vocabulary: bytes, specials: MarianSpecials) -> None:
        self.vocabulary = vocabulary
        self.specials = specials
        pieces = _pieces_in(vocabulary)
        first = [specials.pad, specials.start, specials.eos, specials.unk]
        if not all(0 <= number < len(pieces) for number in first):
            raise ValueError(f"a special token is not among its {len(pieces):,} pieces")
        rest = [number for number in range(len(pieces)) if number not in first]
        self.theirs = [*first, *rest]
        names = [pieces[number] for number in rest]
        super().__init__(model, names, {name: number for number, name in enumerate(names, len(SPECIALS))})

    @property
    def codes(self) -> list[str]:
        """Language codes such as ``>>deu<<``, with one of which a source of a model for several targets begins."""
        return [name for name in self._names if name.startswith(_CODE_START) and name.endswith(_CODE_END)]

    @classmethod
    def open(cls, model: Path, vocabulary: Path, specials: MarianSpecials) -> Self:
        """Read a SentencePiece model and a vocabulary.

        Raises:
            UserError: a file is missing or damaged, or the vocabulary has no such specials.
        """
        data = [read_bytes(path, advice="restore the files of the model") for path in (model, vocabulary)]
        with named_model(model, "restore it"):
            try:
                return cls(data[0], data[1], specials)
            except ValueError as error:
                raise UserError(f"{vocabulary}: not the vocabulary of a Marian model ({error}); restore it") from None

    def _contents(self) -> tuple[bytes, ...]:
        return self.model, self.vocabulary

    def _described(self, *checksums: str) -> MarianFile:
        return MarianFile("marian", 1, self.specials, *checksums)

    @classmethod
    def _opened(cls, description: MarianFile, *paths: Path) -> Self:
        model, vocabulary = paths
        return cls.open(model, vocabulary, description.specials)

    def _located(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        if not text.startswith(_CODE_START) or _CODE_END not in text:
            return super()._located(text)
        place = text.index(_CODE_END) + len(_CODE_END)
        rest = [(number, (place + start, place + end)) for number, (start, end) in super()._located(text[place:])]
        return [(self._ids.get(text[:place], self.unk_id), (0, place)), *rest]


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
