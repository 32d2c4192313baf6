"""Examples with subwords cut anew in every epoch: subword regularisation, or BPE-dropout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from selfattn.data.batches import Example
from selfattn.data.pairs import Pair
from selfattn.streams import seed_for

if TYPE_CHECKING:
    from selfattn.tokenizers.protocol import Tokenizer


def sample_pairs(
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    *,
    seed: int,
    epoch: int,
    alpha: float | None = None,
    first: int = 0,
) -> Iterator[Example]:
    """Turn pairs into examples as `encode_pairs` does, each side cut at random.

    The cut of a pair depends on the seed, the epoch, the pair's number and alpha, on nothing else: not on what was cut
    before, nor on the process that does it.

    Args:
        pairs: of the training part.
        tokenizer: of both sides.
        seed: of the run; the draws are the stream ``"subwords"``.
        epoch: its number.
        alpha: see the tokenizer's ``sample``; default its own.
        first: number of the first pair; default 0. For a part of the data, or a stream that goes on.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> list(sample_pairs([Pair("ab", "b")], CharTokenizer("ab"), seed=0, epoch=1))
        [Example(source=[4, 5, 2], target=[5, 2])]
    """
    eos = [tokenizer.eos_id]
    for number, pair in enumerate(pairs, first):
        drawn = seed_for(seed, f"subwords/{epoch}/{number}")
        yield Example(
            tokenizer.source.sample(pair.source, drawn, alpha) + eos,
            # Another seed, or a target that equals its source would always be cut as the source is.
            tokenizer.target.sample(pair.target, drawn + 1, alpha) + eos,
        )
