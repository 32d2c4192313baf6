"""Turn a JSON object into a `Record` and back; whatever is broken is one line that names the file and the field."""

from __future__ import annotations

import dataclasses
import json
import math
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from selfattn.errors import UserError
from selfattn.figures.checks import FieldError, check
from selfattn.figures.record import SCHEMA, Record

_ADVICE = "the fields are listed in docs/results-json.md"
_WORDS = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false", type(None): "null"}


def read_record(path: str | Path) -> Record:
    """Read a `results.json`.

    Args:
        path: the file.

    Returns:
        The checked record.

    Raises:
        UserError: the file is missing, is not JSON, or a field is missing, unknown, of another type or contradictory.
    """
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give the results.json of a comparison") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; give the results.json of a comparison") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: is not JSON ({error.msg}); make the comparison again") from None
    return record_from_dict(data, str(path))


def record_from_dict(data: object, file: str = "results.json") -> Record:
    """Check a JSON object against the schema.

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
        record: Record = _decode(Record, data, "")
        check(record)
    except FieldError as error:
        raise UserError(f"{file}: {error.where or 'record'}: {error.problem}; {_ADVICE}") from None
    return record


def record_to_dict(record: Record) -> dict[str, Any]:
    """The JSON object of a record, the inverse of `record_from_dict`.

    Fields that are None are left out, and so are figures that are not finite (the loss of a run that diverged).
    """
    encoded: dict[str, Any] = _encode(record)
    return encoded


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        pairs = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: _encode(item) for name, item in pairs if not (item is None or _is_not_finite(item))}
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_encode(item) for item in value]
    return value


def _is_not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _decode(kind: Any, value: Any, where: str) -> Any:
    """Check `value` against the type `kind`; `where` is the path of the field, for messages."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _decode_fields(kind, value, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, value, where)
    if origin is Literal:
        if value not in arguments:
            raise FieldError(where, f"expected one of {', '.join(arguments)}, found {_short(value)}")
        return value
    if origin is tuple:
        return _decode_list(arguments, value, where)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise FieldError(where, f"expected an object, found {_short(value)}")
        return {_text(key, where): _decode(arguments[1], item, _inside(where, key)) for key, item in value.items()}
    return _decode_scalar(kind, value, where)


def _decode_fields(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise FieldError(where, f"expected an object, found {_short(value)}")
    hints = get_type_hints(kind)
    unknown = [name for name in value if name not in hints]
    if unknown:
        raise FieldError(_inside(where, unknown[0]), "is not a field of this schema")
    decoded: dict[str, Any] = {}
    for entry in dataclasses.fields(kind):
        has_default = not (entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING)
        if entry.name in value:
            decoded[entry.name] = _decode(hints[entry.name], value[entry.name], _inside(where, entry.name))
        elif not has_default:
            raise FieldError(_inside(where, entry.name), "is missing")
    return kind(**decoded)


def _decode_union(arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    others = [argument for argument in arguments if argument is not type(None)]
    if len(others) == 1:
        return _decode(others[0], value, where)
    for argument in others:
        try:
            return _decode(argument, value, where)
        except FieldError:
            continue
    expected = " or ".join(_WORDS[argument] for argument in others)
    raise FieldError(where, f"expected {expected}, found {_short(value)}")


def _decode_list(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise FieldError(where, f"expected a list, found {_short(value)}")
    if Ellipsis not in arguments:
        if len(value) != len(arguments):
            raise FieldError(where, f"expected {len(arguments)} values, found {len(value)}")
        return tuple(
            _decode(kind, v, f"{where}[{k}]") for k, (kind, v) in enumerate(zip(arguments, value, strict=True))
        )
    if arguments[0] is float and all(type(item) is float and math.isfinite(item) for item in value):
        return tuple(value)  # the many weights of attention maps, in one go
    return tuple(_decode(arguments[0], item, f"{where}[{k}]") for k, item in enumerate(value))


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is object:
        return _plain(value, where)
    if kind is str and isinstance(value, str):
        return _text(value, where)
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value)
    elif isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise FieldError(where, f"expected {_WORDS[kind]}, found {_short(value)}")


def _plain(value: Any, where: str) -> Any:
    """Any JSON value, as it is, if it can be written again."""
    if isinstance(value, dict):
        return {_text(key, where): _plain(item, _inside(where, key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{k}]") for k, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise FieldError(where, f"expected {_WORDS[float]}, found {_short(value)}")
    if isinstance(value, str):
        return _text(value, where)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise FieldError(where, f"expected a JSON value, found {type(value).__name__}")


def _text(value: str, where: str) -> str:
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise FieldError(where, "is not text that can be written (half a surrogate pair)")
    return value


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 40 else f"{text[:37]}..."
