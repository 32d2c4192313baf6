"""Options of a command, made from a plain dataclass: its fields, their types and its docstring. Imports no torch."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import dataclasses
import functools
import inspect
import operator
import os
import re
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any

from cyclopts import Group, Parameter, Token, convert
from cyclopts.help import DefaultFormatter

from selfattn.errors import option
from selfattn.settings import Bounds, bounds_of

_DIGITS = 18  # most digits of a number that has no bounds of its own


def _check_text(text: str) -> None:
    """Refuse a text that no file name and no output can hold, such as half a character from a JSON file."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError("expected a text in UTF-8, got half of a character (a surrogate)") from None


def checked(type_: Any, tokens: Sequence[Token]) -> Any:
    """Convert the value of an option as cyclopts does, which alone would round 1.5 to 2 and read "" as "."."""
    text = tokens[0].value
    kinds = typing.get_args(type_)
    for token in tokens:
        _check_text(token.value)
    if NoneType in kinds:  # else the word "none" would be one of its values
        type_ = functools.reduce(operator.or_, [kind for kind in kinds if kind is not NoneType])
    if type_ is int and not re.fullmatch(r"[+-]?\d+", text):
        raise ValueError(f"expected a whole number, got {text}")
    if type_ is int and len(text) > _DIGITS:
        raise ValueError(f"expected a whole number of at most {_DIGITS} digits, got {len(text)}")
    if Path in (type_, *typing.get_args(type_)) and not text:
        raise ValueError("expected a path, got an empty text")
    return convert(type_, tokens)


def _split_commas(type_: Any, tokens: Sequence[Token]) -> tuple[Any, ...]:
    texts = [text for token in tokens for text in token.value.split(",") if text]
    kind = typing.get_args(type_)[0]
    for text in texts:
        _check_text(text)
    if not texts:
        raise ValueError("expected values, separated by commas; got none")
    try:
        return tuple(map(kind, texts))
    except ValueError:
        numbers = "whole numbers" if kind is int else "numbers"
        raise ValueError(f"expected {numbers}, separated by commas; got {','.join(texts)}") from None


_COMMAS = Parameter(converter=_split_commas, n_tokens=1)
# Names or numbers given as ``a,b,c``, or by naming the option again.
Names = Annotated[tuple[str, ...], _COMMAS]
Numbers = Annotated[tuple[int, ...], _COMMAS]
# Files of pairs, or sources and targets in turn; to be read by `selfattn.data.readers.pairs.read_pairs`.
Files = Annotated[tuple[Path, ...], Parameter(consume_multiple=True)]

_TYPES: dict[Any, Any] = {
    tuple[str, ...]: Names,
    tuple[int, ...]: Annotated[tuple[int, ...], _COMMAS],
    tuple[float, ...]: Annotated[tuple[float, ...], _COMMAS],
    tuple[Path, ...]: Files,
}


def options_of(
    kind: type[Any],
    *,
    defaults: Mapping[str, Any] | None = None,
    leave_out: Sequence[str] = (),
    all_open: bool = False,
    group: str = "",
    basic: Sequence[str] = (),
) -> type[Any]:
    """Make the dataclass that a command takes in place of a plain one: the same fields with what cyclopts needs.

    Args:
        kind: a dataclass that documents its fields under ``Attributes``. ``groups``, if there is such, maps headings to
            fields that only ``--help-all`` shows; ``repeated`` names lists of texts that are given by repeating the
            option instead of by commas.
        defaults: defaults that differ from the dataclass, by name.
        leave_out: fields that are no options.
        all_open: make None every default, for "not given". Default False.
        group: heading, shown by ``--help-all``, of all fields that are not ``basic``. Default none.
        basic: fields that stand outside ``group``.

    Example:
        >>> @dataclasses.dataclass(frozen=True, kw_only=True)
        ... class Size:
        ...     '''A size.
        ...
        ...     Attributes:
        ...         width: Width in metres.
        ...     '''
        ...     width: int = 3
        >>> options_of(Size)().width
        3
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    bounds = bounds_of(kind)
    hints |= {name: hint for name, hint in typing.get_type_hints(kind).items() if name in bounds}
    fields = [field for field in dataclasses.fields(kind) if field.name not in leave_out]
    groups = {group: [field.name for field in fields if field.name not in basic]} if group else {}
    groups |= getattr(kind, "groups", {})
    heading_of = {name: _heading(heading) for heading, names in groups.items() for name in names}
    options: list[Any] = []
    for field in fields:
        type_ = hints[field.name]
        name = field.name
        default: dict[str, Any] = {"default": field.default, "default_factory": field.default_factory}
        if all_open or name in (defaults or {}):
            default = {"default": None if all_open else (defaults or {})[name]}
            if default["default"] is None and NoneType not in typing.get_args(type_):
                type_ = type_ | None
        type_ = type_ if name in getattr(kind, "repeated", ()) else _TYPES.get(type_, type_)
        if hints[name] == bool | None:
            type_ = Annotated[type_, Parameter(negative=option(f"no_{name}"))]
        if name in heading_of:
            type_ = Annotated[type_, Parameter(group=heading_of[name])]
        options.append((name, type_, dataclasses.field(**default, kw_only=True)))
    options_type = joined(fields=options)
    names = [field.name for field in dataclasses.fields(kind)]
    options_type.__doc__ = _as_help(kind.__doc__ or "", names, leave_out, bounds)
    return options_type


@cache
def _heading(name: str) -> Group:
    """Make the group of a heading; help shows groups in the order in which they were made."""
    return Group.create_ordered(name)


def joined(*kinds: type[Any], fields: Sequence[Any] = ()) -> type[Any]:
    """Make one dataclass with the fields and the help of several that :func:`options_of` made.

    Args:
        kinds: no two have a field of the same name.
        fields: further ones, as ``dataclasses.make_dataclass`` takes them; default none.
    """
    options = dataclasses.make_dataclass("Options", fields, bases=kinds[::-1], frozen=True)
    options.__module__ = __name__  # cyclopts takes a class of the standard library for a plain type
    return Parameter(name="*")(options)


def _as_help(docstring: str, names: Sequence[str], leave_out: Sequence[str], bounds: Mapping[str, Bounds]) -> str:
    """Return a docstring as help: options by their names, no markup, one line for each paragraph, ranges of numbers."""
    text = docstring.partition("    Raises:")[0].partition("    Example:")[0]
    for name in leave_out:  # else it would document another dataclass's field of this name
        text = re.sub(rf"(?ms)^        {name}: .*?(?=^(        \w|$))", "", text)
    text = re.sub("``(.*?)``", lambda match: option(match[1]) if match[1] in names else match[1], text)
    text = unwrapped(re.sub(r":\w+:`(?:[^`]*\.)?([^`]*)`", r"\1", text))
    for name in bounds:
        text = re.sub(rf"(?m)^( *{name}: .*)$", rf"\1 Range: {bounds[name]}.", text)
    return text


def unwrapped(docstring: str) -> str:
    """Put each paragraph, and each description of an argument, on one line, for the terminal to wrap.

    Example:
        >>> unwrapped("Do this\\nand that.")
        'Do this and that.'
    """
    text = re.sub(r"\n {8,}", " ", inspect.cleandoc(docstring))
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text)


class BasicHelp(DefaultFormatter):
    """Shows the basic options of a command, and names ``--help-all`` for its groups of others.

    Args:
        everything: show the groups too.
    """

    def __init__(self, everything: bool) -> None:
        super().__init__()
        self.everything = everything
        self.is_mentioned = False

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        """Print one panel of the help."""
        if self.everything or panel.title in ("Commands", "Arguments", "Parameters"):
            super().__call__(console, options, panel)
        elif panel.entries and not self.is_mentioned:
            console.print("More: --help-all")
            self.is_mentioned = True
