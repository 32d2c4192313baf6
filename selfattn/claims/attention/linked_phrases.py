"""Phrases in two languages with gold links between their words, and the subwords that models read them in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import count as count_up
from itertools import islice

import torch

from selfattn.data.batches import Batch, batches, collate
from selfattn.data.examples import Example, encode_pairs
from selfattn.data.pairs import Pair
from selfattn.data.phrases.source import CldrSource
from selfattn.data.splits import Split
from selfattn.decoding.alignment import Link
from selfattn.evaluation.alignment.attention_scores import gold_from_spans
from selfattn.evaluation.alignment.links import GoldPair, Links
from selfattn.streams import generator
from selfattn.tokenizers.subword import SubwordTokenizer
from selfattn.tokenizers.subword_training import SubwordSettings


@cache
def subwords(size: int = 1000) -> SubwordTokenizer:
    """Subwords of both languages, from phrases of a seed of their own."""
    texts = [text for pair in CldrSource(seed=99).pairs(8000) for text in (pair.source, pair.target)]
    return SubwordTokenizer.train(texts, SubwordSettings("bpe", size, byte_fallback=False, split_digits=False))


def phrases(part: Split, seed: int, count: int) -> list[Pair]:
    """Draw phrases of at least three words on both sides: with fewer there is little to link wrongly."""
    source = CldrSource(seed=seed, split=part)
    drawn = (pair for start in count_up(0, 500) for pair in source.pairs(500, start))
    return list(islice((p for p in drawn if min(p.source.count(" "), p.target.count(" ")) >= 2), count))


def gold(pair: Pair) -> GoldPair:
    """Link words that stand for the same field: surely where it is one word on each side, else possibly."""
    source, target = ([word.span() for word in re.finditer("[^ ]+", text)] for text in (pair.source, pair.target))
    sure: set[Link] = set()
    possible: set[Link] = set()
    for field in pair.spans:
        links = {(i, j) for j, i in gold_from_spans([field], source, target).possible.nonzero().tolist()}
        (sure if len(links) == 1 else possible).update(links)
    return GoldPair(tuple(pair.source.split()), tuple(pair.target.split()), Links(frozenset(sure), frozenset(possible)))


def unseen(part: Split, count: int) -> tuple[list[GoldPair], Batch]:
    """Return phrases that are not trained on, with their links, and the same as one batch."""
    found = phrases(part, 0, count)
    return [gold(pair) for pair in found], collate(encode_pairs(found, subwords()), 0, 1, range(count))


def training(seed: int, count: int, *, shuffled: bool) -> Iterator[Batch]:
    """Go through so many phrases again and again, each time in another order.

    Args:
        seed: of the phrases and of their order.
        count: of different phrases.
        shuffled: whether every target stands beside the source of another phrase.
    """
    examples = encode_pairs(phrases("train", seed, count), subwords())
    if shuffled:
        order = torch.randperm(count, generator=generator(seed, "claims/shuffled")).tolist()
        examples = [Example(examples[k].source, own.target) for k, own in zip(order, examples, strict=True)]
    draws = generator(seed, "claims/data")
    while True:
        yield from batches(examples, batch_size=32, max_tokens=None, pad_id=0, bos_id=1, generator=draws)
