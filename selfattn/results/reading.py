"""Read the record of a comparison; an error is one line that names the file and the field.

Types and bounds are those of the record. This file checks what they cannot express: figures that agree with each other,
maps of the right shape, known names.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from selfattn import codec
from selfattn.errors import UserError
from selfattn.results.attention import ModelAttention
from selfattn.results.quality import BucketGroup, Estimate, Headline
from selfattn.results.record import SCHEMA, Record

_ADVICE = "the fields are listed in docs/results-json.md"

Problems = Iterator[tuple[str, str]]  # where, and what is wrong there


def read_record(path: str | Path) -> Record:
    """Read a `results.json`.

    Args:
        path: the file.

    Returns:
        The checked record.

    Raises:
        UserError: the file is missing, is not JSON, or a field is missing, unknown, of another type or contradictory:
            a name is used twice or belongs to nobody; an interval does not hold its mean; a quality lies outside 0 to 1
            (points: to 100); a run belongs to no seed; a map has another shape than its tokens; the date cannot be
            read.
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
    if isinstance(data, dict) and data.get("schema", SCHEMA) != SCHEMA:
        problem = f"schema: found {data['schema']!r}, and this version reads {SCHEMA} only"
        raise UserError(f"{file}: {problem}; make it again: `selfattn report RUN... --out DIR`")
    record = codec.decode(Record, data, file=file, advice=_ADVICE)
    for where, problem in _contradictions(record):
        raise UserError(f"{file}: {where}: {problem}; {_ADVICE}")
    return record


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
        for name, metric in model.metrics.items():
            where = f"models[{k}].metrics.{name}"
            yield from _of_estimate(metric, record.headline if name == record.headline.metric else None, where)
            if metric.runs and len(metric.runs) != len(model.seeds):
                yield f"{where}.runs", f"expected one value a seed ({len(model.seeds)}), found {len(metric.runs)}"
        for j, curve in enumerate(model.curves):
            if curve.seed not in model.seeds:
                yield f"models[{k}].curves[{j}].seed", f"{curve.seed} is not among the model's seeds"
        heads = {(head.layer, head.head) for head in model.alignment.heads} if model.alignment else set()
        for key in ("best", "best_shifted"):
            best = getattr(model.alignment, key, None)
            if best and best not in heads:
                yield f"models[{k}].alignment.{key}", f"{list(best)} is not among the heads"
    for where, name in _names(record):
        if name not in names:
            yield where, f"{name!r} is not the name of a model of this record"
    for k, group in enumerate(record.buckets):
        for j, bucket in enumerate(group.buckets):
            for name, estimate in bucket.models.items():
                yield from _of_estimate(estimate, group, f"buckets[{k}].buckets[{j}].models.{name}")
    for k, example in enumerate(record.attention.examples):
        for name, shown in example.models.items():
            yield from _of_maps(shown, f"attention.examples[{k}].models.{name}.maps")


def _names(record: Record) -> Problems:
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


def _of_estimate(estimate: Estimate, of: Headline | BucketGroup | None, where: str) -> Problems:
    """Check the interval of a score, and the score against its metric's range; error rates may exceed 1."""
    low, high = estimate.low, estimate.high
    if (low is None) != (high is None):
        yield f"{where}.{'low' if low is None else 'high'}", "expected both ends of the interval, or none"
    slack = 1e-9 * max(1.0, abs(estimate.mean))
    if low is not None and high is not None and not low - slack <= estimate.mean <= high + slack:
        yield f"{where}.mean", f"{estimate.mean} lies outside [{low}, {high}]"
    highest = math.inf if of is None or of.better == "lower" else {"share": 1, "points": 100}[of.kind]
    for value in (estimate.mean, *estimate.runs):
        if of is not None and not 0 <= value <= highest:
            yield where, f"{value} lies outside 0 to {highest}"


def _of_maps(shown: ModelAttention, where: str) -> Problems:
    source, target = len(shown.source_tokens), len(shown.target_tokens)
    shapes = {"encoder": (source, source), "decoder": (target, target)}
    for k, drawn in enumerate(shown.maps):
        rows, columns = shapes.get(drawn.kind, (target, source))
        if len(drawn.weights) != rows or any(len(row) != columns for row in drawn.weights):
            yield f"{where}[{k}].weights", f"expected {rows} rows of {columns} weights"
