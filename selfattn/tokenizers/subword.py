"""Subword tokens: frequent words as one piece, rare words in several. Trained and segmented by sentencepiece."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import sentencepiece

from selfattn import codec
from selfattn.errors import UserError
from selfattn.files import read_bytes, write_atomically
from selfattn.tokenizers.protocol import SPECIALS, Tokenizer, printable
from selfattn.tokenizers.sampling import SegmentSampler
from selfattn.tokenizers.subword_training import SPACE_MARK, USUAL, SubwordKind, SubwordSettings, train_model

FILE_NAME, MODEL_NAME = "subword.json", "subword.model"
_ADVICE = "restore the files of the run, or train again"
DEFAULT_ALPHA: dict[SubwordKind, float] = {"unigram": 0.2, "bpe": 0.1}

# Protocol buffers merge what comes twice: normalizer_spec { add_dummy_prefix: false }.
_NO_SPACE_BEFORE = b"\x1a\x02\x18\x00"


@dataclass(frozen=True)
class SubwordFile(codec.Plain):
    """What ``subword.json`` says of the model beside it.

    Attributes:
        tokenizer: the kind of tokenizer.
        version: of this file's form.
        settings: what the model was trained with.
        sentencepiece: version of the library that made the model.
        sha256: of the model, in hexadecimal digits.
    """

    tokenizer: Literal["subword"]
    version: Literal[1]
    settings: SubwordSettings
    sentencepiece: str
    sha256: str


class SubwordTokenizer:
    """Pieces of words as tokens (sentencepiece); ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    The text is cut as it is, nothing is normalised: ``decode(encode(text)) == text`` for every text that UTF-8 can
    hold, if the model has byte fallback. (A lone surrogate, which UTF-8 cannot hold, becomes ``<unk>``.) Ids are those
    of sentencepiece itself, with one exception: U+2581, which sentencepiece would take for a space, is written as
    bytes. As in sentencepiece, a space is put before the text, so that a word is the same token at the beginning as
    further on, and taken off by `decode`.

    Args:
        model: a model in sentencepiece's format, as `train` makes it.
        settings: what the model was trained with.

    Attributes:
        source: the tokenizer of the source side: this one, both sides share it.
        target: the tokenizer of the target side: this one.

    Example:
        >>> texts = ["new newer newest", "low lower lowest"] * 9
        >>> tokenizer = SubwordTokenizer.train(texts, SubwordSettings("bpe", vocab_size=280))
        >>> tokenizer.pieces(tokenizer.encode("lowest new é"))
        ['␣lo', 'west', '␣new', '␣', '<0xC3>', '<0xA9>']
        >>> tokenizer.spans("lowest new é")
        [(0, 2), (2, 6), (6, 10), (10, 11), (11, 12), (11, 12)]
        >>> tokenizer.decode(tokenizer.encode("lowest new é"))
        'lowest new é'
    """

    pad_id, bos_id, eos_id, unk_id = range(4)

    def __init__(self, model: bytes, settings: SubwordSettings) -> None:
        self.model, self.settings = model, settings
        self.source: Tokenizer = self
        self.target: Tokenizer = self
        self._at_start = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._further_on = sentencepiece.SentencePieceProcessor(model_proto=model + _NO_SPACE_BEFORE)
        self._space_id: int = self._at_start.piece_to_id(SPACE_MARK)
        ids = list(range(len(self._at_start)))
        self._pieces = self._at_start.id_to_piece(ids)
        self._is_byte = self._at_start.is_byte(ids)
        self._bytes = [
            bytes([int(piece[3:5], 16)]) if is_byte else piece.replace(SPACE_MARK, " ").encode()
            for piece, is_byte in zip(self._pieces, self._is_byte, strict=True)
        ]
        self._bytes[: len(SPECIALS)] = [b"", b"", b"", "\N{REPLACEMENT CHARACTER}".encode()]
        longest_first = sorted(settings.user_symbols, key=len, reverse=True)
        self._apart = re.compile("|".join([*map(re.escape, longest_first), SPACE_MARK, "[\ud800-\udfff]"]))

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        settings: SubwordSettings = USUAL,
        *,
        clip: bool = False,
        max_texts: int | None = 1_000_000,
        seed: int = 0,
    ) -> Self:
        """Make the vocabulary that fits the texts.

        The same texts give the same model to the byte, in whatever order they come (as long as there are no more than
        `max_texts`).

        Args:
            texts: of the training data; for a vocabulary that both sides share, sources and targets.
            settings: what the vocabulary is to be; default ``SubwordSettings()``, 8,000 pieces by unigram.
            clip: where the texts have too few pieces in them, make as many as there are; default False, an error.
            max_texts: train on so many texts, drawn at random where there are more; None for all. Sentencepiece keeps
                them in memory.
            seed: of that draw.

        Raises:
            UserError: there is no text, or the texts do not give so many pieces; the message says how many they give.
        """
        return cls(train_model(texts, settings, clip=clip, max_texts=max_texts, seed=seed), settings)

    def __len__(self) -> int:
        """Return the size of the vocabulary: the specials, the bytes and the pieces."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the best segmentation, the same every time."""
        if not self._apart.search(text):
            return list(self._at_start.encode(text))
        return self._encode_parts(text, lambda processor, part: processor.encode(part))

    def sample(self, text: str, seed: int, alpha: float | None = None) -> list[int]:
        """Return a random segmentation of the text, for training with many segmentations of the same data.

        Unigram: drawn from all segmentations, each with a probability proportional to P(segmentation)^alpha (Kudo 2018,
        subword regularisation over the whole lattice). The smaller alpha, the bolder; 0 makes all equally probable.
        BPE: each merge is left out with probability alpha (Provilkov et al. 2020, BPE-dropout,
        https://aclanthology.org/2020.acl-main.170, as sentencepiece does it: a merge is considered once). The larger
        alpha, the bolder; 0 is `encode`, 1 gives characters.

        The draw depends on text, seed and alpha only, in every process and thread.

        Args:
            text: any.
            seed: any integer.
            alpha: default 0.2 for unigram, 0.1 for BPE.

        Raises:
            ValueError: alpha is negative, or above 1 for BPE.

        Example:
            >>> settings = SubwordSettings("bpe", vocab_size=300)
            >>> tokenizer = SubwordTokenizer.train(["low lower lowest"] * 9, settings, clip=True)
            >>> [tokenizer.pieces(tokenizer.sample("lowest", seed=0, alpha=alpha)) for alpha in (0, 1)]
            [['␣lowest'], ['␣', 'l', 'o', 'w', 'e', 's', 't']]
        """
        kind = self.settings.kind
        chosen = DEFAULT_ALPHA[kind] if alpha is None else alpha
        if not chosen >= 0 or (kind == "bpe" and chosen > 1):
            raise ValueError(f"alpha must be {'from 0 to 1' if kind == 'bpe' else 'at least 0'}, got {alpha}")
        return self._encode_parts(
            text, lambda processor, part: self._ids(self._sampler.segments(processor.normalize(part), seed, chosen))
        )

    @cached_property
    def _sampler(self) -> SegmentSampler:
        return SegmentSampler(self._at_start, bpe=self.settings.kind == "bpe")

    def _ids(self, segments: Iterable[str]) -> list[int]:
        """Return the ids of segments: a piece has its own, anything else its bytes, or a run one ``<unk>``."""
        ids: list[int] = []
        for segment in segments:
            number = self._at_start.piece_to_id(segment)
            if number != self.unk_id:
                ids.append(number)
            elif self.settings.byte_fallback:
                ids += [self._at_start.piece_to_id(f"<0x{byte:02X}>") for byte in segment.encode()]
            elif ids[-1:] != [self.unk_id]:
                ids.append(self.unk_id)
        return ids

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the half-open range of characters of each id of ``encode(text)``.

        Ids that write one character as bytes share its range. The space that is put before the text belongs to no
        character of it, so that a token of this space alone has the range (0, 0).
        """
        return [span for _, span in self._located(text)]

    def unknown(self, *texts: str) -> Counter[str]:
        """Count the characters of the texts that are written as bytes or are ``<unk>``.

        Example:
            >>> SubwordTokenizer.train(["abc"] * 9, clip=True).unknown("abé", "éé").most_common()
            [('é', 3)]
        """
        counts = Counter[str]()
        for text in texts:
            outside = {span for number, span in self._located(text) if self._is_byte[number] or number == self.unk_id}
            counts.update(character for start, end in outside for character in text[start:end])
        return counts

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids; padding, beginning and end are dropped, what is no text becomes U+FFFD.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        text = b"".join(self._bytes[self._checked(number)] for number in ids).decode(errors="replace")
        return text.removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return a printable label for each id: specials by name, a space as ``␣``, a byte as ``<0xE3>``.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        return [printable(self._pieces[self._checked(number)].replace(SPACE_MARK, " ")) for number in ids]

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write ``subword.model``, which every user of sentencepiece can load, and ``subword.json`` with the settings.

        Args:
            directory: made where there is none.
        """
        path, checksum = Path(directory) / FILE_NAME, hashlib.sha256(self.model).hexdigest()
        path.parent.mkdir(parents=True, exist_ok=True)
        # The checksum comes last: a run killed between the two leaves a pair that `load` refuses.
        write_atomically(path.with_name(MODEL_NAME), lambda aside: aside.write_bytes(self.model))
        codec.write(path, SubwordFile("subword", 1, self.settings, sentencepiece.__version__, checksum))

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Args:
            directory: the folder it is in.

        Raises:
            UserError: a file is missing, is not one that `save` wrote, or the two do not belong together.
        """
        path, model_path = Path(directory) / FILE_NAME, Path(directory) / MODEL_NAME
        values = codec.read_json(path, advice=_ADVICE)
        codec.refuse_newer(values, 1, file=path, key="version")
        file = codec.decode(SubwordFile, values, file=path, advice=_ADVICE)
        model = read_bytes(model_path, advice=_ADVICE)
        if hashlib.sha256(model).hexdigest() != file.sha256:
            # Other pieces than the model was trained with would give nonsense without a word.
            raise UserError(f"{model_path}: not the model that {FILE_NAME} speaks of; restore both or train again")
        return cls(model, file.settings)

    def _checked(self, number: int) -> int:
        if not 0 <= number < len(self._pieces):
            raise ValueError(f"token id {number} is outside the vocabulary of {len(self)}")
        return number

    def _parts(self, text: str) -> Iterator[tuple[int, str, bool]]:
        """Cut a text into (place, part, whether it stands apart): symbols, and what sentencepiece cannot read."""
        end = 0
        for match in self._apart.finditer(text):
            yield end, text[end : match.start()], False
            yield match.start(), match[0], True
            end = match.end()
        yield end, text[end:], False

    def _encode_parts(
        self, text: str, encode: Callable[[sentencepiece.SentencePieceProcessor, str], list[int]]
    ) -> list[int]:
        ids: list[int] = []
        for place, part, apart in self._parts(text):
            if apart:
                ids += self._apart_ids(part)
            elif part:
                ids += encode(self._at_start if place == 0 else self._further_on, part)
            elif place == 0 and text:
                ids.append(self._space_id)
        return ids

    def _located(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """Return each id of ``encode(text)`` with its range of characters."""
        located: list[tuple[int, tuple[int, int]]] = []
        for place, part, apart in self._parts(text):
            if apart:
                located += [(number, (place, place + len(part))) for number in self._apart_ids(part)]
            elif part:
                processor = self._at_start if place == 0 else self._further_on
                mapping: dict[str, Any] = processor.encode(part, return_type="offset_mapping")
                for number, (start, end) in zip(mapping["ids"], mapping["offsets"], strict=True):
                    # Sentencepiece gives the character to its last byte alone.
                    last = start + 1 if self._is_byte[number] else end
                    located.append((number, (place + start, place + last)))
            elif place == 0 and text:
                located.append((self._space_id, (0, 0)))
        return located

    def _apart_ids(self, part: str) -> list[int]:
        """Return the ids of a symbol, of U+2581 or of a lone surrogate."""
        if part in self.settings.user_symbols:
            return [self._at_start.piece_to_id(part)]
        if part != SPACE_MARK or not self.settings.byte_fallback:
            return [self.unk_id]
        return self._at_start.piece_to_id([f"<0x{byte:02X}>" for byte in part.encode()])
