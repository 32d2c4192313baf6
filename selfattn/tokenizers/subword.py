"""Subword tokens, trained and segmented by sentencepiece, whose errors become plain messages."""

import hashlib
import math
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import sentencepiece

from selfattn import codec
from selfattn.files import write_bytes
from selfattn.tokenizers.protocol import SPECIALS
from selfattn.tokenizers.sampling import SPACE_MARK, SegmentSampler
from selfattn.tokenizers.segmented import ADVICE, SegmentedTokenizer, described_bytes, named_model
from selfattn.tokenizers.subword_training import SubwordKind, SubwordSettings, train_model

__all__ = ["SubwordFile", "SubwordKind", "SubwordSettings", "SubwordTokenizer"]

FILE_NAME = "subword.json"
MODEL_NAME = "subword.model"

# Appended to a model, this overrides: normalizer_spec { add_dummy_prefix: false }.
_NO_SPACE_BEFORE = b"\x1a\x02\x18\x00"
_APART = re.compile(f"{SPACE_MARK}|[\ud800-\udfff]")  # what sentencepiece cannot read
_BLOCK = 2000  # texts that are encoded together
_MOST_WORDS = 250_000  # words whose ids are held in memory, some 50 MB


@dataclass(frozen=True)
class SubwordFile(codec.Plain):
    """The content of ``subword.json``, which describes the model beside it.

    Attributes:
        tokenizer: the kind of tokenizer.
        version: of the format.
        settings: of the training.
        sentencepiece: version of the library.
        sha256: of the model, in hexadecimal digits.
    """

    tokenizer: Literal["subword"]
    version: Literal[1]
    settings: SubwordSettings
    sentencepiece: str
    sha256: str


class _Words(dict[str, bytes]):
    """The ids of words, 4 bytes each; a word is encoded when it first comes.

    Args:
        processor: encodes a word.
        space_id: what stands for the word between two spaces, which is none.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, space_id: int) -> None:
        super().__init__({"": array("i", [space_id]).tobytes()})
        self._processor = processor

    def __missing__(self, word: str) -> bytes:
        ids = array("i", self._processor.encode(word)).tobytes()
        if len(self) < _MOST_WORDS:
            self[word] = ids
        return ids


class SubwordTokenizer(SegmentedTokenizer):
    """Pieces of words as tokens (sentencepiece); ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Texts are not normalised: with byte fallback, ``decode(encode(text)) == text`` for every text in UTF-8. (A lone
    surrogate becomes ``<unk>``.) Ids are those of sentencepiece, except that U+2581, its sign for a space, is written
    as bytes. As in sentencepiece, a space is put before the text, so that a word has the same token everywhere;
    `decode` removes it.

    Args:
        model: in sentencepiece's format, from `train`.
        settings: of the training.

    Attributes:
        source: tokenizer of the source side, this one.
        target: tokenizer of the target side, this one.

    Example:
        >>> texts = ["new newer newest", "low lower lowest"] * 9
        >>> tokenizer = SubwordTokenizer.train(texts, SubwordSettings("bpe", vocab_size=280))
        >>> tokenizer.pieces(tokenizer.encode("lowest new é"))
        ['␣lo', 'west', '␣new', '␣', '<0xC3>', '<0xA9>']
        >>> tokenizer.spans("lowest new é")
        [(0, 2), (2, 6), (6, 10), (10, 11), (11, 12), (11, 12)]
        >>> tokenizer.decode(tokenizer.encode("lowest new é"))
        'lowest new é'
        >>> tokenizer.unknown("lowé", "éé").most_common()
        [('é', 3)]
    """

    def __init__(self, model: bytes, settings: SubwordSettings) -> None:
        self.settings = settings
        self._at_start = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._space_id: int = self._at_start.piece_to_id(SPACE_MARK)
        ids = list(range(len(self._at_start)))
        super().__init__(model, self._at_start.id_to_piece(ids), self._at_start.is_byte(ids))

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        settings: SubwordSettings | None = None,
        *,
        clip: bool = False,
        room: int | None = None,
    ) -> Self:
        """Train a vocabulary on texts. The same texts give the same bytes in any order.

        Args:
            texts: of the training data; sources and targets for a shared vocabulary. Of more than a million, as many
                are drawn at random.
            settings: of the vocabulary; default ``SubwordSettings()``, 8,000 pieces by unigram.
            clip: accept fewer pieces if the texts do not give enough; default False, an error.
            room: make the vocabulary larger than the settings say where it would have fewer pieces than this beside
                the characters of the texts; default None, never.

        Raises:
            UserError: there is no text, or too few for so many pieces; or the texts have more characters than the
                vocabulary pieces. The message says how many they give, or need.
        """
        model, settings = train_model(texts, settings or SubwordSettings(), clip=clip, room=room)
        return cls(model, settings)

    @property
    def vocabulary(self) -> dict[str, float]:
        """Every piece, in the order of the ids, with its score: a log-probability (unigram) or minus its rank (BPE)."""
        return dict(zip(self._names, self._at_start.get_score(list(range(len(self)))), strict=True))

    def encode(self, text: str) -> list[int]:
        """Return the ids of the best segmentation, the same every time."""
        return super().encode(text) if _APART.search(text) else list(self._at_start.encode(text))

    def encode_all(self, texts: Iterable[str]) -> "Iterator[array[int]]":
        """Return the ids of each text, the same as :meth:`encode` gives; unigram uses torch's number of threads."""
        # BPE merges neighbours, so it divides each word as if it stood alone, unless a piece crosses a space.
        if self.settings.kind == "bpe" and not any(SPACE_MARK in piece[1:] for piece in self._names):
            words = _Words(self._at_start, self._space_id)
            for text in texts:
                if not text.isascii() and _APART.search(text):
                    yield array("i", self.encode(text))
                else:
                    yield array("i", b"".join(map(words.__getitem__, text.split(" "))) if text else b"")
            return
        stream = iter(texts)
        while block := list(islice(stream, _BLOCK)):
            plain = [text for text in block if text.isascii() or not _APART.search(text)]
            encoded = self._encode_plain(plain)
            if len(plain) == len(block):
                yield from encoded
                continue
            for text in block:
                yield array("i", self.encode(text)) if _APART.search(text) else next(encoded)

    def _encode_plain(self, texts: Sequence[str]) -> "Iterator[array[int]]":
        """Encode texts that sentencepiece can read."""
        import torch

        return (array("i", ids) for ids in self._at_start.encode(texts, num_threads=torch.get_num_threads()))

    def sample(self, text: str, seed: int, alpha: float) -> list[int]:
        """Return a random segmentation of the text, for subword regularisation.

        Unigram: drawn from all segmentations, with probabilities proportional to P(segmentation)^alpha (Kudo 2018). 0
        makes all equally probable.
        BPE: each merge is left out with probability alpha (BPE-dropout, Provilkov et al. 2020,
        https://aclanthology.org/2020.acl-main.170; as in sentencepiece, a merge is considered once). 0 is `encode`, 1
        gives characters.

        The draw depends only on text, seed and alpha.

        Args:
            text: any.
            seed: any integer.
            alpha: such as 0.2 for unigram, 0.1 for BPE.

        Example:
            >>> settings = SubwordSettings("bpe", vocab_size=300)
            >>> tokenizer = SubwordTokenizer.train(["low lower lowest"] * 9, settings, clip=True)
            >>> [tokenizer.pieces(tokenizer.sample("lowest", seed=0, alpha=alpha)) for alpha in (0, 1)]
            [['␣lowest'], ['␣', 'l', 'o', 'w', 'e', 's', 't']]
        """
        ids: list[int] = []
        for _, part, reader in self._parts(text):
            if isinstance(reader, list):
                ids += reader
            else:
                ids += self._ids(self._sampler.segments(reader.normalize(part), seed, alpha))
        return ids

    @cached_property
    def _further_on(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.model + _NO_SPACE_BEFORE)

    @cached_property
    def _sampler(self) -> SegmentSampler:
        return SegmentSampler(self._at_start, bpe=self.settings.kind == "bpe")

    def _ids(self, segments: Iterable[str]) -> list[int]:
        """Return the ids of segments; unknown segments become bytes, or one ``<unk>`` for a run of them."""
        ids: list[int] = []
        for segment in segments:
            number = self._at_start.piece_to_id(segment)
            if number != self.unk_id:
                ids.append(number)
            elif self.settings.byte_fallback:
                ids += self._byte_ids(segment)
            elif ids[-1:] != [self.unk_id]:
                ids.append(self.unk_id)
        return ids

    def _byte_ids(self, text: str) -> list[int]:
        return self._at_start.piece_to_id([f"<0x{byte:02X}>" for byte in text.encode()])

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write ``subword.model`` in sentencepiece's format, and ``subword.json`` with the settings.

        Args:
            directory: created if it is missing.
        """
        path = Path(directory) / FILE_NAME
        checksum = hashlib.sha256(self.model).hexdigest()
        path.parent.mkdir(parents=True, exist_ok=True)
        # The checksum comes last: a run killed between the two leaves a pair that `load` refuses.
        write_bytes(path.with_name(MODEL_NAME), self.model)
        codec.write(path, SubwordFile("subword", 1, self.settings, sentencepiece.__version__, checksum))

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Args:
            directory: of the files.

        Raises:
            UserError: a file is missing or broken, or the two do not belong together.
        """
        path = Path(directory) / FILE_NAME
        model_path = Path(directory) / MODEL_NAME
        file = codec.read(SubwordFile, path, advice=ADVICE, newest=1, key="version")
        model = described_bytes(model_path, file.sha256, FILE_NAME)
        with named_model(model_path, ADVICE):
            tokenizer = cls(model, file.settings)
            tokenizer._check()
        return tokenizer

    def _check(self) -> None:
        """Check what the methods rely on, for a model that may have been changed.

        Raises:
            ValueError: the special tokens, the bytes, a score or the segmentation are not those of a trained model.
            RuntimeError: sentencepiece cannot use the model.
        """
        processor = self._at_start
        pieces = self._names
        if tuple(pieces[: len(SPECIALS)]) != SPECIALS or processor.unk_id() != self.unk_id:
            raise ValueError("its special tokens are others")
        if len(self) > self.settings.vocab_size or len(set(pieces)) < len(self):
            raise ValueError("its pieces are too many, or not all different")
        expected = {f"<0x{byte:02X}>" for byte in range(256)} if self.settings.byte_fallback else set[str]()
        if {piece for piece, is_byte in zip(pieces, self._is_byte, strict=True) if is_byte} != expected:
            raise ValueError("its bytes are not the 256 that there are")
        if not all(map(math.isfinite, self.vocabulary.values())):
            raise ValueError("a score is not finite")
        known = "".join(piece for piece in pieces[len(SPECIALS) :] if not piece.startswith("<0x"))
        for text in (known.replace(SPACE_MARK, " ")[:1000], " a  b", "\N{HANGUL SYLLABLE HAN}\u0301\t"):
            ids = self.encode(text)
            is_same = not self.settings.byte_fallback or self.decode(ids) == text
            if not is_same or [number for number, _ in self._located(text)] != ids:
                raise ValueError("it changes texts")
            self.sample(text[:30], 0, 0.5)

    def _parts(self, text: str) -> Iterator[tuple[int, str, sentencepiece.SentencePieceProcessor | list[int]]]:
        """Cut a text into places and parts, each with its reader, or its ids where sentencepiece cannot read it."""
        end = 0
        for match in [*_APART.finditer(text), None]:
            part = text[end : match.start() if match else None]
            if part:
                yield end, part, self._further_on if end else self._at_start
            elif text and not end:
                yield 0, "", [self._space_id]
            if match:
                has_bytes = match[0] == SPACE_MARK and self.settings.byte_fallback
                yield match.start(), match[0], self._byte_ids(match[0]) if has_bytes else [self.unk_id]
                end = match.end()

    def _located(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """Return each id of ``encode(text)`` with its range of characters."""
        located: list[tuple[int, tuple[int, int]]] = []
        for place, part, reader in self._parts(text):
            if isinstance(reader, list):
                located += [(number, (place, place + len(part))) for number in reader]
            else:
                mapping: dict[str, Any] = reader.encode(part, return_type="offset_mapping")
                for number, (start, end) in zip(mapping["ids"], mapping["offsets"], strict=True):
                    # Sentencepiece gives the character to its last byte only.
                    last = start + 1 if self._is_byte[number] else end
                    located.append((number, (place + start, place + last)))
        return located
