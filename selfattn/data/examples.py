"""Pairs as token ids, each side followed by eos; subwords are the best segmentation or sampled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selfattn.data.pairs import Pair
from selfattn.streams import seed_for

if TYPE_CHECKING:
    from selfattn.tokenizers.protocol import Tokenizer


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
    eos, source, target = [tokenizer.eos_id], tokenizer.source, tokenizer.target
    for pair in pairs:
        yield Example(source.encode(pair.source) + eos, target.encode(pair.target) + eos)


def sample_pairs(
    pairs: Iterable[Pair], tokenizer: Tokenizer, *, seed: int, epoch: int, alpha: float | None = None
) -> Iterator[Example]:
    """Turn pairs into examples one by one, each side cut at random: subword regularisation, or BPE-dropout.

    The cut of a pair depends only on the seed, the epoch, the pair's number and alpha.

    Args:
        pairs: of the training part.
        tokenizer: of both sides.
        seed: of the run; the draws are the stream ``"subwords"``.
        epoch: its number.
        alpha: see the tokenizer's ``sample``; default its own.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> list(sample_pairs([Pair("ab", "b")], CharTokenizer("ab"), seed=0, epoch=1))
        [Example(source=[4, 5, 2], target=[5, 2])]
    """
    eos, source, target = [tokenizer.eos_id], tokenizer.source, tokenizer.target
    for number, pair in enumerate(pairs):
        drawn = seed_for(seed, f"subwords/{epoch}/{number}")
        # Another seed, or a target that equals its source would always be cut as the source is.
        yield Example(
            source.sample(pair.source, drawn, alpha) + eos, target.sample(pair.target, drawn + 1, alpha) + eos
        )
