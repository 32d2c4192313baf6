"""Batches from a stream of examples, which may be larger than memory or have no end: only a window of it is held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch

from selfattn.data.batches import Batch, Example, collate, cut, encode_pairs, padding_of
from selfattn.data.pairs import Pair
from selfattn.tokenizers.protocol import Tokenizer

BUFFER = 10_000


def stream_batches(
    examples: Iterable[Example],
    *,
    batch_size: int | None = None,
    max_tokens: int | None = None,
    buffer: int = BUFFER,
    pad_id: int,
    bos_id: int,
    generator: torch.Generator | None,
) -> Iterator[Batch]:
    """Return an iterator over batches that together have every example once.

    With a generator: each window of `buffer` examples is shuffled, sorted by length and cut into batches, which come
    in random order. The order depends on the generator's seed, the lengths and the order of the stream, not on the
    model. What lies further apart than a window stays apart: let a file that is sorted by length or topic come
    shuffled (`shuffled`). Without a generator the order is kept.

    Args:
        examples: what to deal out; never more than `buffer` of them are read ahead.
        batch_size: most rows in a batch; None for no bound.
        max_tokens: most tokens in a batch, padding included, source and target together; None for no bound. An
            example that is longer than this by itself makes a batch by itself.
        buffer: examples in a window; default 10,000.
        pad_id: see `collate`.
        bos_id: see `collate`.
        generator: of the shuffling, on the CPU; None keeps the order.

    Returns:
        Batches whose `indices` count the examples of the stream from 0.

    Raises:
        ValueError: neither bound is given, or one of the numbers is not positive.

    Example:
        >>> examples = (Example([5] * n + [2], [6, 2]) for n in (3, 1, 4, 1, 5))
        >>> stream = stream_batches(examples, batch_size=2, buffer=4, pad_id=0, bos_id=1, generator=None)
        >>> [batch.indices for batch in stream]
        [[0, 1], [2, 3], [4]]
    """
    if batch_size is None and max_tokens is None:
        raise ValueError("stream_batches needs batch_size, max_tokens or both")
    for name, number in (("batch_size", batch_size), ("max_tokens", max_tokens), ("buffer", buffer)):
        if number is not None and number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    stream = iter(examples)
    if generator is None:
        return _in_order(stream, batch_size, max_tokens, buffer, pad_id, bos_id)
    return _shuffled(stream, batch_size, max_tokens, buffer, pad_id, bos_id, generator)


def encode_stream(pairs: Iterable[Pair], tokenizer: Tokenizer) -> Iterator[Example]:
    """Turn pairs into examples one by one: the ids of each side, with eos behind them.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> next(encode_stream([Pair("ab", "b")], CharTokenizer("ab")))
        Example(source=[4, 5, 2], target=[5, 2])
    """
    for pair in pairs:
        yield encode_pairs([pair], tokenizer)[0]


def padding_share(batches: Iterable[Batch]) -> float:
    """Return the share of padding among all tokens of the batches, source and target together; 0 of no batch.

    Example:
        >>> batch = collate([Example([7, 2], [8, 9, 2]), Example([7, 6, 2], [8, 2])], 0, 1, [0, 1])
        >>> round(padding_share([batch]), 3)  # 2 of 12
        0.167
    """
    counts = [padding_of(batch) for batch in batches]
    places = sum(count[1] for count in counts)
    return sum(count[0] for count in counts) / places if places else 0.0


def shuffled(pairs: Sequence[Pair], seed: int, *, start: int = 0) -> Iterator[Pair]:
    """Go through all pairs once, in an order that the seed decides, at constant memory.

    The order is a permutation that is computed place by place and never written down, so that a mapped file of any
    length is shuffled as a whole, and going on at place `start` costs nothing.

    Args:
        pairs: with quick random access, such as `selfattn.data.corpus.mapped.MappedPairs`.
        seed: of the order.
        start: how many were taken before; default 0.

    Example:
        >>> pairs = [Pair(letter, letter) for letter in "abcde"]
        >>> order = [pair.source for pair in shuffled(pairs, seed=1)]
        >>> sorted(order), [pair.source for pair in shuffled(pairs, seed=1, start=3)] == order[3:]
        (['a', 'b', 'c', 'd', 'e'], True)
    """
    for place in range(start, len(pairs)):
        yield pairs[permuted(place, len(pairs), seed)]


def permuted(place: int, size: int, seed: int) -> int:
    """Return where a pseudo-random permutation of ``range(size)`` sends a place.

    A Feistel network of four rounds (Luby and Rackoff, 1988) permutes the numbers of an even number of bits; what
    falls outside the range is sent on until it falls inside (Black and Rogaway, 2002), at most four times on average.

    Args:
        place: from 0 to ``size - 1``.
        size: at least 1.
        seed: of the permutation.

    Example:
        >>> sorted(permuted(place, 7, seed=0) for place in range(7))
        [0, 1, 2, 3, 4, 5, 6]
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = place >> half, place & mask
        for turn in range(4):
            left, right = right, left ^ (_mixed(right + (turn << 60), seed) & mask)
        place = left << half | right
        if place < size:
            return place


def _mixed(number: int, seed: int) -> int:
    """Mix 64 bits as SplitMix64 does (Steele, Lea and Flood, 2014)."""
    word = (number + (seed + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return word ^ word >> 31


def _in_order(
    stream: Iterator[Example], batch_size: int | None, max_tokens: int | None, buffer: int, pad_id: int, bos_id: int
) -> Iterator[Batch]:
    start, held = 0, list(islice(stream, buffer))
    while held:
        *full, last = cut(range(len(held)), held, batch_size, max_tokens)
        for group in full:
            yield collate([held[place] for place in group], pad_id, bos_id, [start + place for place in group])
        start, held = start + last[0], held[last[0] :]
        # The end of the window cut the last group short, not a bound: it is filled up from what comes, if there is
        # room in the window and anything comes.
        more = list(islice(stream, buffer - len(held)))
        if not more:
            yield collate(held, pad_id, bos_id, range(start, start + len(held)))
            start, held = start + len(held), list(islice(stream, buffer))
        held += more


def _shuffled(
    stream: Iterator[Example],
    batch_size: int | None,
    max_tokens: int | None,
    buffer: int,
    pad_id: int,
    bos_id: int,
    generator: torch.Generator,
) -> Iterator[Batch]:
    start = 0
    while held := list(islice(stream, buffer)):
        order = torch.randperm(len(held), generator=generator).tolist()
        order.sort(key=lambda place: (len(held[place].source), len(held[place].target)))
        groups = list(cut(order, held, batch_size, max_tokens))
        for turn in torch.randperm(len(groups), generator=generator).tolist():
            group = groups[turn]
            yield collate([held[place] for place in group], pad_id, bos_id, [start + place for place in group])
        start += len(held)
