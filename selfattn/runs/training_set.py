"""Training and test sets, made from a task."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, islice
from typing import Any

from selfattn.console import waiting
from selfattn.data.pairs import (
    Example,
    Examples,
    Pair,
    Span,
    encode_pairs,
    encode_stream,
    encode_together,
    sample_pairs,
    unclean,
)
from selfattn.data.splits import Splits, next_items
from selfattn.decoding.scoring import text_examples
from selfattn.decoding.texts import decode_texts
from selfattn.distributed import Processes
from selfattn.errors import SettingError, UserError, describe_error
from selfattn.evaluation.attention import linked_examples
from selfattn.evaluation.metrics import BITS_PER_CHARACTER, PERPLEXITY, make_metric, score_outputs
from selfattn.evaluation.translation_metrics import script_warning
from selfattn.models.protocol import Seq2Seq
from selfattn.runs.predictor import unknown_characters
from selfattn.runs.task import TaskData, TextData, Texts, metric_names, validation_names
from selfattn.settings import shown
from selfattn.tokenizers.protocol import BOS, EOS, PAD, Tokenizer, unit_of
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import Criterion, first_look

_SAMPLE = 20_000  # training pairs that are searched for the longest
_READ = 2000  # pairs whose targets' script is compared with their language
_WRITTEN = 24_576  # most tokens of validation outputs that are written together: an untrained model ends none
MOST_UNKNOWN = 0.01
"""Largest share of unknown tokens in the targets of a training that starts from another run."""
CURVE_ITEMS = 100  # validation pairs of a point of the learning curve between validations
_HELD = 1_000_000  # most pairs whose examples are held in memory


@dataclass(frozen=True)
class TrainingSet:
    """The data of a training; several models can be trained on it one after the other.

    Attributes:
        tokenizer: of all models.
        epoch: returns the training examples of an epoch, counted from 0; an iterable that is not a sequence is read as
            a stream, which may be larger than memory or endless.
        validation: unseen examples for the loss.
        criterion: chooses the best weights.
        longest: the longest source with the longest target, to check that a model can read them.
        max_length: most tokens of an output, ``<eos>`` included.
        metrics: names of the metrics of validations and tests.
        settings: of the data, as plain JSON values.
        notes: lines about the data, for the beginning of the first training.
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
    task: TaskData,
    training: TrainingConfig,
    splits: Splits | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    allow_unknown: bool = False,
    first: int | None = None,
    keep: bool = False,
    links: Mapping[tuple[str, str], Sequence[Span]] | None = None,
) -> TrainingSet:
    """Make the training set of a task.

    Args:
        task: its first metric chooses the best weights; of texts, the lowest perplexity.
        training: configuration, with the seed.
        splits: of that seed, if they are open already.
        tokenizer: of another training; default a new one.
        allow_unknown: accept targets with many characters that this tokenizer does not know; default False.
        first: train on this number of pairs again and again; default all pairs.
        keep: cache the examples of every epoch for further models; default False.
        links: spans of pairs by their texts, for guided alignment; default those of the pairs themselves.

    Raises:
        UserError: a setting or the data are not usable, too many tokens of the targets are unknown, or a metric fails
            on the first two targets.
    """
    if training.guided and (isinstance(task, TextData) or task.sampling()):
        raise SettingError("`guided`: needs pairs, and tokens that are the same in each epoch (without `sampling`)")
    if isinstance(task, TextData):
        return _training_set_of_texts(task, training, splits, tokenizer, allow_unknown=allow_unknown, first=first)
    splits = splits or task.splits(training.seed, training.validation_items)
    origin = None
    if tokenizer is None:
        with waiting("learning the vocabulary"):
            tokenizer = task.tokenizer(splits)
        origin = task.vocabulary_origin()
    if [tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id] != [PAD, BOS, EOS]:
        raise UserError(f"{type(tokenizer).__name__}: expected pad_id {PAD}, bos_id {BOS} and eos_id {EOS}")
    cache: dict[int, Sequence[Example]] = {}
    sampling = task.sampling()
    spans = links or {}
    is_fixed = training.items_per_epoch is None and (splits.is_same_each_epoch or first is not None)

    def epoch(number: int) -> Iterable[Example]:
        place = 0 if is_fixed else number
        if place in cache:
            return cache[place]
        pairs = _pairs_of(splits, number, training, first)
        if sampling:
            drawn = sample_pairs(pairs, tokenizer, seed=training.seed, epoch=number, alpha=sampling)
            return Examples.of(drawn) if _fits(pairs) else drawn
        if not isinstance(pairs, Sequence) or not _fits(pairs):
            return linked_examples(pairs, tokenizer, spans) if training.guided else encode_stream(pairs, tokenizer)
        examples: Sequence[Example]
        if training.guided:
            examples = list(linked_examples(pairs, tokenizer, spans))
        else:
            examples = encode_together(pairs, tokenizer)
        if keep or is_fixed:
            cache[place] = examples
        return examples

    validation = splits.validation(training.validation_items)
    sampled = splits.sample()[:_SAMPLE]
    all_pairs = [*sampled, *validation]
    if pair := unclean(all_pairs):
        advice = "clean them by selfattn.plugin.clean_pair"
        raise UserError(f"{splits.name}: {pair.source!r}, {pair.target!r}: not clean, as inputs of a run are; {advice}")
    source = max((pair.source for pair in all_pairs), key=length_in(tokenizer.source))
    target = max((pair.target for pair in all_pairs), key=length_in(tokenizer.target))
    longest = encode_pairs([Pair(source, target)], tokenizer)[0]
    notes = list(splits.notes)
    targets = (pair.target for pair in all_pairs[:_READ])
    if task.language and (warning := script_warning(targets, task.language)):
        notes.append(warning)
    notes += vocabulary_notes(tokenizer, sampled, validation, origin, allow_unknown=allow_unknown)
    if training.guided:
        count = sum(bool(spans.get((pair.source, pair.target), pair.spans)) for pair in sampled)
        if not count:
            raise SettingError("`guided`: no training pair has links; selfattn train reads a file of them (--links)")
        notes.append(f"guided alignment: {count:,} of {len(sampled):,} training pairs have links")
    validation_examples = encode_pairs(validation, tokenizer)
    limits = output_limits(validation, validation_examples, sampled, tokenizer)
    criterion = _criterion(validation_names(task), task.language, tokenizer, validation, limits)
    few = validation_examples[: training.look_items]
    if len(few) < len(validation):

        def look(model: Seq2Seq, processes: Processes) -> tuple[float, float]:
            loss, share = first_look(model, few, training, processes)
            if share >= (training.target_exact_match or 0.0):  # chance among a few, perhaps: outputs are dear
                _, share = first_look(model, validation_examples, training, processes)
            return loss, share

        criterion = replace(criterion, look=look)
    return TrainingSet(
        tokenizer,
        epoch,
        validation_examples,
        criterion,
        longest,
        2 * len(longest.target),  # twice as many as the longest seen
        metric_names(task),
        _settings_of(task, splits.settings, first),
        notes,
    )


def _training_set_of_texts(
    task: TextData,
    training: TrainingConfig,
    splits: Splits | None,
    tokenizer: Tokenizer | None,
    *,
    allow_unknown: bool,
    first: int | None,
) -> TrainingSet:
    """Cut texts into windows. The lowest perplexity chooses the best weights; a comparison has ``splits``."""
    if training.target_exact_match is not None:
        raise SettingError("`target_exact_match`: a language model has no exact match; leave it out")
    origin = task.vocabulary_origin() if tokenizer is None else None
    if splits is None:
        texts = task.texts(training.validation_items)
    else:
        train = [pair.target for pair in splits.train(0, None)][:first]
        texts = Texts(train, [pair.target for pair in splits.validation(training.validation_items)], splits.settings)
    tokenizer = tokenizer or task.text_tokenizer(texts.train)
    windows = text_examples(texts.train, tokenizer, task.context)
    validation = text_examples(texts.validation, tokenizer, task.context)
    train_pairs = [Pair("", line) for line in texts.train]
    validation_pairs = [Pair("", line) for line in texts.validation]
    first_text = shown(texts.train[0])
    notes = [f"texts: {len(texts.train):,} for training, {len(texts.validation):,} for validation, first {first_text}"]
    notes += vocabulary_notes(tokenizer, train_pairs, validation_pairs, origin, allow_unknown=allow_unknown)

    tokens_per_character = sum(len(window.target) for window in validation) / sum(map(len, texts.validation))

    def measure(model: Seq2Seq, loss: float, processes: Processes) -> Mapping[str, float]:
        return {PERPLEXITY: math.exp(loss), BITS_PER_CHARACTER: loss / math.log(2) * tokens_per_character}

    def epoch(number: int) -> Sequence[Example]:
        count = training.items_per_epoch
        return windows if count is None else next_items(windows, count, start=number * count, seed=training.seed)

    return TrainingSet(
        tokenizer,
        epoch,
        validation,
        Criterion(measure, PERPLEXITY, higher_is_better=False),
        longest=max([*windows, *validation], key=lambda example: len(example.target)),
        max_length=task.context,
        settings=_settings_of(task, texts.settings, first),
        notes=notes,
    )


def _settings_of(task: TaskData, settings: Mapping[str, Any], first: int | None) -> dict[str, Any]:
    """Return the settings of the data with the checksums of other files, and the number of first pairs."""
    files = task.other_files(settings)
    return {**settings, **({"option_files": files} if files else {}), **({} if first is None else {"first": first})}


def output_limits(
    pairs: Sequence[Pair], examples: Sequence[Example], training: Sequence[Pair], tokenizer: Tokenizer
) -> list[int]:
    """Return the most tokens that a validation lets a model write for each pair's source.

    That is twice the longest target seen with a source up to twice as long, and 10 characters (or words): a single long
    pair slows the validation of no others. An untrained model often writes up to its limit.

    Args:
        pairs: of the validation.
        examples: these pairs as ids.
        training: further pairs, of the training.
        tokenizer: of both sides.

    Returns:
        A limit for each pair; a target equal to the pair's is always within it.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> tokenizer = CharTokenizer("ab")
        >>> pairs = [Pair("a", "bb"), Pair("a" * 99, "b" * 99)]
        >>> output_limits(pairs, encode_pairs(pairs, tokenizer), [Pair("aa", "bbb")], tokenizer)
        [8, 200]
    """
    of_source = length_in(tokenizer.source)
    of_target = length_in(tokenizer.target)
    source_lengths = [of_source(pair.source) for pair in pairs]
    lengths = [(source, len(example.target)) for source, example in zip(source_lengths, examples, strict=True)]
    longest_so_far = 0
    longest_of: dict[int, tuple[int, str]] = {}  # by the length of the source, the longest target and its length
    for pair in training:
        source = of_source(pair.source)
        length = of_target(pair.target)
        if source not in longest_of or length > longest_of[source][0]:
            longest_of[source] = (length, pair.target)
    for source, (length, target) in sorted(longest_of.items()):
        if length > longest_so_far:  # only these few are cut into tokens
            longest_so_far = length
            lengths.append((source, len(tokenizer.target.encode(target)) + 1))
    lengths.sort()
    longest = list(accumulate((target for _, target in lengths), max))
    sources = [source for source, _ in lengths]
    return [2 * longest[bisect_right(sources, 2 * source + 10) - 1] for source in source_lengths]


def length_in(tokenizer: Tokenizer) -> Callable[[str], int]:
    """Return the function that measures texts for a tokenizer: in words or letters, else in characters."""
    if unit_of(tokenizer) != "characters":
        return lambda text: len(tokenizer.encode(text))
    return len


def _criterion(
    names: Sequence[str],
    language: str,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    limits: Sequence[int],
) -> Criterion:
    """Measure a model by its greedy outputs for the validation pairs, each of at most its limit of tokens."""
    sources = [pair.source for pair in pairs]
    targets = [pair.target for pair in pairs]
    for name in names:  # a plugin's metric fails here, not after the first epoch
        try:
            score_outputs([name], targets[:2], pairs[:2], language)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"metric {name!r}: cannot score {targets[:2]} ({describe_error(error)})") from error

    def measure(model: Seq2Seq, loss: float, processes: Processes, first: int | None = None) -> Mapping[str, float]:
        outputs = decode_texts(
            model,
            tokenizer,
            sources[:first],
            max_length=limits[:first],
            processes=processes,
            scored=False,
            most_written=_WRITTEN,
        )
        return score_outputs(names, [best[0].text for best in outputs], pairs[:first], language)

    def measure_part(model: Seq2Seq, processes: Processes) -> float:
        return measure(model, math.nan, processes, CURVE_ITEMS)[names[0]]

    is_higher_better = make_metric(names[0], language).better == "higher"
    return Criterion(measure, names[0], higher_is_better=is_higher_better, part=measure_part)


def _fits(pairs: Iterable[Pair]) -> bool:
    """Say whether the examples of these pairs may be held in memory together."""
    return isinstance(pairs, Sequence) and len(pairs) <= _HELD


def _pairs_of(splits: Splits, epoch: int, training: TrainingConfig, first: int | None) -> Iterable[Pair]:
    """Return the training pairs of an epoch; with ``first``, the first pairs in a new order for each epoch."""
    if first is None:
        return splits.train(epoch, training.items_per_epoch)
    few = list(first_pairs(splits, training, first))
    count = training.items_per_epoch or sum(1 for _ in splits.train(0, None))
    return next_items(few, count, start=epoch * count, seed=training.seed)


def first_pairs(splits: Splits, training: TrainingConfig, first: int | None) -> Iterator[Pair]:
    """Iterate over the first training pairs, from as many epochs as needed; None for all pairs."""
    epochs = range(1) if training.items_per_epoch is None else range(training.epochs)
    if first is not None and first <= (training.items_per_epoch or 0):
        return iter(splits.train(0, first))
    return islice(chain.from_iterable(splits.train(epoch, training.items_per_epoch) for epoch in epochs), first)


def vocabulary_notes(
    tokenizer: Tokenizer, train: Sequence[Pair], validation: Sequence[Pair], origin: str | None, *, allow_unknown: bool
) -> list[str]:
    """Return lines about the vocabulary, and the characters of a training's data that it does not have.

    Args:
        tokenizer: of the training.
        train: pairs; with a new vocabulary, which was made from them, they are not looked through.
        validation: pairs.
        origin: where a new vocabulary comes from; None for that of the model that the training starts from.
        allow_unknown: accept targets with many characters that the model does not know.

    Raises:
        SettingError: see :func:`refuse_unknown`.
    """
    sizes = f"{len(tokenizer):,} tokens"
    if tokenizer.source is not tokenizer.target:
        sizes = f"{len(tokenizer.source):,} source and {len(tokenizer.target):,} target tokens"
    parts = {"validation": validation}
    if origin is None:
        origin = "those of the model that the training starts from"
        parts = {"training": train, "validation": validation}
        if not allow_unknown:
            refuse_unknown([pair.target for pair in train], tokenizer.target)
    notes = [f"vocabulary: {sizes}, {origin}"]
    for part, pairs in parts.items():
        notes += unknown_characters(f"{part} sources", [pair.source for pair in pairs], tokenizer.source)
        notes += unknown_characters(f"{part} targets", [pair.target for pair in pairs], tokenizer.target)
    return notes


def refuse_unknown(texts: Sequence[str], tokenizer: Tokenizer) -> None:
    """Refuse targets of which a model would learn little else than the token for what is unknown.

    Bytes of subwords are not unknown: a model can learn and write them.

    Args:
        texts: targets.
        tokenizer: of the target side.

    Raises:
        SettingError: more than `MOST_UNKNOWN` of the tokens are unknown.
    """
    tokens = unknown = 0
    for text in texts:
        ids = tokenizer.encode(text)
        tokens += len(ids)
        unknown += ids.count(tokenizer.unk_id)
    if unknown > MOST_UNKNOWN * tokens:
        (line,) = unknown_characters("targets", texts, tokenizer)
        advice = "train without `init_from`, or allow it with `allow_unknown`"
        share = f"{100 * unknown / tokens:.1f} % of the target tokens are unknown to it"
        raise SettingError(f"`init_from`: {share}; {line}; {advice}")
