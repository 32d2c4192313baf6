"""What models are trained on, and what they are tested on, made from a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from selfattn.data.examples import Example, encode_pairs, encode_stream, sample_pairs
from selfattn.data.pairs import Pair
from selfattn.data.shuffling import repeated
from selfattn.data.splits import Splits
from selfattn.decoding.texts import decode_texts
from selfattn.evaluation.alignment.links import GoldPair
from selfattn.evaluation.gates.output_gates import overlap
from selfattn.evaluation.metrics.exact import words_of
from selfattn.evaluation.metrics.metric import score_outputs
from selfattn.models.protocol import Seq2Seq
from selfattn.results.gates import Gate
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.processes import Processes
from selfattn.training.validation import Criterion

if TYPE_CHECKING:
    from selfattn.runs.task import Task

_SAMPLE = 20_000  # training pairs that are looked through for the longest
_HELD = 1_000_000  # pairs whose examples are held in memory; more are read as they are needed


@dataclass(frozen=True)
class TrainingSet:
    """What a model is trained on, ready to be used by several models one after the other.

    Attributes:
        tokenizer: of all of them.
        epoch: returns the training examples of an epoch, counted from 0; an iterable that is not a sequence is read as
            a stream, which may be larger than memory or endless.
        validation: unseen examples for the loss.
        criterion: what chooses the best weights.
        longest: the longest source with the longest target, to find out whether a model can read them.
        max_length: most tokens of an output, ``<eos>`` included.
        metrics: names of the metrics of validations and tests.
        settings: what makes the same data again, as plain JSON values.
        notes: lines on the data, to be said when the first training begins.
    """

    tokenizer: Tokenizer
    epoch: Callable[[int], Iterable[Example]]
    validation: Sequence[Example]
    criterion: Criterion
    longest: Example
    max_length: int = 0
    metrics: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


def make_training_set(
    task: Task, splits: Splits, training: TrainingConfig, *, first: int | None = None, keep: bool = False
) -> TrainingSet:
    """Make everything that models are trained on.

    Args:
        task: says what tokens pairs are cut into, and what chooses the best weights.
        splits: the pairs.
        training: says how many pairs an epoch has, and the seed.
        first: train on so many pairs only, again and again; default all there are.
        keep: keep the examples of every epoch, for the next model that is trained on the same; default False.

    Raises:
        UserError: a setting or the data are not usable.
    """
    tokenizer, sampling = task.tokenizer(splits), task.sampling()
    cache: dict[int, list[Example]] = {}

    def epoch(number: int) -> Iterable[Example]:
        pairs = _pairs_of(splits, number, training, first)
        if sampling:
            drawn = sample_pairs(pairs, tokenizer, seed=training.seed, epoch=number, alpha=sampling)
            return list(drawn) if _fits(pairs) else drawn
        if not _fits(pairs):
            return encode_stream(pairs, tokenizer)
        place = 0 if training.items_per_epoch is None else number  # a file is the same in every epoch
        if place in cache:
            return cache[place]
        examples = encode_pairs(pairs, tokenizer)
        if keep or training.items_per_epoch is None:
            cache[place] = examples
        return examples

    validation = splits.validation(training.validation_items)
    seen = [*splits.sample()[:_SAMPLE], *validation]
    source, target = max((pair.source for pair in seen), key=len), max((pair.target for pair in seen), key=len)
    longest = encode_pairs([Pair(source, target)], tokenizer)[0]
    max_length = 2 * len(longest.target)  # twice as many as the longest seen
    return TrainingSet(
        tokenizer,
        epoch,
        encode_pairs(validation, tokenizer),
        _criterion(task, tokenizer, validation, max_length),
        longest,
        max_length,
        task.metric_names(),
        splits.settings | ({} if first is None else {"first": first}),
        splits.notes,
    )


def _criterion(task: Task, tokenizer: Tokenizer, pairs: Sequence[Pair], max_length: int) -> Criterion:
    """Judge a model by what it writes greedily for the validation pairs."""
    names = task.validation_names()
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]

    def figures(model: Seq2Seq, loss: float, processes: Processes) -> Mapping[str, float]:
        found = decode_texts(model, tokenizer, sources, max_length=max_length, processes=processes)
        return score_outputs(names, [one[0].text for one in found], targets, task.language)

    return Criterion(figures, names[0], higher_is_better=task.headline.better == "higher")


def _fits(pairs: Iterable[Pair]) -> bool:
    """Whether the examples of these pairs may be held in memory all together."""
    return isinstance(pairs, Sequence) and len(pairs) <= _HELD


def _pairs_of(splits: Splits, epoch: int, training: TrainingConfig, first: int | None) -> Iterable[Pair]:
    """The training pairs of an epoch; where only the first are to be seen, those in ever new order."""
    if first is None:
        return splits.train(epoch, training.items_per_epoch)
    few = list(_first_pairs(splits, training, first))
    count = training.items_per_epoch or sum(1 for _ in splits.train(0, None))
    return repeated(few, count, start=epoch * count, seed=training.seed)


def _first_pairs(splits: Splits, training: TrainingConfig, first: int) -> Iterator[Pair]:
    """The first training pairs, from as many epochs as they fill; all of a file are one."""
    epochs = range(1) if training.items_per_epoch is None else range(training.epochs)
    return islice(chain.from_iterable(splits.train(epoch, training.items_per_epoch) for epoch in epochs), first)


@dataclass(frozen=True)
class Seen:
    """What training shows of the test.

    Attributes:
        overlap: the gate on shared sentences.
        words: how often training's targets have each word of the test's targets; empty where words do not matter.
        pairs: how many training pairs were gone through: a file's once, of endless data all.
    """

    overlap: Gate
    words: Mapping[str, int]
    pairs: int


@dataclass(frozen=True)
class TestSet:
    """What the models of one seed are tested on.

    Attributes:
        pairs: unseen pairs, the same for every seed.
        validation: unseen pairs that settings and weights are chosen by.
        trained_on: gives every training pair, in any order, perhaps several times.
        probes: further unseen pairs by name, such as years that training never showed.
        gold: sentences with hand-made links between their words, where spans are not known by construction.
        has_words: whether targets are made of words, rare ones among them.
    """

    pairs: Sequence[Pair]
    validation: Sequence[Pair]
    trained_on: Callable[[], Iterable[Pair]]
    probes: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    gold: Sequence[GoldPair] = ()
    has_words: bool = False

    @cached_property
    def seen(self) -> Seen:
        """What training shows of the test; found by going through all of it once."""
        counts = dict.fromkeys((word for pair in self.pairs for word in words_of(pair.target)), 0)
        pairs = 0

        def counted() -> Iterator[Pair]:
            nonlocal pairs
            for pair in self.trained_on():
                pairs += 1
                for word in words_of(pair.target) if self.has_words else ():
                    if word in counts:
                        counts[word] += 1
                yield pair

        shared = overlap(counted(), self.pairs)
        return Seen(shared, counts if self.has_words else {}, pairs)


def make_test_set(
    task: Task,
    splits: Splits,
    training: TrainingConfig,
    *,
    items: int | None,
    probes: bool,
    first: int | None = None,
    draw: int = 0,
) -> TestSet:
    """Make everything that models are tested on.

    Args:
        task: says what else is asked.
        splits: the pairs.
        training: how the models were trained, with the seed.
        items: test pairs at most; None for all there are.
        probes: whether to ask for more than the test part does.
        first: the models were trained on so many pairs only; default all there are.
        draw: which draw of the test pairs, see `Splits.fresh_test`; default 0, the first.

    Raises:
        UserError: a setting or the data are not usable.
    """

    def trained_on() -> Iterator[Pair]:
        if first is not None:
            yield from _first_pairs(splits, training, first)
            return
        for epoch in range(1 if training.items_per_epoch is None else training.epochs):
            yield from splits.train(epoch, training.items_per_epoch)

    return TestSet(
        splits.fresh_test(items, draw) if draw else splits.test(items),
        splits.validation(training.validation_items),
        trained_on,
        splits.probes() if probes else {},
        task.gold,
        task.has_words,
    )
