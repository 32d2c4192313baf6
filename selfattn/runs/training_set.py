"""From pairs in three parts to what a training takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from selfattn.data.examples import Example, encode_pairs, encode_stream, sample_pairs
from selfattn.data.pairs import Pair
from selfattn.data.shuffling import repeated
from selfattn.runs.fit import Material
from selfattn.runs.splits import PairData
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.validation import Criterion

_SAMPLE = 20_000  # training pairs that are looked through for the longest
_HELD = 1_000_000  # pairs whose examples are held in memory; more are read as they are needed


class MakeMeasure(Protocol):
    """Makes the measure that chooses the best weights."""

    def __call__(self, tokenizer: Tokenizer, pairs: Sequence[Pair], *, max_length: int) -> Criterion:
        """Return the measure on these validation pairs."""


def make_material(
    data: PairData,
    tokenizer: Tokenizer,
    training: TrainingConfig,
    measure: MakeMeasure,
    *,
    keep: bool = False,
    first: int | None = None,
    sampling: float = 0.0,
) -> tuple[Material, int]:
    """Make everything that models are trained on.

    Args:
        data: where pairs come from.
        tokenizer: of all models.
        training: says how many pairs an epoch has.
        measure: makes the measure that chooses the best weights.
        keep: keep the examples of every epoch, for the next model that is trained on the same; default False.
        first: train on so many pairs only, again and again; default all there are.
        sampling: how boldly texts are cut into other subwords in every epoch; 0 is not at all.

    Returns:
        The material, and the most tokens an output may have: twice as many as the longest seen.
    """
    kept: dict[int, list[Example]] = {}

    def epoch(number: int) -> Iterable[Example]:
        pairs = _pairs_of(data, number, training, first)
        if sampling:
            drawn = sample_pairs(pairs, tokenizer, seed=training.seed, epoch=number, alpha=sampling)
            return list(drawn) if _fits(pairs) else drawn
        if not _fits(pairs):
            return encode_stream(pairs, tokenizer)
        place = 0 if training.items_per_epoch is None else number  # all of a file, every time
        if place in kept:
            return kept[place]
        examples = encode_pairs(pairs, tokenizer)
        if keep or training.items_per_epoch is None:
            kept[place] = examples
        return examples

    validation = data.validation(training.validation_items)
    longest = _longest([*data.sample()[:_SAMPLE], *validation], tokenizer)
    max_length = 2 * len(longest.target)
    judged = measure(tokenizer, validation, max_length=max_length)
    return Material(tokenizer, epoch, encode_pairs(validation, tokenizer), judged, longest), max_length


def _fits(pairs: Iterable[Pair]) -> bool:
    """Whether the examples of these pairs may be held in memory all together."""
    return isinstance(pairs, Sequence) and len(pairs) <= _HELD


def trained_on(data: PairData, training: TrainingConfig, first: int | None = None) -> Iterator[Pair]:
    """Give every pair that training shows, some perhaps several times.

    Args:
        data: where pairs come from.
        training: how many.
        first: only so many of them.
    """
    for epoch in range(1 if training.items_per_epoch is None or first is not None else training.epochs):
        yield from islice(data.train(epoch, training.items_per_epoch), first)


def _pairs_of(data: PairData, epoch: int, training: TrainingConfig, first: int | None) -> Iterable[Pair]:
    """The training pairs of an epoch; where only the first are to be seen, those in ever new order."""
    if first is None:
        return data.train(epoch, training.items_per_epoch)
    few = list(islice(data.train(0, training.items_per_epoch), first))
    count = training.items_per_epoch or sum(1 for _ in data.train(0, None))
    return repeated(few, count, start=epoch * count, seed=training.seed)


def _longest(pairs: Sequence[Pair], tokenizer: Tokenizer) -> Example:
    """The longest source with the longest target."""
    source = max((pair.source for pair in pairs), key=len)
    target = max((pair.target for pair in pairs), key=len)
    return encode_pairs([Pair(source, target)], tokenizer)[0]
