"""What the types of a record cannot say: figures that agree with each other, maps of the right shape, known names."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from selfattn.codec import FieldError
from selfattn.figures.alignment import ModelAlignment
from selfattn.figures.attention import AttentionExample, AttentionMap, ModelAttention
from selfattn.figures.buckets import BucketGroup
from selfattn.figures.pairs import PairTest
from selfattn.figures.quality import Estimate, Unit
from selfattn.figures.record import Model, Record


def check(record: Record) -> None:
    """Hold a record's figures against each other.

    Raises:
        FieldError: a name is used twice or belongs to nobody; an interval does not hold its mean; a quality lies
            outside 0 to 1 (points: to 100); a run belongs to no seed; a curve runs backwards; a map has another shape
            than its tokens; a gold span lies outside its text; the date cannot be read.
    """
    try:
        datetime.fromisoformat(record.created)
    except ValueError:
        raise FieldError("created", f"expected an ISO 8601 date and time, found {record.created!r}") from None
    names = [model.name for model in record.models]
    for k, model in enumerate(record.models):
        if model.name in names[:k]:
            raise FieldError(f"models[{k}].name", f"{model.name!r} stands twice")
        _check_model(model, record, f"models[{k}]")
    for k, test in enumerate(record.pairs):
        _check_pair(test, set(names), f"pairs[{k}]")
    for k, gate in enumerate(record.gates):
        if gate.model and gate.model not in names:
            raise FieldError(f"gates[{k}].model", f"{gate.model!r} is not the name of a model of this record")
    _check_names(record.matching.counts, set(names), "matching.counts")
    for k, group in enumerate(record.buckets):
        _check_buckets(group, set(names), f"buckets[{k}]")
    without = {model.name for model in record.models if not model.attention}
    for k, example in enumerate(record.attention.examples):
        _check_example(example, set(names), without, f"attention.examples[{k}]")
    for k, difference in enumerate(record.differences):
        _check_names(difference.predictions, set(names), f"differences[{k}].predictions")


def _check_model(model: Model, record: Record, where: str) -> None:
    for name, metric in model.metrics.items():
        kind = record.headline.kind if name == record.headline.metric else None
        _check_estimate(metric, f"{where}.metrics.{name}", kind)
        if metric.runs and len(metric.runs) != len(model.seeds):
            problem = f"expected one value a seed ({len(model.seeds)}), found {len(metric.runs)}"
            raise FieldError(f"{where}.metrics.{name}.runs", problem)
    for k, curve in enumerate(model.curves):
        if curve.seed not in model.seeds:
            raise FieldError(f"{where}.curves[{k}].seed", f"{curve.seed} is not among the model's seeds")
        steps = [point.step for point in curve.points]
        if steps != sorted(steps):
            raise FieldError(f"{where}.curves[{k}].points", "steps run backwards")
        for j, point in enumerate(curve.points):
            _check_range(point.valid, record.headline.kind, f"{where}.curves[{k}].points[{j}].valid")
    if sum(trial.chosen for trial in model.tuning) > 1:
        raise FieldError(f"{where}.tuning", "more than one trial is chosen")
    if model.alignment:
        _check_alignment(model.alignment, f"{where}.alignment")


def _check_alignment(found: ModelAlignment, where: str) -> None:
    heads = {(one.layer, one.head) for one in found.heads}
    if found.best is not None and found.best not in heads:
        raise FieldError(f"{where}.best", f"{list(found.best)} is not among the heads")


def _check_pair(test: PairTest, names: set[str], where: str) -> None:
    for side in ("first", "second"):
        if getattr(test, side) not in names:
            raise FieldError(f"{where}.{side}", f"{getattr(test, side)!r} is not the name of a model of this record")
    if test.low > test.high:
        raise FieldError(f"{where}.low", f"{test.low} lies above {test.high}")


def _check_buckets(group: BucketGroup, names: set[str], where: str) -> None:
    for k, bucket in enumerate(group.buckets):
        _check_names(bucket.models, names, f"{where}.buckets[{k}].models")
        for name, estimate in bucket.models.items():
            _check_estimate(estimate, f"{where}.buckets[{k}].models.{name}", group.kind)


def _check_estimate(estimate: Estimate, where: str, kind: Unit | None) -> None:
    if (estimate.low is None) != (estimate.high is None):
        raise FieldError(
            f"{where}.{'low' if estimate.low is None else 'high'}", "expected both ends of the interval, or none"
        )
    if estimate.low is not None and estimate.high is not None:
        slack = 1e-9 * max(1.0, abs(estimate.mean))
        if not estimate.low - slack <= estimate.mean <= estimate.high + slack:
            raise FieldError(f"{where}.mean", f"{estimate.mean} lies outside [{estimate.low}, {estimate.high}]")
    for value in (estimate.mean, *estimate.runs):  # the ends of an interval may lie outside of what can be
        _check_range(value, kind, where)


def _check_range(value: float | None, kind: Unit | None, where: str) -> None:
    top = {"share": 1, "points": 100, None: None}[kind]
    if value is not None and top is not None and not 0 <= value <= top:
        raise FieldError(where, f"{value} lies outside 0 to {top}")


def _check_example(example: AttentionExample, names: set[str], without: set[str], where: str) -> None:
    _check_names(example.models, names, f"{where}.models")
    for k, gold in enumerate(example.gold):
        for side, (start, end), text in (
            ("source", gold.source, example.source),
            ("target", gold.target, example.target),
        ):
            if not 0 <= start <= end <= len(text):
                raise FieldError(f"{where}.gold[{k}].{side}", f"[{start}, {end}] lies outside the text")
    for name, shown in example.models.items():
        place = f"{where}.models.{name}"
        if name in without and shown.maps:
            raise FieldError(f"{place}.maps", "the model is said to have no attention")
        for k, one in enumerate(shown.maps):
            _check_map(one, shown, f"{place}.maps[{k}].weights")


def _check_map(one: AttentionMap, shown: ModelAttention, where: str) -> None:
    source, target = len(shown.source_tokens), len(shown.target_tokens)
    rows, columns = {"cross": (target, source), "encoder": (source, source), "decoder": (target, target)}[one.kind]
    if len(one.weights) != rows or any(len(row) != columns for row in one.weights):
        raise FieldError(where, f"expected {rows} rows of {columns} weights")


def _check_names(found: Mapping[str, object], names: set[str], where: str) -> None:
    for name in found:
        if name not in names:
            raise FieldError(f"{where}.{name}", "is not the name of a model of this record")
