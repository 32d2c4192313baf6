"""Read the record of a comparison; whatever is broken is one line that names the file and the field."""

from __future__ import annotations

from pathlib import Path

from selfattn import codec
from selfattn.codec import FieldError
from selfattn.errors import UserError
from selfattn.figures.checks import check
from selfattn.figures.record import SCHEMA, Record

_ADVICE = "the fields are listed in docs/results-json.md"


def read_record(path: str | Path) -> Record:
    """Read a `results.json`.

    Args:
        path: the file.

    Returns:
        The checked record.

    Raises:
        UserError: the file is missing, is not JSON, or a field is missing, unknown, of another type or contradictory.
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
    try:
        if isinstance(data, dict) and data.get("schema", SCHEMA) != SCHEMA:
            found = f"found {data['schema']!r}, and this version reads {SCHEMA} only"
            raise FieldError("schema", f"{found}; make it again: `selfattn report RUN... --out DIR`")
        record = codec.checked(Record, data)
        check(record)
    except FieldError as error:
        raise UserError(f"{file}: {error.where or 'record'}: {error.problem}; {_ADVICE}") from None
    return record
