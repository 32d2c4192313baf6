"""Measure the quality of outputs: scores, tests of pairs, parts of the test, further tests, differences, budgets."""

import math
import statistics
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from selfattn.comparison.tested import RunOutputs, RunTable, by_model
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.buckets import ItemScores, by_length, by_tag, score_fields, score_rare_words
from selfattn.evaluation.design import budget_differences, locate
from selfattn.evaluation.metrics import Metric, WordRecall, make_metric
from selfattn.evaluation.significance import Tunings
from selfattn.evaluation.variances import LEVEL
from selfattn.results import quality
from selfattn.results.plan import Budgets
from selfattn.results.record import Difference, Record
from selfattn.runs.task import TaskData

_ADVICE = "take the report from where it was published, or compare again"
_DIFFERENCES = 40
_MOST_FIELDS = 12
_LEARNED = 0.1  # of the highest score
_SHIFTS = 19  # ways to give each output to another item
_RARE = "share of the references' words that the outputs have, by how often training shows the word"
_FIELDS = "a field is right where the answer has it as the target has"
_UNSEEN = "never shown in training"
TOGETHER = "all intervals of this table hold together (Bonferroni)"
FURTHER = "a further test set, beside the one that decides; all intervals of this table hold together (Bonferroni)"
ALL = "all items"
Runs = Mapping[str, Sequence[RunOutputs]]
"""The runs of each model."""


@dataclass(frozen=True)
class Analysis:
    """How outputs are scored.

    Attributes:
        metric: that decides.
        task: has the language of the targets, and says which test items depend on one another.
        tunings: see `significance.by_tuning`; None where runs are the units.
        failed: for each model, which of its trainings failed.
    """

    metric: Metric
    task: TaskData
    tunings: Tunings | None
    failed: Mapping[str, Sequence[bool]]

    def metrics_beside(self) -> list[Metric]:
        """Return the metrics beside the one that decides: two scores that agree are worth more than one."""
        return [make_metric(name, self.task.language) for name in self.metric.beside]

    def scores(self, runs: Runs, metric: Metric | None = None) -> ItemScores:
        """Score every run on its test items, by the metric that decides or another one."""
        metric = metric or self.metric
        pairs = _pairs(runs)
        labels = [self.task.repeats(pair) for pair in pairs]
        return ItemScores(
            metric, metric.count_runs(_texts(runs), pairs), labels, by_tag(pairs), self.tunings, self.failed
        )

    def further(self, name: str, runs: Runs) -> list[quality.BucketGroup]:
        """Score a further test set: all of it with tests of pairs of models, and its tags; a table for each metric.

        Args:
            name: of the set.
            runs: of each model, with answers to the set.
        """
        tables = []
        for metric in (self.metric, *self.metrics_beside()):
            scores = self.scores(runs, metric)
            compared = scores.runs().comparison()
            complete = quality.Bucket(ALL, scores.items, compared.estimates, compared.pairs)
            tables.append(scores.table(name, (complete, *scores.by_tag()), FURTHER))
        return tables


def measure_scores(record: Record, tables: Iterable[ItemScores], tag_name: str) -> Record:
    """Return a record with every figure that follows from scores, whoever gave them; all others stay as they are.

    Args:
        record: of the comparison, with its models.
        tables: scores in each metric, of the same runs on the same items; the first decides.
        tag_name: what the tags of the items are.
    """
    first: ItemScores | None = None
    metrics: list[Metric] = []
    estimates: dict[str, dict[str, quality.Estimate]] = {}
    tests: list[quality.PairTest] = []
    for table in tables:
        compared = table.runs().comparison(_primary(record) if first is None else None)
        tests += compared.pairs
        for name, estimate in compared.estimates.items():
            of_metric = estimate if first is None else quality.Estimate(estimate.mean, runs=estimate.runs)
            estimates.setdefault(name, {})[table.metric.name] = of_metric
        metrics.append(table.metric)
        first = first or table
    assert first is not None
    metric = first.metric
    parts = first.table(tag_name, first.by_tag(), TOGETHER)
    over = estimates[record.models[0].name][metric.name].over
    repeated = 0 if first.clusters is None else len(first.clusters) - len(set(first.clusters))
    return replace(
        record,
        test_items=first.items,
        models=tuple(replace(model, metrics=estimates[model.name]) for model in record.models),
        headline=metric.headline,
        **_described(metrics),
        interval=quality.IntervalMethod(LEVEL, "closed form" if metric.is_mean else "bootstrap", over, repeated),
        pairs=tuple(tests),
        buckets=(parts,) if parts.buckets else (),
    )


def measure(
    record: Record,
    task: TaskData,
    outputs: RunTable[RunOutputs],
    metrics: Sequence[Metric],
    further: Container[str] = (),
) -> Record:
    """Return a record with every figure that follows from the outputs; all others stay as they are.

    Args:
        record: of the comparison, with its models and budgets.
        task: says which test items depend on one another, and what their tags are.
        outputs: of all runs; those of the largest budget decide.
        metrics: to score them by; the first decides.
        further: names of probes that are further test sets.
    """
    metric, *other_metrics = metrics
    models = outputs.main
    pairs = outputs.first.pairs
    failed = by_model(models, lambda run: _failed(run, metric, task))
    analysis = Analysis(metric, task, _tunings(record), failed)
    decides = analysis.scores(models)
    beside = analysis.metrics_beside() if record.target is None else ()
    tables = chain([decides], (analysis.scores(models, further_metric) for further_metric in beside))
    record = measure_scores(record, tables, task.tag_name)
    tests = record.pairs if record.target is None else ()  # runs that end at one score have no better one
    tests = tuple(replace(test, identical=_are_identical(models[test.first], models[test.second])) for test in tests)
    measured = []
    for model in record.models:
        runs = models[model.name]
        estimates = {metric.name: model.metrics[metric.name]}
        for other in other_metrics:
            name = other.name
            values = tuple(run.scores[name] if name in run.scores else other.of(run.texts, pairs) for run in runs)
            estimates[name] = quality.Estimate(statistics.mean(values), runs=values)
        answers = chain.from_iterable(run.answers for run in runs if not run.failed)
        cut_off = sum(not answer.finished for answer in answers) if task.takes_pairs else None
        of_failed = tuple(run.seed for run, is_failed in zip(runs, failed[model.name], strict=True) if is_failed)
        measured.append(replace(model, metrics=estimates, cut_off=cut_off, failed=of_failed))
    return replace(
        record,
        models=tuple(measured),
        **_described(metrics),
        pairs=tests,
        buckets=(*record.buckets, *_buckets(models, analysis, decides, further)),
        differences=_differences(models, pairs) if task.takes_pairs else (),
        budgets=record.budgets and _with_quality(record.budgets, outputs, analysis),
    )


def _described(metrics: Sequence[Metric]) -> dict[str, Any]:
    """Return the units of metrics, and how those after the first, which decides, are computed: fields of a record."""
    units = {metric.name: metric.unit for metric in metrics}
    return {"units": units, "signatures": {metric.name: metric.signature for metric in metrics[1:] if metric.signature}}


def _pairs(runs: Runs) -> list[Pair]:
    """Return the test items, which are the same for all runs."""
    return next(iter(runs.values()))[0].pairs


def _texts(runs: Runs) -> dict[str, list[list[str]]]:
    """Return the outputs of the runs of each model."""
    return by_model(runs, lambda run: run.texts)


def _tunings(record: Record) -> Tunings | None:
    """Return the number of the tuning of each run, by model; None where models were not tuned several times.

    Raises:
        UserError: some tunings of a model have more runs than others.
    """
    if not any(model.tunings for model in record.models):
        return None
    for model in record.models:
        counts = Counter(model.tunings)
        if len(model.tunings) != len(model.seeds) or len(counts) < 2 or len(set(counts.values())) > 1:
            numbers = f"seeds {list(model.seeds)} have the settings of tunings {list(model.tunings)}"
            raise UserError(f"{model.name}: {numbers}, not as many runs of each of at least two; {_ADVICE}")
    return {model.name: model.tunings for model in record.models}


def _are_identical(first: Sequence[RunOutputs], second: Sequence[RunOutputs]) -> bool:
    """Whether the runs of two models wrote the same, in whatever order of seeds."""
    return sorted(run.texts for run in first) == sorted(run.texts for run in second)


def _failed(run: RunOutputs, metric: Metric, task: TaskData) -> bool:
    """Whether a training failed: it diverged, or its outputs fit their own items no better than any others.

    Only low scores are looked at: from a tenth of the highest on, a model has learned. Then every output is given to
    another item, in `_SHIFTS` ways. Who has learned anything is better than all of them; an output that does not depend
    on its source is so with a probability of 5 %. How low a score is says nothing by itself: a training may be slow.
    """
    if run.failed or not task.takes_pairs:
        return run.failed
    pairs = run.pairs
    outputs = run.texts
    sign = 1 if metric.better == "higher" else -1
    score = metric.of(outputs, pairs)
    top = {"share": 1.0, "points": 100.0}.get(metric.unit, math.inf)
    if math.isfinite(top) and (score if sign == 1 else top - score) >= _LEARNED * top:
        return False
    step = max(1, len(pairs) // (_SHIFTS + 1))
    shifted = (outputs[shift:] + outputs[:shift] for shift in range(step, len(pairs), step))
    return sign * score <= max((sign * metric.of(texts, pairs) for texts in shifted), default=-math.inf)


def _with_quality(budgets: Budgets, outputs: RunTable[RunOutputs], analysis: Analysis) -> Budgets:
    """Estimate every budget's trainings, and the difference of the primary pair over budgets."""
    metric = analysis.metric
    scores = {cell.budget: analysis.scores(outputs.at(cell.budget)) for cell in budgets.cells}
    differences: Sequence[quality.BudgetDifference] = ()
    if budgets.pair:
        counts = {budget: table.counts for budget, table in scores.items()}
        clusters = scores[budgets.cells[0].budget].clusters
        differences = budget_differences(counts, metric, budgets.pair, clusters=clusters, tunings=analysis.tunings)
    by_budget = {difference.budget: difference for difference in differences}
    cells = []
    for cell in budgets.cells:
        counted = by_model(outputs.at(cell.budget), lambda run: _failed(run, metric, analysis.task))
        failed = {name: sum(flags) for name, flags in counted.items() if any(flags)}
        estimates = scores[cell.budget].runs().estimates()
        cells.append(replace(cell, models=estimates, difference=by_budget.get(cell.budget), failed=failed))
    seeds = min(len(outputs.at(budget)[model]) for budget, model, _ in outputs.rows())
    crossing = locate(differences) if differences and seeds >= quality.MIN_SEEDS else None
    return replace(budgets, cells=tuple(cells), crossing=crossing)


def _differences(models: Runs, pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Choose test pairs on which models disagree: some of every pattern of right and wrong, rare patterns first."""
    outputs = {name: next(run for run in runs if not run.failed).texts for name, runs in models.items()}
    patterns: dict[tuple[bool, ...], list[int]] = {}
    for place, pair in enumerate(pairs):
        texts = [written[place] for written in outputs.values()]
        if len(set(texts)) > 1:
            patterns.setdefault(tuple(text == pair.target for text in texts), []).append(place)
    chosen: list[int] = []
    rare_first = sorted(patterns.values(), key=lambda places: (len(places), places))
    for number, places in enumerate(rare_first[:_DIFFERENCES]):
        chosen += places[: max(1, (_DIFFERENCES - len(chosen)) // (len(rare_first) - number))]
    differences: list[Difference] = []
    for place in chosen[:_DIFFERENCES]:
        pair = pairs[place]
        predictions = {name: written[place] for name, written in outputs.items()}
        differences.append(Difference(pair.source, pair.target, pair.tag, predictions))
    return tuple(differences)


def _buckets(
    models: Runs, analysis: Analysis, scores: ItemScores, further: Container[str]
) -> tuple[quality.BucketGroup, ...]:
    """Divide the test by length, field, rare words and probe, and measure every model on every part."""
    first = next(iter(models.values()))[0]
    pairs = first.pairs
    outputs = _texts(models)
    dependent = scores.clusters, scores.tunings
    fields = score_fields(outputs, pairs, *dependent) if any(pair.spans for pair in pairs) else []
    often = sorted(fields, key=lambda part: -part.items)[:_MOST_FIELDS]
    rare: tuple[quality.Bucket, ...] = ()
    if first.words and analysis.task.has_words:
        rare = score_rare_words(outputs, [pair.target for pair in pairs], first.words, *dependent)
    side = "source" if any(pair.source for pair in pairs) else "target"
    unit, cut = ("characters", list) if analysis.metric.is_mean else ("words", str.split)
    lengths = by_length([getattr(pair, side) for pair in pairs], words=cut)
    by_length_name = "length" if side == "source" else "reference length"
    groups = [
        scores.table(by_length_name, scores.parts(lengths), f"{unit} of the {side}"),
        quality.BucketGroup("field", tuple(part for part in fields if part in often), note=_FIELDS),
        quality.BucketGroup("rare words", rare, WordRecall.name, note=_RARE),
    ]
    for name in first.probes:
        probed = {model: [replace(run, answers=run.probes[name]) for run in runs] for model, runs in models.items()}
        if name in further:
            groups += analysis.further(name, probed)
        else:
            of_probe = analysis.scores(probed)
            groups.append(of_probe.table(name, of_probe.parts({name: range(of_probe.items)}), _UNSEEN))
    return tuple(part for part in groups if part.buckets)


def _primary(record: Record) -> tuple[str, str] | None:
    """Return the two models that a comparison is about: of its sealed plan, or else of its question; None of all."""
    if record.seal is None:
        return record.subject.pair_among([model.name for model in record.models])
    pair = record.seal.decides.get("primary")
    return (str(pair[0]), str(pair[1])) if isinstance(pair, list | tuple) else None
