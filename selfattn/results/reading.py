"""Read the record of a comparison; an error is one line that names the file and the field.

Types and bounds are those of the record. This file checks what they cannot express: figures that agree with each other,
maps of the right shape, known names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from selfattn import codec
from selfattn.codec import FieldError
from selfattn.errors import UserError
from selfattn.results.attention import AttentionExample
from selfattn.results.quality import BucketGroup, Estimate, Headline
from selfattn.results.record import SCHEMA, Model, Record

_ADVICE = "the fields are listed in docs/results-json.md"


def read_record(path: str | Path) -> Record:
    """Read a `results.json`.

    Args:
        path: the file.

    Returns:
        The checked record.

    Raises:
        UserError: the file is missing, is not JSON, or a field is missing, unknown, of another type or contradictory:
            a name is used twice or belongs to nobody; an interval does not hold its mean; a quality lies outside 0 to 1
            (points: to 100); a run belongs to no seed; a curve runs backwards; a map has another shape than its tokens;
            a gold span lies outside its text; the date cannot be read.
    """
    data = codec.read_json(Path(path), advice="give the results.json of a comparison")
    return record_from_dict(data, str(path))


def record_from_dict(data: object, file: str = "results.json") -> Record:
    """Check a JSON object against the schema; `selfattn.codec.encode` is the inverse.

    Args:
        data: what `json.load` gives.
        file: the name to use in messages.

    Returns:
        The record.

    Raises:
        UserError: naming the file and the field.

    Example:
        >>> record_from_dict({"schema": 2})
        Traceback (most recent call last):
        ...
        selfattn.errors.UserError: results.json: task: is missing; the fields are listed in docs/results-json.md
    """
    codec.refuse_newer(data, SCHEMA, file=file)
    try:
        if isinstance(data, dict) and data.get("schema", SCHEMA) != SCHEMA:
            problem = f"found {data['schema']!r}, and this version reads {SCHEMA} only"
            raise FieldError("schema", f"{problem}; make it again: `selfattn report RUN... --out DIR`")
        record = codec.checked(Record, data)
        for where, problem in _contradictions(record):
            raise FieldError(where, problem)
    except FieldError as error:
        raise UserError(f"{file}: {error.where or 'record'}: {error.problem}; {_ADVICE}") from None
    return record


Problems = Iterator[tuple[str, str]]  # where, and what is wrong there


def _contradictions(record: Record) -> Problems:
    """What is wrong with a record whose fields each have their type."""
    try:
        datetime.fromisoformat(record.created)
    except ValueError:
        yield "created", f"expected an ISO 8601 date and time, found {record.created!r}"
    names = [model.name for model in record.models]
    for k, model in enumerate(record.models):
        if model.name in names[:k]:
            yield f"models[{k}].name", f"{model.name!r} stands twice"
        yield from _of_model(model, record.headline, f"models[{k}]")
    for where, name in _names(record):
        if name not in names:
            yield where, f"{name!r} is not the name of a model of this record"
    for k, test in enumerate(record.pairs):
        if test.low > test.high:
            yield f"pairs[{k}].low", f"{test.low} lies above {test.high}"
    for k, group in enumerate(record.buckets):
        for j, bucket in enumerate(group.buckets):
            for name, estimate in bucket.models.items():
                yield from _of_estimate(estimate, group, f"buckets[{k}].buckets[{j}].models.{name}")
    without = {model.name for model in record.models if not model.attention}
    for k, example in enumerate(record.attention.examples):
        yield from _of_example(example, without, f"attention.examples[{k}]")


def _names(record: Record) -> Iterator[tuple[str, str]]:
    """Where models are named, outside their list, and how."""
    for k, test in enumerate(record.pairs):
        yield from ((f"pairs[{k}].first", test.first), (f"pairs[{k}].second", test.second))
    yield from ((f"gates[{k}].model", gate.model) for k, gate in enumerate(record.gates) if gate.model)
    keyed: list[tuple[str, Mapping[str, object]]] = [("matching.counts", record.matching.counts)]
    for k, group in enumerate(record.buckets):
        keyed += [(f"buckets[{k}].buckets[{j}].models", bucket.models) for j, bucket in enumerate(group.buckets)]
    keyed += [(f"attention.examples[{k}].models", shown.models) for k, shown in enumerate(record.attention.examples)]
    keyed += [(f"differences[{k}].predictions", item.predictions) for k, item in enumerate(record.differences)]
    yield from ((f"{where}.{name}", name) for where, values in keyed for name in values)


def _of_model(model: Model, headline: Headline, where: str) -> Problems:
    for name, metric in model.metrics.items():
        yield from _of_estimate(metric, headline if name == headline.metric else None, f"{where}.metrics.{name}")
        if metric.runs and len(metric.runs) != len(model.seeds):
            problem = f"expected one value a seed ({len(model.seeds)}), found {len(metric.runs)}"
            yield f"{where}.metrics.{name}.runs", problem
    for k, curve in enumerate(model.curves):
        if curve.seed not in model.seeds:
            yield f"{where}.curves[{k}].seed", f"{curve.seed} is not among the model's seeds"
        if any(before.step > after.step for before, after in pairwise(curve.points)):
            yield f"{where}.curves[{k}].points", "steps run backwards"
        for j, point in enumerate(curve.points):
            yield from _of_range(point.valid, headline, f"{where}.curves[{k}].points[{j}].valid")
    chosen = {(trial.budget, repr(sorted(trial.settings.items()))) for trial in model.trials if trial.chosen}
    if len(chosen) > len({budget for budget, _ in chosen}):
        yield f"{where}.trials", "trials with different settings are chosen"
    heads = {(head.layer, head.head) for head in model.alignment.heads} if model.alignment else set()
    for name in ("best", "best_shifted"):
        best = getattr(model.alignment, name, None)
        if best and best not in heads:
            yield f"{where}.alignment.{name}", f"{list(best)} is not among the heads"


def _of_estimate(estimate: Estimate, of: Headline | BucketGroup | None, where: str) -> Problems:
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        if low is not high:
            yield f"{where}.{'low' if low is None else 'high'}", "expected both ends of the interval, or none"
    else:
        slack = 1e-9 * max(1.0, abs(estimate.mean))
        if not low - slack <= estimate.mean <= high + slack:
            yield f"{where}.mean", f"{estimate.mean} lies outside [{low}, {high}]"
    for value in (estimate.mean, *estimate.runs):
        yield from _of_range(value, of, where)


def _of_range(value: float | None, of: Headline | BucketGroup | None, where: str) -> Problems:
    """Check a score against what its metric can be; what counts errors may exceed its unit."""
    if value is not None and of is not None:
        highest = math.inf if of.better == "lower" else {"share": 1, "points": 100}[of.kind]
        if not 0 <= value <= highest:
            yield where, f"{value} lies outside 0 to {highest}"


def _of_example(example: AttentionExample, without: set[str], where: str) -> Problems:
    for k, gold in enumerate(example.gold):
        texts = (("source", gold.source, example.source), ("target", gold.target, example.target))
        for side, (start, end), text in texts:
            if not 0 <= start <= end <= len(text):
                yield f"{where}.gold[{k}].{side}", f"[{start}, {end}] lies outside the text"
    for name, shown in example.models.items():
        place = f"{where}.models.{name}.maps"
        if name in without and shown.maps:
            yield place, "the model is said to have no attention"
        source, target = len(shown.source_tokens), len(shown.target_tokens)
        shapes = {"encoder": (source, source), "decoder": (target, target)}
        for k, drawn in enumerate(shown.maps):
            rows, columns = shapes.get(drawn.kind, (target, source))
            if len(drawn.weights) != rows or any(len(row) != columns for row in drawn.weights):
                yield f"{place}[{k}].weights", f"expected {rows} rows of {columns} weights"
