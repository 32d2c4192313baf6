"""Subword tokens, trained and segmented by sentencepiece, whose errors become plain messages."""

import hashlib
import heapq
import io
import math
import os
import random
import re
from abc import abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import sentencepiece

from selfattn import codec
from selfattn.errors import UserError
from selfattn.files import read_bytes, write_bytes
from selfattn.processes import paused_collector
from selfattn.tokenizers.protocol import SPECIALS, UNK, Tokenizer, checked_id, printable

SubwordKind = Literal["unigram", "bpe"]
ADVICE = "restore the files of the run, or train again"
SPACE_MARK = "\u2581"
"""How sentencepiece writes a space inside of pieces."""
# Sentencepiece skips texts with some of these characters (U+2585 is its sign for unknown), takes U+2581 for a space,
# and fails if a piece equals the name of a special token or a byte. Texts are therefore cut there.
_CUT = re.compile(rf"[\0{SPACE_MARK}\u2585\ud800-\udfff]|{'|'.join(SPECIALS)}|<0x[0-9A-F]{{2}}>")
_APART = re.compile(f"{SPACE_MARK}|[\ud800-\udfff]")  # what sentencepiece cannot read
_WORD = re.compile(f"{SPACE_MARK}?[^{SPACE_MARK}]+|{SPACE_MARK}")
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# Appended to a model, this overrides: normalizer_spec { add_dummy_prefix: false }.
_NO_SPACE_BEFORE = b"\x1a\x02\x18\x00"
# Log probability of an unknown character below the least probable piece, as in sentencepiece's lattice.
_UNKNOWN_PENALTY = 10.0
_MOST_PIECES = 2**24
_MOST_TEXTS = 1_000_000  # sentencepiece keeps all texts in memory
_MOST_WORDS = 250_000  # words whose ids are held in memory, some 50 MB
_BLOCK = 2000  # texts that are encoded together
_COUNTED = 500  # texts whose words are counted together: few enough to stay in a cache of the processor


@dataclass(frozen=True)
class SubwordSettings(codec.Plain):
    """Settings of a subword vocabulary.

    Args:
        kind: ``"unigram"`` (Kudo 2018, https://aclanthology.org/P18-1007) or ``"bpe"`` (Sennrich et al. 2016,
            https://aclanthology.org/P16-1162).
        vocab_size: number of tokens, with the four special tokens and, under byte fallback, the 256 bytes.
        byte_fallback: write characters outside the vocabulary as UTF-8 bytes, so that no text is unknown.
        split_digits: make every digit a token.

    Raises:
        UserError: a value is out of its range.
    """

    kind: SubwordKind = "unigram"
    vocab_size: int = 8000
    byte_fallback: bool = True
    split_digits: bool = True

    def __post_init__(self) -> None:
        if not len(SPECIALS) < self.vocab_size <= _MOST_PIECES:
            raise UserError(f"subwords: vocab_size is {self.vocab_size}; choose from 5 to {_MOST_PIECES:,}")


class SegmentedTokenizer(Tokenizer):
    """Pieces of a SentencePiece model; ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Args:
        model: in sentencepiece's format.
        names: the pieces in the order of their ids, with U+2581 for spaces; the special tokens first.
        is_byte: for each piece, whether it stands for a byte.

    Attributes:
        kind: name of the JSON file that describes the others.
        Description: its content, with a checksum of each.
        files: names of the others, that of the model first.
    """

    kind: ClassVar[str]
    Description: ClassVar[Any]
    files: ClassVar[tuple[str, ...]]

    def __init__(self, model: bytes, names: Sequence[str], is_byte: Sequence[bool]) -> None:
        self.model = model
        self._names = names
        self._is_byte = is_byte
        self._written = [b"", b"", b"", "\N{REPLACEMENT CHARACTER}".encode()]
        for name, stands_for_byte in list(zip(names, is_byte, strict=True))[len(SPECIALS) :]:
            text = name.replace(SPACE_MARK, " ").encode()
            self._written.append(bytes([_BYTES.index(name)]) if stands_for_byte else text)

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
            if any(map(self._is_outside, self.encode(text))):  # most texts need no places, which take twice the time
                for start, end in {span for number, span in self._located(text) if self._is_outside(number)}:
                    counts.update(text[start:end].replace(" ", ""))
        return counts

    def _is_outside(self, number: int) -> bool:
        """Say whether a token stands for characters that no piece has."""
        return number == UNK or self._is_byte[number]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids without ``<pad>``, ``<bos>`` and ``<eos>``.

        ``<unk>``, and bytes that are not UTF-8, become U+FFFD.

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

    def _contents(self) -> tuple[bytes, ...]:
        """Return the contents of the files."""
        return (self.model,)

    @abstractmethod
    def _described(self, *checksums: str) -> Any:
        """Return the description of files with these checksums."""

    @classmethod
    @abstractmethod
    def _opened(cls, description: Any, *paths: Path) -> Self:
        """Open the files."""

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the files, and the description with their checksums.

        Args:
            directory: created if it is missing.
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        # The checksums come last: a run killed in between leaves files that `load` refuses.
        for name, data in zip(self.files, self._contents(), strict=True):
            write_bytes(folder / name, data)
        checksums = [hashlib.sha256(data).hexdigest() for data in self._contents()]
        codec.write(folder / f"{self.kind}.json", self._described(*checksums))

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Args:
            directory: of the files.

        Raises:
            UserError: a file is missing or broken, or they do not belong together.
        """
        path = Path(directory) / f"{cls.kind}.json"
        description = codec.read(cls.Description, path, advice=ADVICE, newest=1, key="version")
        checksums = [value for name, value in vars(description).items() if name.endswith("sha256")]
        paths = [path.with_name(name) for name in cls.files]
        for file, checksum in zip(paths, checksums, strict=True):
            if hashlib.sha256(read_bytes(file, advice=ADVICE)).hexdigest() != checksum:
                raise UserError(f"{file}: not the file that {path.name} speaks of; {ADVICE}")
        return cls._opened(description, *paths)


@contextmanager
def named_model(path: Path, advice: str) -> Iterator[None]:
    """Turn errors of sentencepiece about the model of a file into a `UserError` inside a ``with`` block."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: damaged, or no model of sentencepiece ({reason}); {advice}") from None


@dataclass(frozen=True)
class SubwordFile(codec.Plain):
    """The content of ``subword.json``, which describes the model beside it.

    Attributes:
        tokenizer: kind of the tokenizer.
        version: of the format.
        settings: of the training.
        sentencepiece: version that trained the model.
        sha256: checksum of the model.
    """

    tokenizer: Literal["subword"]
    version: Literal[1]
    settings: SubwordSettings
    sentencepiece: str
    sha256: str


class SubwordTokenizer(SegmentedTokenizer):
    """Pieces of words as tokens (sentencepiece); ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Texts are not normalised: with byte fallback, ``decode(encode(text)) == text`` for every text in UTF-8. (A lone
    surrogate becomes ``<unk>``.) Ids are those of sentencepiece, except that U+2581, its sign for a space, is written
    as bytes. As in sentencepiece, a space is put before the text, so that a word has the same token everywhere;
    `decode` removes it.

    Args:
        model: in sentencepiece's format, from `train`.
        settings: of the training.

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

    kind = "subword"
    Description = SubwordFile
    files = ("subword.model",)

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
        return cls(*train_model(texts, settings or SubwordSettings(), clip=clip, room=room))

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
            ids_of = lru_cache(_MOST_WORDS)(self._ids_of_word)
            for text in texts:
                is_plain = text and (text.isascii() or not _APART.search(text))
                yield array("i", b"".join(map(ids_of, text.split(" "))) if is_plain else self.encode(text))
            return
        import torch

        stream = iter(texts)
        while block := list(islice(stream, _BLOCK)):
            readable = [text if text.isascii() else _APART.sub("", text) for text in block]
            encoded = self._at_start.encode(readable, num_threads=torch.get_num_threads())
            for text, plain, ids in zip(block, readable, encoded, strict=True):
                yield array("i", ids if text == plain else self.encode(text))

    def _ids_of_word(self, word: str) -> bytes:
        """Return the ids of a word, 4 bytes each; between two spaces stands a space."""
        return array("i", self._at_start.encode(word) if word else [self._space_id]).tobytes()

    def sample(self, text: str, seed: int, alpha: float) -> list[int]:
        """Return a random segmentation of the text, for subword regularisation.

        Args:
            text: any.
            seed: of the draw; the same text, seed and alpha give the same ids.
            alpha: strength. Unigram: exponent of the probability of each segmentation (Kudo 2018). BPE: probability of
                leaving out each merge (Provilkov et al. 2020).
        """
        ids: list[int] = []
        for _, part, reader in self._parts(text):
            if isinstance(reader, list):
                ids += reader
                continue
            for segment in self._sampler.segments(reader.normalize(part), seed, alpha):
                number = self._at_start.piece_to_id(segment)
                if number != self.unk_id:
                    ids.append(number)
                elif self.settings.byte_fallback:
                    ids += self._byte_ids(segment)
                elif ids[-1:] != [self.unk_id]:  # one for a run of them
                    ids.append(self.unk_id)
        return ids

    @cached_property
    def _further_on(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.model + _NO_SPACE_BEFORE)

    @cached_property
    def _sampler(self) -> "SegmentSampler":
        return SegmentSampler(self._at_start, bpe=self.settings.kind == "bpe")

    def _byte_ids(self, text: str) -> list[int]:
        return self._at_start.piece_to_id([_BYTES[byte] for byte in text.encode()])

    def _described(self, *checksums: str) -> SubwordFile:
        return SubwordFile("subword", 1, self.settings, sentencepiece.__version__, *checksums)

    @classmethod
    def _opened(cls, description: SubwordFile, *paths: Path) -> Self:
        with named_model(paths[0], ADVICE):
            tokenizer = cls(read_bytes(paths[0], advice=ADVICE), description.settings)
            tokenizer._check()
        return tokenizer

    def _check(self) -> None:
        """Check what the methods rely on, for a model that may have been changed.

        Raises:
            ValueError: it is not as `train` makes it.
        """
        pieces = self._names
        in_bytes = {piece for piece, is_byte in zip(pieces, self._is_byte, strict=True) if is_byte}
        is_sound = tuple(pieces[: len(SPECIALS)]) == SPECIALS and self._at_start.unk_id() == self.unk_id
        is_sound = is_sound and len(set(pieces)) == len(self) <= self.settings.vocab_size
        is_sound = is_sound and in_bytes == (set(_BYTES) if self.settings.byte_fallback else set())
        if not is_sound or not all(map(math.isfinite, self.vocabulary.values())):
            raise ValueError("its special tokens, bytes, pieces or scores are not those of a training")
        characters = "".join(piece for piece in pieces[len(SPECIALS) :] if not piece.startswith("<0x"))
        for text in (characters.replace(SPACE_MARK, " ")[:1000], " a  b", "\N{HANGUL SYLLABLE HAN}\u0301\t"):
            ids = self.encode(text)
            is_same = not self.settings.byte_fallback or self.decode(ids) == text
            if not is_same or super().encode(text) != ids:
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
        located: list[tuple[int, tuple[int, int]]] = []
        for place, part, reader in self._parts(text):
            if isinstance(reader, list):
                located += [(number, (place, place + len(part))) for number in reader]
                continue
            mapping: dict[str, Any] = reader.encode(part, return_type="offset_mapping")
            for number, (start, end) in zip(mapping["ids"], mapping["offsets"], strict=True):
                # Sentencepiece gives the character to its last byte only.
                located.append((number, (place + start, place + (start + 1 if self._is_byte[number] else end))))
        return located


def train_model(
    texts: Iterable[str], settings: SubwordSettings, *, clip: bool = False, room: int | None = None
) -> tuple[bytes, SubwordSettings]:
    """Train a vocabulary on texts. The same texts give the same bytes in any order.

    Args:
        texts: see :meth:`SubwordTokenizer.train`, as all that follow.
        settings: of the vocabulary.
        clip: see there.
        room: see there.

    Returns:
        The model in sentencepiece's format, and the settings, with the size that `room` asks for.

    Raises:
        UserError: see there.
    """
    drawn = _drawn(texts, _MOST_TEXTS)
    options: dict[str, Any] = {}
    counts = word_counts(drawn) if settings.kind == "bpe" else {}
    # Sorted, as the order of the texts would decide between pieces of equal frequency.
    if counts and not any("\t" in word for word in counts):
        parts = sorted(counts)
        sentences = [f"{word}\t{counts[word]}" for word in parts]
        options["input_format"] = "tsv"
    else:
        parts = sentences = sorted(filter(None, chain.from_iterable(map(_CUT.split, drawn))))
    if not parts:
        raise UserError("subwords: there is no text to train on; give at least one text with something in it")
    characters = {SPACE_MARK}.union(*parts) - {" "}
    needed = len(SPECIALS) + (256 if settings.byte_fallback else 0) + len(characters)
    settings = replace(settings, vocab_size=max(settings.vocab_size, 0 if room is None else needed + room))
    if settings.vocab_size < needed:
        size = f"vocab_size is {settings.vocab_size:,}, but every character of the texts is a piece"
        raise UserError(f"subwords: {size}; choose {needed:,} or more, or leave it out")
    for number, name in enumerate(SPECIALS):
        options |= {f"{name.strip('<>')}_id": number, f"{name.strip('<>')}_piece": name}
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=written,
            model_type=settings.kind,
            vocab_size=settings.vocab_size,
            hard_vocab_limit=not clip,
            character_coverage=1.0,
            required_chars=SPACE_MARK,
            byte_fallback=settings.byte_fallback,
            split_digits=settings.split_digits,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=True,
            max_sentence_length=2**30,
            num_threads=1,  # sums of probabilities depend on how many threads share them
            minloglevel=3,
            **options,
        )
    except RuntimeError as error:
        reason = ". ".join(str(error).rpartition("] ")[2].split(". ")[:2])  # behind the line of its source
        raise UserError(f"subwords: {reason.rstrip('.')}; choose another size, or give more text") from None
    return written.getvalue(), settings


@paused_collector()
def word_counts(texts: Iterable[str]) -> dict[str, int]:
    """Count the words of texts, which is all that BPE learns from: no piece crosses a space.

    A text with a space at an end, or with several together, counts as one word: there the spaces are pieces too.

    Example:
        >>> word_counts(["go left", "go", " go"])
        Counter({'go': 2, 'left': 1, ' go': 1})
    """
    counts = Counter[str]()
    stream = iter(texts)
    while block := list(islice(stream, _COUNTED)):
        words = " ".join(block).split(" ")
        if not all(words):
            words = []
            for text in block:
                parts_of_text = text.split(" ")
                words += parts_of_text if all(parts_of_text) else [text]
        counts.update(words)
    parts = Counter[str]()
    for word, count in counts.items():
        for part in filter(None, _CUT.split(word)):
            parts[part] += count
    return parts


def _drawn(texts: Iterable[str], count: int) -> list[str]:
    """Draw texts uniformly by reservoir sampling; only the drawn texts are kept."""
    chance = random.Random(0)
    stream = iter(texts)
    drawn = list(islice(stream, count))
    for number, text in enumerate(stream, count + 1):
        place = chance.randrange(number)
        if place < count:
            drawn[place] = text
    return drawn


class SegmentSampler:
    """Draws segmentations of a text into the pieces of a sentencepiece model.

    Sentencepiece draws from a generator of its own, which cannot be seeded for each text; so this is done here.

    Args:
        processor: with the model.
        bpe: leave out merges; else draw from the lattice of unigram.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, *, bpe: bool) -> None:
        ids = [number for number in range(len(SPECIALS), len(processor)) if not processor.is_byte(number)]
        scores: list[float] = processor.get_score(ids)
        self._score = dict(zip(processor.id_to_piece(ids), scores, strict=True))
        self._longest = max(map(len, self._score), default=1)
        self._unknown = min(scores, default=0.0) - _UNKNOWN_PENALTY
        self._ways = lru_cache(maxsize=20_000)(self._weigh)  # most words come again
        self._draw = self._left_out_merges if bpe else self._walk

    def segments(self, text: str, seed: int, alpha: float) -> list[str]:
        """Draw the segments of a text; an unknown character is a segment.

        Args:
            text: as sentencepiece normalises it.
            seed: of the draw.
            alpha: see :meth:`SubwordTokenizer.sample`.
        """
        return self._draw(text, random.Random(seed % 2**64), alpha)  # Random ignores the sign of a seed

    def _weigh(self, word: str, alpha: float) -> list[list[tuple[int, float]]]:
        """Return for each place of a word the pieces that end there: their starts and weights."""
        total = [0.0]  # log of the summed weights of all segmentations of word[:place]
        ways = [[(0, 1.0)]]
        scores = self._score
        for end in range(1, len(word) + 1):
            starts = range(max(0, end - self._longest), end)
            logs = [
                (start, total[start] + alpha * scores[word[start:end]]) for start in starts if word[start:end] in scores
            ]
            if not logs or logs[-1][0] != end - 1:  # the last character alone is no piece
                logs.append((end - 1, total[end - 1] + alpha * self._unknown))
            top = max([weight for _, weight in logs])
            ways.append([(start, math.exp(weight - top)) for start, weight in logs])
            total.append(top + math.log(sum([weight for _, weight in ways[-1]])))
        return ways

    def _walk(self, text: str, chance: random.Random, alpha: float) -> list[str]:
        """Sum over all segmentations of a word forward, then draw one backward (Kudo 2018, section 3.3)."""
        segments: list[str] = []
        for word in _WORD.findall(text):  # no piece contains a space inside, so words are independent
            drawn = []
            end = len(word)
            ways = self._ways(word, alpha)
            while end:
                start = chance.choices(ways[end], [weight for _, weight in ways[end]])[0][0]
                drawn.append(word[start:end])
                end = start
            segments += drawn[::-1]
        return segments

    def _left_out_merges(self, text: str, chance: random.Random, alpha: float) -> list[str]:
        """Merge the best pair again and again, each with probability 1 - alpha (Provilkov et al. 2020, algorithm 1)."""
        parts: list[str] = list(text)
        before = list(range(-1, len(parts) - 1))
        after = list(range(1, len(parts) + 1))
        waiting: list[tuple[float, int, int, str]] = []

        def consider(left: int, right: int) -> None:
            if left >= 0 and right < len(parts) and (merged := parts[left] + parts[right]) in self._score:
                heapq.heappush(waiting, (-self._score[merged], left, right, merged))

        for left in range(len(parts) - 1):
            consider(left, left + 1)
        while waiting:
            _, left, right, merged = heapq.heappop(waiting)
            # Either side may be merged already; a pair that is left out is not considered again.
            if not parts[left] or not parts[right] or parts[left] + parts[right] != merged or chance.random() < alpha:
                continue
            parts[left] = merged
            parts[right] = ""
            after[left] = after[right]
            if after[right] < len(parts):
                before[after[right]] = left
            consider(before[left], left)
            consider(left, after[left])
        return [part for part in parts if part]
