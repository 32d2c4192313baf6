"""Measure the quality of models from the outputs of their runs alone: scores, intervals, tests, parts of the test."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from selfattn.comparison.archive import Outputs
from selfattn.comparison.models import primary_pair
from selfattn.comparison.tested import Answered
from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.exact import WordRecall
from selfattn.evaluation.metrics.fields import score_fields
from selfattn.evaluation.metrics.metric import Metric, make_metric
from selfattn.evaluation.statistics.buckets import ItemGroup, by_length, by_tag, by_training_frequency, score_groups
from selfattn.evaluation.statistics.crossings import budget_differences, locate
from selfattn.evaluation.statistics.significance import MIN_SEEDS, compare_outputs, score_counts
from selfattn.evaluation.statistics.variances import ALPHA, LEVEL
from selfattn.registry import TASKS
from selfattn.results.plan import Budgets
from selfattn.results.quality import Bucket, BucketGroup, Estimate, IntervalMethod
from selfattn.results.record import Difference, Record
from selfattn.runs.task import Task

_DIFFERENCES = 40
_MOST_FIELDS = 12
_RARE = "share of the references' words that the outputs have, by how often training shows the word"
_FIELDS = "a field is right where the answer has it as the target has"
_UNSEEN = "never shown in training"

Models = Mapping[str, Sequence[Answered]]
Texts = Mapping[str, Sequence[Sequence[str]]]  # outputs of the runs of each model


def measure(record: Record, data: Mapping[str, object], outputs: Outputs) -> Record:
    """Return a record with every figure that follows from the outputs; all others stay as they are.

    Args:
        record: of the comparison, with its models, metrics (`units`) and budgets.
        data: settings of the training data, of which the task is made.
        outputs: of all runs; those of the largest budget decide.
    """
    task: Task = TASKS[record.task].from_settings(data, "results.json")
    metrics = {name: make_metric(name, task.language) for name in record.units}
    metric, models = metrics[record.headline.metric], outputs[max(outputs)]
    pairs = next(iter(models.values()))[0].pairs
    references, labels = [pair.target for pair in pairs], [task.repeats(pair) for pair in pairs]
    texts = {name: [run.outputs for run in runs] for name, runs in models.items()}
    primary, alpha = primary_pair(task, list(models)), record.interim.bound if record.interim else ALPHA
    comparison = compare_outputs(texts, references, metric, clusters=labels, primary=primary, alpha=alpha)
    # Beside the metric that decides, others: two scores that agree are worth more than one.
    beside = [make_metric(name, task.language) for name in metric.beside]
    further = [compare_outputs(texts, references, same, clusters=labels) for same in beside]
    scores = {name: [_scores(run, references, metrics) for run in runs] for name, runs in models.items()}

    def estimate(model: str, name: str) -> Estimate:
        if name == metric.name:
            return comparison.estimates[model]
        values = tuple(of_run[name] for of_run in scores[model])
        return Estimate(statistics.mean(values), runs=values)

    over = next(iter(comparison.estimates.values())).over
    repeated = len(labels) - len(set(labels))
    return replace(
        record,
        test_items=len(pairs),
        models=tuple(
            replace(model, metrics={name: estimate(model.name, name) for name in metrics}) for model in record.models
        ),
        interval=IntervalMethod(LEVEL, "closed form" if metric.is_mean else "bootstrap", over, repeated),
        pairs=tuple(pair for same in (comparison, *further) for pair in same.pairs),
        buckets=_buckets(models, metric, task),
        differences=_differences(models, pairs),
        budgets=record.budgets and _with_quality(record.budgets, outputs, metric, references, labels),
    )


def _scores(run: Answered, references: Sequence[str], metrics: Mapping[str, Metric]) -> Mapping[str, float]:
    return {
        name: run.scores[name] if name in run.scores else metric.of(run.outputs, references)
        for name, metric in metrics.items()
    }


def _with_quality(
    budgets: Budgets, outputs: Outputs, metric: Metric, references: Sequence[str], labels: Sequence[Hashable]
) -> Budgets:
    """Estimate every budget's trainings, and the difference of the primary pair over budgets."""
    counts = {
        cell.budget: metric.count_runs(
            {name: [run.outputs for run in runs] for name, runs in outputs[cell.budget].items()}, references
        )
        for cell in budgets.cells
    }
    differences = budget_differences(counts, metric, budgets.pair, clusters=labels) if budgets.pair else ()
    by_budget = {difference.budget: difference for difference in differences}
    cells = []
    for cell in budgets.cells:
        estimates = score_counts(counts[cell.budget], metric, clusters=labels).estimates()
        counted = {name: sum(run.failed for run in runs) for name, runs in outputs[cell.budget].items()}
        failed = {name: count for name, count in counted.items() if count}
        cells.append(replace(cell, models=estimates, difference=by_budget.get(cell.budget), failed=failed))
    seeds = min(len(runs) for models in outputs.values() for runs in models.values())
    crossing = locate(differences) if differences and seeds >= MIN_SEEDS else None
    return replace(budgets, cells=tuple(cells), crossing=crossing)


def _differences(models: Mapping[str, Sequence[Answered]], pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Choose test pairs on which models disagree: some of every pattern of right and wrong, rare patterns first."""
    outputs = {name: next(run for run in runs if not run.failed).outputs for name, runs in models.items()}
    patterns: dict[tuple[bool, ...], list[int]] = {}
    for place, pair in enumerate(pairs):
        texts = [same[place] for same in outputs.values()]
        if len(set(texts)) > 1:
            patterns.setdefault(tuple(text == pair.target for text in texts), []).append(place)
    chosen: list[int] = []
    rare_first = sorted(patterns.values(), key=lambda places: (len(places), places))
    for number, places in enumerate(rare_first[:_DIFFERENCES]):
        chosen += places[: max(1, (_DIFFERENCES - len(chosen)) // (len(rare_first) - number))]
    return tuple(
        Difference(
            pairs[place].source,
            pairs[place].target,
            pairs[place].tag,
            {name: same[place] for name, same in outputs.items()},
        )
        for place in chosen[:_DIFFERENCES]
    )


def _buckets(models: Models, metric: Metric, task: Task) -> tuple[BucketGroup, ...]:
    """Divide the test by tag, length, field, rare words and probe, and measure every model on every part."""
    first = next(iter(models.values()))[0]
    pairs, words = first.pairs, first.words
    outputs = {name: [run.outputs for run in runs] for name, runs in models.items()}
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    unit, cut = ("characters", list) if metric.is_mean else ("words", str.split)
    labels = [task.repeats(pair) for pair in pairs]
    lengths = score_groups(by_length(sources, words=cut), outputs, references, metric, clusters=labels)
    tags = score_groups(by_tag(pairs), outputs, references, metric, clusters=labels)
    group = partial(BucketGroup, metric=metric.name, kind=metric.unit, better=metric.better)
    groups = [
        group(task.tag_name, tags),
        group("length", lengths, note=f"{unit} of the source"),
        BucketGroup("field", _fields(outputs, pairs, labels), note=_FIELDS),
        BucketGroup("rare words", tuple(_rare_words(outputs, references, words, labels)), WordRecall.name, note=_RARE),
        *(group(name, _probe(models, name, metric, task), note=_UNSEEN) for name in first.probes),
    ]
    return tuple(part for part in groups if part.buckets)


def _fields(outputs: Texts, pairs: Sequence[Pair], labels: Sequence[Hashable]) -> tuple[Bucket, ...]:
    """The fields with most items."""
    if not any(pair.spans for pair in pairs):
        return ()
    fields = score_fields(outputs, pairs, labels)
    often = sorted(fields, key=lambda part: -part.items)[:_MOST_FIELDS]
    return tuple(part for part in fields if part in often)


def _rare_words(
    outputs: Texts, references: Sequence[str], words: Mapping[str, int], labels: Sequence[Hashable]
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
