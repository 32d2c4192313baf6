"""Parts of the test: by kind, length, field and rare words; pairs outside the training data."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from selfattn.comparison.testing import Answered
from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.exact import WordRecall
from selfattn.evaluation.metrics.fields import score_fields
from selfattn.evaluation.metrics.metric import Metric
from selfattn.evaluation.statistics.buckets import ItemGroup, by_length, by_tag, by_training_frequency, score_groups
from selfattn.results.quality import Bucket, BucketGroup
from selfattn.runs.task import Task

_MOST_FIELDS = 12
_RARE = "share of the references' words that the outputs have, by how often training shows the word"
_FIELDS = "a field is right where the answer has it as the target has"
_UNSEEN = "never shown in training"

Models = Mapping[str, Sequence[Answered]]
Outputs = Mapping[str, Sequence[Sequence[str]]]
Labels = Sequence[Hashable]  # which items repeat one another


def make_buckets(models: Models, metric: Metric, task: Task) -> tuple[BucketGroup, ...]:
    """Divide the test and measure every model on every part.

    Args:
        models: for each model its runs.
        metric: of the verdict.
        task: names the tags, and says which pairs repeat one another.
    """
    first = next(iter(models.values()))[0]
    pairs, words = first.pairs, first.words
    outputs = {name: [run.outputs for run in runs] for name, runs in models.items()}
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    unit, cut = ("characters", list) if metric.is_mean else ("words", str.split)
    labels = [task.repeats(pair) for pair in pairs]
    lengths = score_groups(by_length(sources, words=cut), outputs, references, metric, clusters=labels)
    tags = score_groups(by_tag(pairs), outputs, references, metric, clusters=labels)
    groups = [
        _group(task.tag_name, metric, tags),
        _group("length", metric, lengths, f"{unit} of the source"),
        BucketGroup("field", _fields(outputs, pairs, labels), note=_FIELDS),
        BucketGroup("rare words", tuple(_rare_words(outputs, references, words, labels)), WordRecall.name, note=_RARE),
        *(_group(name, metric, _probe(models, name, metric, task), "never shown in training") for name in first.probes),
    ]
    return tuple(group for group in groups if group.buckets)


def _group(name: str, metric: Metric, buckets: tuple[Bucket, ...], note: str = "") -> BucketGroup:
    return BucketGroup(name, buckets, metric.name, metric.unit, note, metric.better)


def _fields(outputs: Outputs, pairs: Sequence[Pair], labels: Labels) -> tuple[Bucket, ...]:
    """The fields with most items."""
    if not any(pair.spans for pair in pairs):
        return ()
    fields = score_fields(outputs, pairs, labels)
    often = sorted(fields, key=lambda part: -part.items)[:_MOST_FIELDS]
    return tuple(part for part in fields if part in often)


def _rare_words(
    outputs: Outputs, references: Sequence[str], words: Mapping[str, int], labels: Labels
) -> Iterator[Bucket]:
    """Only where words were counted."""
    for group, recall in by_training_frequency(references, words) if words else ():
        yield from score_groups([group], outputs, references, recall, resamples=2000, clusters=labels)


def _probe(models: Models, name: str, metric: Metric, task: Task) -> tuple[Bucket, ...]:
    """One bucket: all pairs of a probe."""
    answers = {model: [run.probes[name] for run in runs] for model, runs in models.items()}
    pairs = [answer.pair for answer in next(iter(answers.values()))[0]]
    references, labels = [pair.target for pair in pairs], [task.repeats(pair) for pair in pairs]
    outputs = {model: [[answer.output for answer in run] for run in runs] for model, runs in answers.items()}
    every = ItemGroup(name, tuple(range(len(references))))
    return score_groups([every], outputs, references, metric, clusters=labels)
