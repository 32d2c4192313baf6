"""Train the SentencePiece model of a subword vocabulary; errors of the library become plain messages."""

import io
import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, compress, islice
from operator import not_
from typing import Any, Literal

import sentencepiece

from selfattn import codec
from selfattn.collector import paused_collector
from selfattn.errors import UserError
from selfattn.tokenizers.protocol import SPECIALS
from selfattn.tokenizers.sampling import SPACE_MARK

SubwordKind = Literal["unigram", "bpe"]

# Sentencepiece skips texts with some of these characters (U+2585 is its sign for unknown), takes U+2581 for a space,
# and fails if a piece equals the name of a special token or a byte. Texts are therefore cut there.
_CUT = re.compile(rf"[\0{SPACE_MARK}\u2585\ud800-\udfff]|{'|'.join(SPECIALS)}|<0x[0-9A-F]{{2}}>")

_BLOCK = 500  # texts whose words are counted together: few enough to stay in a cache of the processor
_MOST_PIECES = 2**24
_MOST_TEXTS = 1_000_000  # sentencepiece keeps all texts in memory


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


def train_model(
    texts: Iterable[str], settings: SubwordSettings, *, clip: bool = False, room: int | None = None
) -> tuple[bytes, SubwordSettings]:
    """Train a vocabulary on texts. The same texts give the same bytes in any order.

    Args:
        texts: see :meth:`~selfattn.tokenizers.subword.SubwordTokenizer.train`, as all that follow.
        settings: of the vocabulary.
        clip: see there.
        room: see there.

    Returns:
        The model in sentencepiece's format, and the settings, with the size that `room` asks for.

    Raises:
        UserError: see there.
    """
    drawn = _drawn(texts, _MOST_TEXTS)
    specials: dict[str, Any] = {}
    counts = word_counts(drawn) if settings.kind == "bpe" else {}
    # Sorted, as the order of the texts would decide between pieces of equal frequency.
    if counts and not any("\t" in word for word in counts):
        parts = sorted(counts)
        sentences = [f"{word}\t{counts[word]}" for word in parts]
        specials["input_format"] = "tsv"
    else:
        parts = sorted(filter(None, chain.from_iterable(map(_CUT.split, drawn))))
        sentences = parts
    if not parts:
        raise UserError("subwords: there is no text to train on; give at least one text with something in it")
    characters = {SPACE_MARK}.union(*parts) - {" "}
    needed = len(SPECIALS) + (256 if settings.byte_fallback else 0) + len(characters)
    if room is not None and settings.vocab_size < needed + room:
        settings = replace(settings, vocab_size=needed + room)
    if settings.vocab_size < needed:
        size = f"vocab_size is {settings.vocab_size:,}, but every character of the texts is a piece"
        raise UserError(f"subwords: {size}; choose {needed:,} or more, or leave it out")
    for number, name in enumerate(SPECIALS):
        specials |= {f"{name.strip('<>')}_id": number, f"{name.strip('<>')}_piece": name}
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
            **specials,
        )
    except RuntimeError as error:
        sentences = str(error).rpartition("] ")[2].split(". ")[:2]  # what is wrong, behind the line of its source
        reason = ". ".join(sentences).rstrip(".")
        raise UserError(f"subwords: {reason}; choose another size, or give more text") from None
    return written.getvalue(), settings


@paused_collector()
def word_counts(texts: Iterable[str]) -> dict[str, int]:
    """Count the words of texts, which is all that BPE learns from: no piece crosses a space.

    A text with a space at an end, or with several together, counts as one word: there the spaces are pieces too.

    Example:
        >>> word_counts(["go left", "go", " go"])
        {'go': 2, 'left': 1, ' go': 1}
    """
    counts = Counter[str]()
    stream = iter(texts)
    while block := list(islice(stream, _BLOCK)):
        words = " ".join(block).split(" ")
        if not all(words):  # a space at an end, or several together
            is_whole = ["  " in f" {text} " for text in block]
            rest = " ".join(compress(block, map(not_, is_whole)))
            words = [*rest.split(" "), *compress(block, is_whole)]
        counts.update(words)
    parts: dict[str, int] = {}
    for word, count in counts.items():
        for part in filter(None, _CUT.split(word)):
            parts[part] = parts.get(part, 0) + count
    return parts


def _drawn(texts: Iterable[str], count: int) -> list[str]:
    """Draw texts uniformly by reservoir sampling; only the drawn texts are kept."""
    chance = random.Random(0)
    drawn: list[str] = []
    for number, text in enumerate(texts):
        if number < count:
            drawn.append(text)
        elif (place := chance.randrange(number + 1)) < count:
            drawn[place] = text
    return drawn
