"""A pair of texts with its gold alignment, and pairs made on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selfattn.streams import seed_for

if TYPE_CHECKING:
    from selfattn.tokenizers.protocol import Tokenizer


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
    """

    source: list[int]
    target: list[int]


def encode_pairs(pairs: Iterable[Pair], tokenizer: Tokenizer) -> list[Example]:
    """Turn pairs into examples: the ids of each side, with eos behind them.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> encode_pairs([Pair("ab", "b")], CharTokenizer("ab"))
        [Example(source=[4, 5, 2], target=[5, 2])]
    """
    return list(encode_stream(pairs, tokenizer))


def encode_stream(pairs: Iterable[Pair], tokenizer: Tokenizer) -> Iterator[Example]:
    """Turn pairs into examples one by one, as they are asked for.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> next(encode_stream([Pair("ab", "b")], CharTokenizer("ab")))
        Example(source=[4, 5, 2], target=[5, 2])
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
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> list(sample_pairs([Pair("ab", "b")], CharTokenizer("ab"), seed=0, epoch=1, alpha=0.1))
        [Example(source=[4, 5, 2], target=[5, 2])]
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
