"""Train subword models with sentencepiece; its errors become plain messages."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import sentencepiece

from selfattn.codec import Plain
from selfattn.errors import UserError
from selfattn.tokenizers.protocol import SPECIALS

SubwordKind = Literal["unigram", "bpe"]

SPACE_MARK = "\u2581"
"""How sentencepiece writes a space inside of pieces."""

# Sentencepiece skips texts with some of these characters (U+2585 is its sign for unknown), takes U+2581 for a space,
# and fails if a piece equals the name of a special token or a byte. Texts are therefore cut there.
_CUT = re.compile(rf"[\0{SPACE_MARK}\u2585\ud800-\udfff]|{'|'.join(SPECIALS)}|<0x[0-9A-F]{{2}}>")


_MOST_PIECES = 2**24
_MOST_TEXTS = 1_000_000  # sentencepiece keeps all texts in memory


@dataclass(frozen=True)
class SubwordSettings(Plain):
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
        if self.kind not in get_args(SubwordKind):
            raise UserError(f"subwords: kind is {self.kind!r}; take one of {', '.join(get_args(SubwordKind))}")
        if not len(SPECIALS) < self.vocab_size <= _MOST_PIECES:
            raise UserError(
                f"subwords: vocab_size is {self.vocab_size}; choose from 5 to {_MOST_PIECES:,}, such as 8000"
            )


def train_model(texts: Iterable[str], settings: SubwordSettings, *, clip: bool) -> bytes:
    """Train a model and return it in sentencepiece's format. See `SubwordTokenizer.train` for the arguments."""
    # Sorted, as the order of the texts would decide between pieces of equal frequency.
    parts = sorted(part for text in _drawn(texts, _MOST_TEXTS) for part in _CUT.split(text) if part)
    if not parts:
        raise UserError("subwords: there is no text to train on; give at least one text with something in it")
    specials: dict[str, Any] = {}
    for number, name in enumerate(SPECIALS):
        specials |= {f"{name.strip('<>')}_id": number, f"{name.strip('<>')}_piece": name}
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(parts),
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
        raise _in_words(error, settings) from None
    return written.getvalue()


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


def _in_words(error: RuntimeError, settings: SubwordSettings) -> Exception:
    """Translate an error of sentencepiece; an unknown error is returned unchanged."""
    if match := re.search(r"Vocabulary size too high .* <= (\d+)", str(error)):
        return UserError(f"subwords: the texts do not give {settings.vocab_size} pieces; ask for a vocabulary of at "
                         f"most {match[1]}, or give more text")  # fmt: skip
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
        return UserError(f"subwords: the characters alone need a vocabulary of {match[1]}, more than "
                         f"{settings.vocab_size}; ask for more")  # fmt: skip
    return error
