"""Parts of the test: by format, length, field and rare words; what training never showed; training on few pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.corpus import bleu_metric
from selfattn.evaluation.metrics.fields import score_fields
from selfattn.evaluation.metrics.rare_words import score_rare_words
from selfattn.evaluation.statistics.buckets import (
    BucketEstimates,
    by_length,
    by_tag,
    score_buckets,
    score_buckets_corpus,
)
from selfattn.evaluation.statistics.comparison import Estimate as Estimated
from selfattn.evaluation.statistics.significance import estimate
from selfattn.figures.buckets import Bucket, BucketGroup
from selfattn.figures.quality import Estimate, Headline
from selfattn.runs.task import compare_on, right_answers
from selfattn.runs.testing import Tested

_MOST_FIELDS = 12
_RARE = "share of the references' words that the outputs have, by how often training shows the word"
_FIELDS = "a field is right where the answer has it as the target has"
_FEW = "trained on so many pairs only, again and again, with the first seed"

Models = Mapping[str, Sequence[Tested]]


def make_buckets(
    models: Models, few: Mapping[int, Mapping[str, Tested]], headline: Headline, language: str = ""
) -> tuple[BucketGroup, ...]:
    """Divide the test and measure every model on every part.

    Args:
        models: for each model its runs.
        headline: what the comparison is about; on parts by length a corpus is measured by BLEU.
        language: of the targets.
        few: runs that were trained on so few pairs only, by their number and the model's name.
    """
    first = next(iter(models.values()))[0]
    pairs = first.pairs
    outputs = {name: [run.outputs for run in runs] for name, runs in models.items()}
    right = right_answers(outputs, pairs)
    sources = [pair.source for pair in pairs]
    groups = [
        _group("format" if first.config.task == "dates" else "kind", score_buckets(by_tag(pairs), right)),
        _by_bleu(outputs, pairs, language)
        if headline.metric == "bleu"
        else _group("length", score_buckets(by_length(sources), right), "characters of the source"),
        _group("field", _fields(outputs, pairs), _FIELDS),
        _group("rare words", _rare_words(outputs, pairs, first), _RARE, "word recall"),
        *(_group(name, _probe(models, name), "never shown in training") for name in first.figures["probes"]),
        _few(few, headline, language),
    ]
    return tuple(group for group in groups if group.buckets)


def _group(name: str, parts: Iterable[BucketEstimates], note: str = "", metric: str = "exact_match") -> BucketGroup:
    buckets = tuple(
        Bucket(part.name, part.items, {model: _plain(found) for model, found in part.estimates.items()})
        for part in parts
    )
    return BucketGroup(name, buckets, metric, note=note)


def _by_bleu(outputs: Mapping[str, Sequence[Sequence[str]]], pairs: Sequence[Pair], language: str) -> BucketGroup:
    metric, targets = bleu_metric(language), [pair.target for pair in pairs]
    counts = {name: np.stack([metric.statistics(run, targets) for run in runs]) for name, runs in outputs.items()}
    lengths = by_length([pair.source for pair in pairs], words=str.split)
    parts = score_buckets_corpus(lengths, counts, metric.from_sums)
    return replace(_group("length", parts, "words of the source", metric.name), kind="points")


def _fields(outputs: Mapping[str, Sequence[Sequence[str]]], pairs: Sequence[Pair]) -> list[BucketEstimates]:
    """The fields with most items, where answers have any."""
    if not any(pair.spans for pair in pairs):
        return []
    found = score_fields(outputs, pairs)
    often = sorted(found, key=lambda part: -part.items)[:_MOST_FIELDS]
    return [part for part in found if part in often]


def _rare_words(
    outputs: Mapping[str, Sequence[Sequence[str]]], pairs: Sequence[Pair], first: Tested
) -> list[BucketEstimates]:
    """Only where words were counted."""
    words = first.figures.get("words")
    return score_rare_words(outputs, [pair.target for pair in pairs], words) if words else []


def _probe(models: Models, name: str) -> Iterator[BucketEstimates]:
    """One bucket: all pairs of a probe."""
    rights = {model: np.array([run.figures["probes"][name]["right"] for run in runs]) for model, runs in models.items()}
    items = len(next(iter(rights.values()))[0])
    yield BucketEstimates(name, items, {model: estimate(right) for model, right in rights.items()})


def _few(few: Mapping[int, Mapping[str, Tested]], headline: Headline, language: str) -> BucketGroup:
    """One bucket for each number of pairs, by the metric that the comparison is about."""
    buckets = []
    for count, runs in sorted(few.items()):
        pairs = next(iter(runs.values())).pairs
        found = compare_on(headline, {name: [run.outputs] for name, run in runs.items()}, pairs, language)
        shares = {name: _plain(own) for name, own in found.estimates.items()}
        buckets.append(Bucket(f"{count:,} pairs", len(pairs), shares))
    return BucketGroup("few examples", tuple(buckets), headline.metric, headline.kind, note=_FEW)


def _plain(found: Estimated) -> Estimate:
    return Estimate(found.mean, found.low, found.high, found.runs)
