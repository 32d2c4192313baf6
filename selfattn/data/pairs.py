"""Pairs of source and target: texts, how they are cleaned, where they align, and as numbers."""

import re
import unicodedata
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Self, overload

from selfattn.console import counting
from selfattn.processes import paused_collector
from selfattn.streams import seed_for
from selfattn.tokenizers.protocol import EncodesTogether, Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Span:
    """Where one field stands in the source and in the target: a piece of gold alignment.

    Args:
        field: the field's name, such as ``"year"``.
        source: half-open range of characters in the source, ``(start, end)``.
        target: half-open range of characters in the target, ``(start, end)``.

    Example:
        >>> span = Span("year", source=(13, 17), target=(0, 4))
        >>> "November 13, 2008"[slice(*span.source)], "2008-11-13"[slice(*span.target)]
        ('2008', '2008')
    """

    field: str
    source: tuple[int, int]
    target: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """One example of a task.

    Args:
        source: the text that is read.
        target: the text that should be written.
        tag: the name of the kind of example, for tables "by format"; default ``""`` (no kinds are told apart).
        spans: gold alignment, where the source of the pairs knows it; default none.

    Example:
        >>> Pair("11/13/08", "2008-11-13", tag="en_US short").target
        '2008-11-13'
    """

    source: str
    target: str
    tag: str = ""
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Example:
    """A pair as token ids, each side with the end of text (eos) behind it.

    Args:
        source: ids of the source.
        target: ids of the target.
        links: gold alignment as places of a source id and a target id; default none.
    """

    source: list[int]
    target: list[int]
    links: tuple[tuple[int, int], ...] = ()


class Examples(Sequence[Example]):
    """Examples that lie together in two arrays of 4 bytes an id; each is made when it is asked for.

    Args:
        sides: ids of source and target of each example, in turn.
        last: id behind those of every side; default none.

    Attributes:
        ends: int64 [2n], where each side ends among all ids.

    Example:
        >>> examples = Examples([[4, 5, 2], [5, 2], [2], [4, 2]])
        >>> len(examples), examples[1], examples.lengths().tolist()
        (2, Example(source=[2], target=[4, 2], links=()), [[3, 2], [1, 2]])
    """

    def __init__(self, sides: Iterable[Sequence[int]], last: int | None = None) -> None:
        self._ids = array("i")
        behind = array("i", [] if last is None else [last])
        ends = array("q")
        for side in sides:
            self._ids.extend(side)
            self._ids.extend(behind)
            ends.append(len(self._ids))
        self.ends = ends

    @classmethod
    def of(cls, examples: Iterable[Example]) -> Self:
        """Put examples together."""
        return cls(chain.from_iterable((example.source, example.target) for example in examples))

    def __len__(self) -> int:
        return len(self.ends) // 2

    @overload
    def __getitem__(self, place: int) -> Example: ...
    @overload
    def __getitem__(self, place: slice) -> list[Example]: ...
    def __getitem__(self, place: int | slice) -> Example | list[Example]:
        """Return an example, or a list of some."""
        if isinstance(place, slice):
            return [self[number] for number in range(len(self))[place]]
        number = range(len(self))[place]  # from the end where negative
        start = self.ends[2 * number - 1] if number else 0
        middle = self.ends[2 * number]
        end = self.ends[2 * number + 1]
        return Example(self._ids[start:middle].tolist(), self._ids[middle:end].tolist())

    def lengths(self) -> "NDArray[np.int64]":
        """Return the number of ids of source and target of each example, ``[n 2]``."""
        import numpy as np

        ends = np.asarray(self.ends, dtype=np.int64)
        starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])[: len(ends)]
        sizes: NDArray[np.int64] = ends - starts
        return sizes.reshape(-1, 2)


@paused_collector()
def encode_together(pairs: Sequence[Pair], tokenizer: Tokenizer) -> Examples:
    """Turn pairs into examples as :func:`encode_pairs` does, in little memory and with torch's number of threads.

    Args:
        pairs: of the training part.
        tokenizer: of both sides.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> list(encode_together([Pair("ab", "b")], CharTokenizer("ab")))
        [Example(source=[4, 5, 2], target=[5, 2], links=())]
    """
    sources = encode_all(tokenizer.source, (pair.source for pair in counting(pairs, "encoding pairs", len(pairs))))
    targets = encode_all(tokenizer.target, (pair.target for pair in pairs))
    return Examples(chain.from_iterable(zip(sources, targets, strict=True)), tokenizer.eos_id)


def encode_all(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[Sequence[int]]:
    """Return the ids of each text, as ``tokenizer.encode`` gives them."""
    return tokenizer.encode_all(texts) if isinstance(tokenizer, EncodesTogether) else map(tokenizer.encode, texts)


def encode_pairs(pairs: Iterable[Pair], tokenizer: Tokenizer) -> list[Example]:
    """Turn pairs into examples: the ids of each side, with eos behind them.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> encode_pairs([Pair("ab", "b")], CharTokenizer("ab"))
        [Example(source=[4, 5, 2], target=[5, 2], links=())]
    """
    return list(encode_stream(pairs, tokenizer))


def encode_stream(pairs: Iterable[Pair], tokenizer: Tokenizer) -> Iterator[Example]:
    """Turn pairs into examples one by one, as they are asked for.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> next(encode_stream([Pair("ab", "b")], CharTokenizer("ab")))
        Example(source=[4, 5, 2], target=[5, 2], links=())
    """
    eos = [tokenizer.eos_id]
    source = tokenizer.source
    target = tokenizer.target
    for pair in pairs:
        yield Example(source.encode(pair.source) + eos, target.encode(pair.target) + eos)


def sample_pairs(
    pairs: Iterable[Pair], tokenizer: Tokenizer, *, seed: int, epoch: int, alpha: float
) -> Iterator[Example]:
    """Turn pairs into examples one by one, each side cut at random: subword regularisation, or BPE-dropout.

    The cut of a pair depends only on the seed, the epoch, the pair's number and alpha.

    Args:
        pairs: of the training part.
        tokenizer: of both sides.
        seed: of the run; the draws are the stream ``"subwords"``.
        epoch: its number.
        alpha: see the tokenizer's ``sample``.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> list(sample_pairs([Pair("ab", "b")], CharTokenizer("ab"), seed=0, epoch=1, alpha=0.1))
        [Example(source=[4, 5, 2], target=[5, 2], links=())]
    """
    eos = [tokenizer.eos_id]
    source = tokenizer.source
    target = tokenizer.target
    for number, pair in enumerate(pairs):
        drawn = seed_for(seed, f"subwords/{epoch}/{number}")
        # Another seed, or a target that equals its source would always be cut as the source is.
        yield Example(
            source.sample(pair.source, drawn, alpha) + eos, target.sample(pair.target, drawn + 1, alpha) + eos
        )


# Line ends, tabs and separators become spaces; other control characters and byte order marks are removed.
_BREAKS = re.compile("[\t-\r\x1c-\x1f\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")


def clean_text(text: str) -> str:
    r"""Clean a source or a target.

    Line ends, tabs and separators become spaces. Other control characters and byte order marks are removed. The text
    gets Unicode's form NFC, and loses the spaces at its ends, no-break spaces among them. Everything else stays: spaces
    inside, no-break spaces, joiners, zero-width spaces and marks of direction. (NFKC would change visible characters,
    such as ``½``.) To clean a clean text changes nothing. ``cleanText`` in ``demo/templates/engine.js`` does the same.

    Example:
        >>> clean_text(" 한\x00국\t어 ")
        '한국 어'
    """
    if not text.isprintable():
        text = _CONTROLS.sub("", _BREAKS.sub(" ", text))
    return unicodedata.normalize("NFC", text).strip()


_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # of direction: nobody sees them
_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")


def plain_text(text: str, vocabulary: Container[str]) -> str:
    r"""Write characters that a vocabulary lacks in their plain form, where this changes no meaning.

    A decimal digit of another script becomes the digit 0 to 9, a no-break, thin or wide space a space, and a mark of
    direction is left out. Without this they would be unknown to the model. Characters of the vocabulary stay.
    ``plainText`` in ``demo/templates/engine.js`` does the same.

    Args:
        text: a clean text.
        vocabulary: the characters of the vocabulary.

    Example:
        >>> plain_text("١٣‏/١١", vocabulary="0123456789/"), plain_text("١", vocabulary="١")
        ('13/11', '١')
    """
    if text.isascii():
        return text
    return "".join(character if character in vocabulary else _plain(character) for character in text).strip()


def plain_words(text: str, vocabulary: Container[str]) -> str:
    r"""Write words that a vocabulary lacks in their plain form, as `plain_text` does; several spaces become one.

    ``plainWords`` in ``demo/templates/engine.js`` does the same.

    Args:
        text: a clean text.
        vocabulary: the words of the vocabulary.

    Example:
        >>> plain_words("turn\u00a0left  twice", vocabulary={"turn", "left", "twice"})
        'turn left twice'
    """
    words: list[str] = []
    for word in text.split(" "):
        words += [word] if word in vocabulary else plain_text(word, ()).split(" ")
    return " ".join(word for word in words if word or "" in vocabulary).strip()


def _plain(character: str) -> str:
    if _MARKS.match(character):
        return ""
    if _SPACES.match(character):
        return " "
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


def without_marks(text: str) -> str:
    r"""Leave out marks of direction, which some keyboards write and others do not.

    Example:
        >>> without_marks("13‏/11")
        '13/11'
    """
    return _MARKS.sub("", text)


def compose(text: str) -> str:
    r"""Put a text into Unicode's form NFC, which is all that texts of a language model need.

    Spaces at the ends, tabs and other characters stay: a text may begin with an indentation, a prompt end with a space.

    Example:
        >>> compose(" cafe\u0301 ")
        ' café '
    """
    return unicodedata.normalize("NFC", text)


def clean_pair(pair: Pair) -> Pair:
    """Clean both sides of a pair. A clean pair is returned as it is; another loses its spans, which no longer fit.

    Example:
        >>> clean_pair(Pair(" May 1", "05-01\\n", "short"))
        Pair(source='May 1', target='05-01', tag='short', spans=())
    """
    source = clean_text(pair.source)
    target = clean_text(pair.target)
    if (source, target) == (pair.source, pair.target):
        return pair
    return Pair(source, target, pair.tag)


def unclean(pairs: Iterable[Pair]) -> Pair | None:
    """Return the first pair that cleaning would change; None where there is none."""
    return next((pair for pair in pairs if clean_pair(pair) is not pair), None)
