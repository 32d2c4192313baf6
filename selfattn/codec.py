"""Read and write JSON files as checked dataclasses.

pydantic checks types, choices, bounds and unknown keys; it is imported when the first value is decoded. This module
turns its problems into one line that names the file, the field, what was expected, what was found, and what to do.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from selfattn.errors import UserError
from selfattn.files import open_regular, read_bytes, reading, write_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_CHECKSUM = "checksum"
_LARGEST = 64 << 20, 1 << 30  # bytes of a JSON file, and of one with a value a line


class Plain:
    """Base class of dataclasses that are stored as JSON: exact types, finite numbers, no unknown keys.

    Bounds are annotations such as ``Annotated[float, Ge(0), Le(1)]`` (package annotated_types).
    """

    __pydantic_config__ = {"strict": True, "extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012  # pydantic reads it


def decode(kind: type[T], data: object, *, file: str | Path, advice: str) -> T:
    """Convert plain JSON values to a checked value.

    Args:
        kind: a :class:`Plain` dataclass, or a type that consists of such.
        data: the output of ``json.loads``.
        file: name of the file for error messages.
        advice: what the user should do about an error.

    Raises:
        UserError: a field is missing, unknown, or of the wrong type.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Share(Plain):
        ...     mean: float
        ...     runs: tuple[float, ...] = ()
        >>> decode(Share, {"mean": 0.5, "runs": [0.25, 0.75]}, file="a.json", advice="make it again")
        Share(mean=0.5, runs=(0.25, 0.75))
        >>> decode(Share, {"mean": "much"}, file="a.json", advice="make it again")
        Traceback (most recent call last):
        selfattn.errors.UserError: a.json: mean: expected a valid number, found "much"; make it again
    """
    from pydantic import ValidationError

    adapter: TypeAdapter[T] = _adapter(kind)  # type: ignore[arg-type]  # types are hashable
    try:
        # As JSON: there pydantic accepts a list for a tuple and is strict otherwise.
        return adapter.validate_json(json.dumps(data, ensure_ascii=False, allow_nan=False).encode())
    except ValidationError as error:
        raise UserError(f"{file}: {_first_problem(error)}; {advice}") from None
    except UserError as error:  # of the dataclass itself, which knows no file
        raise UserError(f"{file}: {error}") from None
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise UserError(f"{file}: content: is not a JSON value ({error}); {advice}") from None


def encode(value: Any) -> Any:
    """Convert a value to plain JSON values.

    Dataclasses become objects without their fields that are None or not finite. A class with its own JSON form defines
    ``to_plain()``; :func:`own_form` reads it back.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Share(Plain):
        ...     mean: float
        ...     low: float | None = None
        ...     runs: tuple[float, ...] = ()
        >>> encode(Share(0.5, runs=(0.25, 0.75)))
        {'mean': 0.5, 'runs': [0.25, 0.75]}
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: encode(item) for name, item in pairs if not _is_left_out(item)}
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over nested values, by names such as ``training.lr``."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def own_form(make: Callable[[Any], object]) -> Any:
    """Return a pydantic schema for a class with its own JSON form, for ``__get_pydantic_core_schema__``.

    Args:
        make: converts plain JSON values to a value; the place in the file is added to its UserError.
    """
    from pydantic_core import core_schema

    def convert(data: Any) -> object:
        try:
            return make(data)
        except UserError as error:
            raise ValueError(str(error)) from None

    return core_schema.no_info_plain_validator_function(convert)


def read(kind: type[T], path: Path, *, advice: str, newest: int | None = None, key: str = "schema") -> T:
    """Read a JSON file as a checked value.

    Args:
        kind: of the value.
        path: of the file.
        advice: what to do if it is damaged.
        newest: version that is known; default: the file has none.
        key: name of the field with its version.

    Raises:
        UserError: the file cannot be read, is not JSON or of a later version, or a field is of the wrong type.
    """
    values = read_json(path, advice=advice)
    if newest is not None:
        refuse_newer(values, newest, file=path, key=key)
    return decode(kind, values, file=path, advice=advice)


def parse(data: bytes) -> Any:
    """Parse JSON from any source.

    Raises:
        ValueError: the bytes are not JSON, nested too deep, or contain a name twice in an object or a number of more
            than 300 digits.

    Example:
        >>> parse(b"[1, 2.5]")
        [1, 2.5]
    """
    try:
        return json.loads(data.decode(), parse_int=_parse_int, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{repeated[:40]!a} twice in an object")
    return values


def _parse_int(digits: str) -> int:
    if len(digits) > 300:
        raise ValueError(f"a number of {len(digits)} digits")  # no float is so large
    return int(digits)


def read_json(path: Path, *, advice: str) -> Any:
    """Read a JSON file as plain values. Only its checksum is checked, where it has one.

    Raises:
        UserError: the file cannot be read, is too large, is not JSON, or its checksum differs.
    """
    data = read_bytes(path, advice=advice, max_bytes=_LARGEST[0])
    try:
        values = parse(data)
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; {advice}") from None
    except ValueError as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UserError(f"{path}{line}: is not JSON ({getattr(error, 'msg', error)}); {advice}") from None
    if _is_damaged(values):
        raise UserError(f"{path}: was changed or damaged after it was written (its checksum differs); {advice}")
    return values


def refuse_newer(values: object, newest: int, *, file: str | Path, key: str = "schema") -> None:
    """Refuse a file of a later version, before one of its fields is called unknown.

    Args:
        values: content of the file.
        newest: the newest schema that this version reads.
        file: name of the file for the message.
        key: of the schema's number; default ``schema``.

    Raises:
        UserError: the schema is newer.

    Example:
        >>> refuse_newer({"schema": 3}, 2, file="a.json")
        Traceback (most recent call last):
        selfattn.errors.UserError: a.json: schema 3, this version reads 2: a newer selfattn wrote it; update selfattn
    """
    schema = values.get(key) if isinstance(values, Mapping) else None
    if type(schema) is int and schema > newest:
        reads = f"{key} {short(schema)}, this version reads {newest}"
        raise UserError(f"{file}: {reads}: a newer selfattn wrote it; update selfattn")


def read_jsonl(kind: type[T], path: Path, *, advice: str) -> list[T]:
    """Read a file with one JSON value a line as checked values.

    Raises:
        UserError: the file cannot be read, or a line is not JSON or of the wrong type; the message has its number.
    """
    items = []
    for number, line in enumerate(_lines_of(path, advice), 1):
        try:
            data = parse(line)
        except ValueError:
            raise UserError(f"{path}:{number}: is not a line of JSON; {advice}") from None
        if _is_damaged(data):
            raise UserError(f"{path}:{number}: was changed or damaged after it was written; {advice}")
        items.append(decode(kind, data, file=f"{path}:{number}", advice=advice))
    return items


def _lines_of(path: Path, advice: str) -> Iterator[bytes]:
    """Read lines one after the other; an empty file has one, which is empty."""
    with reading(path, advice), open_regular(path) as file:
        if path.stat().st_size > _LARGEST[1]:
            raise UserError(f"{path}: is larger than {_LARGEST[1] >> 20} MiB; {advice}")
        yield file.readline(_LARGEST[0])
        while line := file.readline(_LARGEST[0]):
            yield line


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    """Write values as JSON, one per line, atomically; raises as :func:`write` does."""
    write_text(path, "".join(map(line_of, values)))


def line_of(value: Any, *, checksum: bool = False) -> str:
    """Return a value as a line of JSON with its line end, and with a checksum if requested."""
    return json.dumps(_encoded(value, checksum), ensure_ascii=False, allow_nan=False) + "\n"


def write(path: Path, value: Any, *, checksum: bool = False) -> None:
    """Write a value as indented JSON, atomically.

    Args:
        path: of the file.
        value: see :func:`encode`.
        checksum: whether to add a checksum that reading compares; default False.

    Raises:
        OSError: the file cannot be written.
        ValueError: a number is not finite.
    """
    values = _encoded(value, checksum)
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _encoded(value: Any, checksum: bool) -> Any:
    values = encode(value)
    return values | {_CHECKSUM: fingerprint(values)} if checksum else values


def _is_damaged(values: Any) -> bool:
    """Remove the checksum of values, where there is one, and say whether it differs."""
    return isinstance(values, dict) and _CHECKSUM in values and values.pop(_CHECKSUM) != fingerprint(values)


def has_checksum(values: Any) -> bool:
    """Say whether plain values have a checksum, and it is theirs."""
    return isinstance(values, dict) and _CHECKSUM in values and not _is_damaged(dict(values))


def fingerprint(values: Any) -> str:
    """Return the SHA-256 of plain values as JSON with sorted keys, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _first_problem(error: Any) -> str:
    """Put pydantic's first problem into one line: the place, and what is wrong there."""
    problem = error.errors(include_url=False)[0]
    match problem["type"]:
        case "missing":
            text = "is missing"
        case "unexpected_keyword_argument" | "extra_forbidden":
            text = "is not a field of this schema"
        case "value_error":  # a dataclass that checks itself
            text = str(problem["ctx"]["error"])
        case _:
            text = f"{problem['msg'].replace('Input should be', 'expected')}, found {short(problem['input'])}"
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    return f"{place.removeprefix('.') or 'content'}: {text}"


def short(value: object) -> str:
    """Write a value for a message, in at most 40 characters.

    Example:
        >>> short({"a": 1}), len(short("long" * 20))
        ('{"a": 1}', 40)
    """
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _is_left_out(value: object) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))
