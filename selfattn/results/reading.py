"""Read the record of a comparison; an error is one line that names the file and the field.

Types and bounds are those of the record. This file checks what they cannot express: that models, scores and tests
belong together.
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from selfattn import codec
from selfattn.errors import UserError
from selfattn.results.record import SCHEMA, Record

_ADVICE = "the fields are listed in docs/results-json.md"


def read_record(path: str | Path) -> Record:
    """Read a `results.json`.

    Args:
        path: the file.

    Returns:
        The checked record.

    Raises:
        UserError: the file is missing, is not JSON, or a field is missing, unknown or of another type; a model has no
            score, two models have no test, or a name is used twice or belongs to nobody.
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
        >>> record_from_dict({"schema": 3})
        Traceback (most recent call last):
        ...
        selfattn.errors.UserError: results.json: task: is missing; the fields are listed in docs/results-json.md
    """
    codec.refuse_newer(data, SCHEMA, file=file)
    if isinstance(data, dict) and data.get("schema", SCHEMA) != SCHEMA:
        problem = f"schema: found {data['schema']!r}, and this version reads {SCHEMA} only"
        raise UserError(f"{file}: {problem}; make it again: `selfattn report COMPARISON --out DIR`")
    record = codec.decode(Record, data, file=file, advice=_ADVICE)
    for where, problem in _contradictions(record):
        raise UserError(f"{file}: {where}: {problem}; {_ADVICE}")
    return record


def _contradictions(record: Record) -> Iterator[tuple[str, str]]:
    """Yield where fields that each have their type contradict each other, and how."""
    names = [model.name for model in record.models]
    metric = record.headline.metric
    if len(set(names)) < len(names):
        yield "models", "a name stands twice"
    for k, model in enumerate(record.models):
        if metric not in model.metrics:
            yield f"models[{k}].metrics", f"{metric} is missing, which the verdict is about"
    tested = [{test.first, test.second} for test in record.pairs if test.metric == metric]
    if record.target is not None:
        tested = [{test.first, test.second} for test in record.target.pairs]
        if set(record.target.models) != set(names):
            yield "target.models", f"expected {', '.join(names)}"
    for first, second in combinations(names, 2):
        if {first, second} not in tested:
            yield "pairs", f"a test of {first} and {second} in {metric} is missing"
    named = [("gates", gate.model) for gate in record.gates if gate.model]
    for test in record.pairs:
        named += [("pairs", test.first), ("pairs", test.second)]
    for where, name in named:
        if name not in names:
            yield where, f"{name!r} is not the name of a model of this record"
