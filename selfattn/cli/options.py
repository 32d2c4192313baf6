"""Options of a command, made from a plain dataclass: its fields, their types and its docstring. Imports no torch."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import dataclasses
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any

from cyclopts import Group, Parameter, Token

from selfattn.errors import option


def _split_commas(type_: Any, tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(name for token in tokens for name in token.value.split(",") if name)


def _whole_number(type_: Any, tokens: Sequence[Token]) -> int:
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"expected a whole number, got {tokens[0].value}") from None


def _whole_numbers(type_: Any, tokens: Sequence[Token]) -> tuple[int, ...]:
    texts = _split_commas(type_, tokens)
    for text in texts:
        if not text.isascii() or not text.isdigit():
            raise ValueError(f"expected whole numbers of at least 1, separated by commas; got {text}")
    return tuple(int(text) for text in texts)


def _numbers(type_: Any, tokens: Sequence[Token]) -> tuple[float, ...]:
    texts = _split_commas(type_, tokens)
    try:
        return tuple(map(float, texts))
    except ValueError:
        raise ValueError(f"expected numbers, separated by commas; got {','.join(texts)}") from None


# Without the converter cyclopts would round 1.5 to 2.
Whole = Annotated[int, Parameter(converter=_whole_number)]
MaybeWhole = Annotated[int | None, Parameter(converter=_whole_number)]
# Names given as ``a,b,c``, or by naming the option again.
Names = Annotated[tuple[str, ...], Parameter(converter=_split_commas, n_tokens=1)]
# Two parallel files, or one file of pairs; to be read by `selfattn.data.readers.pair_files.read_pairs`.
Files = Annotated[tuple[Path, ...], Parameter(consume_multiple=True)]

_TYPES: dict[Any, Any] = {
    int: Whole,
    int | None: MaybeWhole,
    tuple[str, ...]: Names,
    tuple[int, ...]: Annotated[tuple[int, ...], Parameter(converter=_whole_numbers, n_tokens=1)],
    tuple[float, ...]: Annotated[tuple[float, ...], Parameter(converter=_numbers, n_tokens=1)],
    tuple[Path, ...]: Files,
}
_FIRST_GROUP = 6  # of the named groups, behind the parameters that have none


def options_of(
    kind: type[Any],
    *,
    defaults: Mapping[str, Any] | None = None,
    leave_out: Sequence[str] = (),
    all_open: bool = False,
    group: str = "",
) -> type[Any]:
    """Make the dataclass that a command takes in place of a plain one: the same fields with what cyclopts needs.

    Args:
        kind: a dataclass whose docstring says under ``Attributes`` what each field is; ``groups``, where it has such,
            says under which headings of the help its fields stand, and ``repeated`` which lists of texts are given by
            naming the option again, not by commas.
        defaults: other defaults than those of the dataclass, by name.
        leave_out: fields that are no options.
        all_open: every default is None, which stands for nothing given; default False.
        group: a heading for all of them; default none.

    Example:
        >>> @dataclasses.dataclass(frozen=True, kw_only=True)
        ... class Size:
        ...     '''A size.
        ...
        ...     Attributes:
        ...         width: in metres.
        ...     '''
        ...     width: int = 3
        >>> options_of(Size)().width
        3
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    before = {new: old for old, new in getattr(kind, "renamed", {}).items()}
    headings = {name: heading for heading, names in getattr(kind, "groups", {}).items() for name in names}
    order = {
        heading: Group(heading, sort_key=_FIRST_GROUP + k) for k, heading in enumerate(getattr(kind, "groups", ()))
    }
    made: list[Any] = []
    for field in dataclasses.fields(kind):
        if field.name in leave_out:
            continue
        type_, changed = hints[field.name], {field.name: None} if all_open else defaults or {}
        if changed.get(field.name, ...) is None and NoneType not in typing.get_args(type_):
            type_ = type_ | None
        heading = order.get(headings.get(field.name, ""), Group(group, sort_key=20) if group else None)
        type_ = type_ if field.name in getattr(kind, "repeated", ()) else _TYPES.get(type_, type_)
        if heading is not None:
            type_ = Annotated[type_, Parameter(group=heading)]
        if field.name in before:
            hidden: Any = Parameter(show=False)  # what it was called before
            made.append(
                (before[field.name], Annotated[type_, hidden], dataclasses.field(default=field.default, kw_only=True))
            )
        default: dict[str, Any] = {"default": field.default, "default_factory": field.default_factory}
        if field.name in changed:
            default = {"default": changed[field.name]}
        made.append((field.name, type_, dataclasses.field(**default, kw_only=True)))
    found = joined(fields=made)
    found.__doc__ = _as_help(kind.__doc__ or "", [field.name for field in dataclasses.fields(kind)], leave_out)
    return found


def joined(*kinds: type[Any], fields: Sequence[Any] = ()) -> type[Any]:
    """Make one dataclass of several that :func:`options_of` made: the fields of all, in their order, with their help.

    Args:
        kinds: no two have a field of the same name.
        fields: further ones, as ``dataclasses.make_dataclass`` takes them; default none.
    """
    found = dataclasses.make_dataclass("Options", fields, bases=kinds[::-1], frozen=True)
    found.__module__ = __name__  # cyclopts takes what is of the standard library for a plain type
    return Parameter(name="*")(found)


def _as_help(docstring: str, names: Sequence[str], leave_out: Sequence[str]) -> str:
    """A docstring of the library as help: options by their names there, and without references to the code."""
    text = re.sub(r"[;,]? see\s+:\w+:`[^`]*`", "", docstring)
    for name in leave_out:  # else it would be that of another's field of this name
        text = re.sub(rf"(?ms)^        {name}: .*?(?=^(        \w|$))", "", text)
    text = re.sub("``(.*?)``", lambda found: option(found[1]) if found[1] in names else found[1], text)
    return text.partition("    Raises:")[0].partition("    Example:")[0]
