"""Plain JSON values to checked dataclasses and back: the one reader and writer of every JSON file of the project.

The work is pydantic's (loaded when the first value is decoded): it checks types, choices, bounds and unknown keys. Here
its findings become one line that names the file, the field, what was expected, what was found, and what to do.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from selfattn.errors import UserError
from selfattn.files import read_bytes, write_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a finite number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "none_required": "null",
    "dict_type": "an object",
    "mapping_type": "an object",
    "dataclass_type": "an object",
    "tuple_type": "a list",
    "list_type": "a list",
}
_BOUNDS = {  # where the bound stands in pydantic's findings
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
    "too_short": ("a length of at least", "min_length"),
    "string_too_short": ("a length of at least", "min_length"),
    "too_long": ("a length of at most", "max_length"),
}
_CHECKSUM = "checksum"
_LARGEST = 64 << 20, 1 << 30  # bytes of a JSON file, and of one with a value a line
_DEPTH, _DIGITS = 50, 300  # more than any file of the project has; a number beyond them is no float
_ONE_OF_SEVERAL = {"str": "text", "int": "a whole number", "float": "a finite number", "bool": "true or false"}


class Plain:
    """Base of dataclasses that travel as JSON: exact types, finite numbers, no key that is not a field.

    Bounds stand in the annotations (``Annotated[float, Ge(0), Le(1)]`` of the package annotated_types).
    """

    __pydantic_config__ = {"strict": True, "extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012  # pydantic reads it


class FieldError(Exception):
    """A value that is not as its type says.

    Args:
        where: the path of the field, such as ``models[0].name``; empty for the whole value.
        problem: what is wrong with it.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where, self.problem = where, problem


def decode(kind: type[T], data: object, *, file: str | Path, advice: str) -> T:
    """Make a checked value of plain JSON values.

    Args:
        kind: a dataclass that is :class:`Plain`, or any type that is made of such.
        data: as ``json.loads`` gives it.
        file: what to call the place in an error message.
        advice: what to do where something is wrong.

    Raises:
        UserError: a field is missing, unknown, or not as its type says.

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
        selfattn.errors.UserError: a.json: mean: expected a finite number, found "much"; make it again
    """
    try:
        return checked(kind, data)
    except FieldError as error:
        raise UserError(f"{file}: {error.where or 'content'}: {error.problem}; {advice}") from None
    except UserError as error:  # of the dataclass itself, which knows no file
        raise UserError(f"{file}: {error}") from None


def checked(kind: type[T], data: object) -> T:
    """Do what :func:`decode` does, for callers that say errors in their own way.

    Raises:
        FieldError: something is not as its type says.
    """
    from pydantic import ValidationError

    try:
        # As JSON, for there a list may stand for a tuple, and nothing else is taken for what it is not.
        text = json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise FieldError("", "is nested too deep") from None
    except (TypeError, ValueError):  # UnicodeEncodeError is one of the latter
        raise _not_json(data, "") or FieldError("", "is no JSON value") from None
    try:
        adapter: TypeAdapter[T] = _adapter(kind)  # type: ignore[arg-type]  # types are hashable
        return adapter.validate_json(text)
    except ValidationError as error:
        raise _first_problem(error) from None


def encode(value: Any) -> Any:
    """Turn a value into plain JSON values: dataclasses become objects without the fields that are None.

    A class that travels in a form of its own has a method ``to_plain()``; see :func:`own_form` for the way back.

    A number that is not finite is left out of an object as None is.

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
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: encode(item) for name, item in pairs if not (item is None or _is_not_finite(item))}
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def own_form(make: Callable[[Any], object]) -> Any:
    """Return what a class whose JSON is not an object of its fields gives as ``__get_pydantic_core_schema__``.

    Args:
        make: makes a value of plain JSON values; its UserError gets the place in the file.
    """
    from pydantic_core import core_schema

    def made(data: Any) -> object:
        try:
            return make(data)
        except UserError as error:
            raise ValueError(str(error)) from None

    return core_schema.no_info_plain_validator_function(made)


def read(kind: type[T], path: Path, *, advice: str) -> T:
    """Read a JSON file as a checked value.

    Raises:
        UserError: the file cannot be read, is not JSON, or a field is not as its type says.
    """
    return decode(kind, read_json(path, advice=advice), file=path, advice=advice)


def parse(data: bytes) -> Any:
    """Read JSON from whoever it comes: not deeper than people write it, with numbers that a computer has.

    Raises:
        ValueError: these bytes are no such JSON.

    Example:
        >>> parse(b"[1, 2.5]")
        [1, 2.5]
        >>> parse(b"[" * 100 + b"]" * 100)
        Traceback (most recent call last):
        ValueError: nested too deep
    """
    try:
        values = json.loads(data.decode(), parse_int=_whole_number)
        deep = _is_deeper(values, _DEPTH)
    except RecursionError:
        deep = True
    if deep:
        raise ValueError("nested too deep")
    return values


def _whole_number(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    return levels == 0 or any(
        _is_deeper(item, levels - 1) for item in (value.values() if isinstance(value, dict) else value)
    )


def read_json(path: Path, *, advice: str) -> Any:
    """Read a JSON file as plain values, unchecked.

    Raises:
        UserError: the file cannot be read, is too large, is not JSON, or is not what its own checksum speaks of; it may
            have none.
    """
    data = read_bytes(path, advice=advice, most=_LARGEST[0])
    try:
        values = parse(data)
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; {advice}") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: is not JSON ({error.msg}); {advice}") from None
    except ValueError as error:
        raise UserError(f"{path}: is not JSON that can be read ({error}); {advice}") from None
    if _is_damaged(values):
        raise UserError(f"{path}: was changed or damaged after it was written (its checksum differs); {advice}")
    return values


def refuse_newer(values: object, known: int, *, file: str | Path, key: str = "schema") -> None:
    """Refuse what a later version wrote, before a field of it is called unknown.

    Args:
        values: of the file.
        known: the newest schema that this version reads.
        file: what to call the place.
        key: under which the file says its schema; default ``schema``.

    Raises:
        UserError: it is of a newer one.

    Example:
        >>> refuse_newer({"schema": 3}, 2, file="a.json")
        Traceback (most recent call last):
        selfattn.errors.UserError: a.json: schema 3, this version reads 2: a newer selfattn wrote it; update selfattn
    """
    found = values.get(key) if isinstance(values, Mapping) else None
    if type(found) is int and found > known:
        said = f"{key} {short(found)}, this version reads {known}"
        raise UserError(f"{file}: {said}: a newer selfattn wrote it; update selfattn")


def read_jsonl(kind: type[T], path: Path, *, advice: str) -> list[T]:
    """Read a file with one JSON value a line as checked values.

    Raises:
        UserError: the file cannot be read, or a line is not JSON or not as its type says; the message has its number.
    """
    found = []
    lines = read_bytes(path, advice=advice, most=_LARGEST[1]).removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            data = parse(line)
        except ValueError:
            raise UserError(f"{path}:{number}: is not a line of JSON; {advice}") from None
        if _is_damaged(data):
            raise UserError(f"{path}:{number}: was changed or damaged after it was written; {advice}")
        found.append(decode(kind, data, file=f"{path}:{number}", advice=advice))
    return found


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    """Write values as JSON, one a line, the whole file or nothing; raises as :func:`write` does."""
    write_text(path, "".join(map(line_of, values)))


def line_of(value: Any, *, checksum: bool = False) -> str:
    """Return a value as a line of JSON, its end included; with a checksum as :func:`write` adds it, default none."""
    return json.dumps(_encoded(value, checksum), ensure_ascii=False, allow_nan=False) + "\n"


def write(path: Path, value: Any, *, checksum: bool = False) -> None:
    """Write a value as JSON for people to read, the whole file or nothing.

    Args:
        path: where to.
        value: see :func:`encode`.
        checksum: put a checksum beside its fields, by which reading finds damage; default False.

    Raises:
        OSError: the disk does not take it.
        ValueError: a number is not finite.
    """
    values = _encoded(value, checksum)
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _encoded(value: Any, checksum: bool) -> Any:
    values = encode(value)
    return values | {_CHECKSUM: fingerprint(values)} if checksum else values


def _is_damaged(values: Any) -> bool:
    """Whether values are not those that their checksum, which is taken out, was made of; they may have none."""
    return isinstance(values, dict) and _CHECKSUM in values and values.pop(_CHECKSUM) != fingerprint(values)


def fingerprint(values: Any) -> str:
    """Return the SHA-256 of plain values as JSON with sorted keys, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _first_problem(error: Any) -> FieldError:
    """Say the first finding of pydantic in the project's words."""
    found = error.errors(include_url=False)
    first = found[0]
    place, kind = tuple(first["loc"]), first["type"]
    if kind == "missing":
        return FieldError(_path(place), "is missing")
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return FieldError(_path(place), "is not a field of this schema")
    if len(found) > 1 and all(one["input"] is first["input"] or one["input"] == first["input"] for one in found):
        # A choice between types: pydantic puts the name of each behind the place.
        names = [_ONE_OF_SEVERAL.get(str(one["loc"][-1])) for one in found]
        if all(names):
            return FieldError(
                _path(place[:-1]), f"expected {' or '.join(map(str, names))}, found {short(first['input'])}"
            )
    if kind == "value_error":  # a dataclass that checks itself
        return FieldError(_path(place), str(first["ctx"]["error"]))
    if kind == "json_invalid":
        return FieldError("", "is nested too deep")
    expected = _EXPECTED.get(kind)
    if kind in _BOUNDS:
        word, bound = _BOUNDS[kind]
        expected = f"{word} {first['ctx'][bound]}"
    if expected is None:
        message = str(first["msg"])
        expected = message[0].lower() + message[1:]
        expected = expected.removeprefix("input should be ")
        if kind == "literal_error":
            expected = "one of " + str(first["ctx"]["expected"]).replace("'", "").replace(" or ", ", ")
    return FieldError(_path(place), f"expected {expected}, found {short(first['input'])}")


def _not_json(value: object, where: str) -> FieldError | None:
    """Find what is no JSON value, or cannot be written as one."""
    inside: list[tuple[str, object]] = []
    if isinstance(value, Mapping):
        inside = [(f"{where}.{key}" if where else str(key), item) for key, item in value.items()]
    elif isinstance(value, (tuple, list)):
        inside = [(f"{where}[{place}]", item) for place, item in enumerate(value)]
    elif _is_not_finite(value):
        return FieldError(where, f"expected a finite number, found {value}")
    elif isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            return FieldError(where, "is not text that can be written (half a surrogate pair)")
    elif value is not None and not isinstance(value, (bool, int, float)):
        return FieldError(where, f"expected a JSON value, found {type(value).__name__}")
    return next((found for at, item in inside if (found := _not_json(item, at))), None)


def _path(place: tuple[str | int, ...]) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def short(value: object) -> str:
    """Write a value for a message, in at most 40 characters.

    Example:
        >>> short({"a": 1}), len(short("long" * 20))
        ('{"a": 1}', 40)
    """
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _is_not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
