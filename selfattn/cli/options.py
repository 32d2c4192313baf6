"""Options of a command, read from a plain dataclass: its fields, their types and its docstring. Imports no torch."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import dataclasses
import functools
import inspect
import operator
import os
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, SimpleNamespace
from typing import Annotated, Any, TypeVar

import docstring_parser
from cyclopts import App, Group, Parameter, Token, convert
from cyclopts.help import DefaultFormatter

from selfattn import __version__
from selfattn.errors import UserError, option
from selfattn.settings import Condition, bounds_of, check_conditions, excludes
from selfattn.words.messages import SOURCE

Command = TypeVar("Command", bound=Callable[..., Any])

_BY_NAME = inspect.Parameter.KEYWORD_ONLY
_DIGITS = 18  # most digits of a number that has no bounds of its own


def _check_text(text: str) -> None:
    """Refuse a text that no file name and no output can hold, such as half a character from a JSON file."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError("expected a text in UTF-8, got half of a character (a surrogate)") from None


def convert_option(type_: Any, tokens: Sequence[Token]) -> Any:
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
# Shares as ``3,1`` or as ``3 1``; only for commands without arguments behind their options.
Shares = Annotated[tuple[float, ...], Parameter(converter=_split_commas, n_tokens=1, consume_multiple=True)]
# Files of pairs, or sources and targets in turn; to be read by `selfattn.data.readers.pairs.read_pairs`.
Files = Annotated[tuple[Path, ...], Parameter(consume_multiple=True)]

# Where a command computes; the default is the CPU, on which a command gives the same numbers everywhere.
Device = Annotated[
    str, Parameter(help="Device to compute on, such as cpu, cuda or cuda:1. auto takes a GPU if there is one.")
]

LISTS = {"columns", "layers", "heads"}
"""Names of the options that take a list with commas; those of dataclasses are added as they are read."""

_group_of = cache(Group.create_ordered)  # help shows groups in the order in which they are made
_TYPES: dict[Any, Any] = {
    tuple[str, ...]: Names,
    tuple[int, ...]: Numbers,
    tuple[float, ...]: Shares,
    tuple[Path, ...]: Files,
}


def parameters_of(
    kind: type[Any],
    *,
    defaults: Mapping[str, Any] | None = None,
    leave_out: Sequence[str] = (),
    group: str = "",
    basic: Sequence[str] = (),
) -> list[inspect.Parameter]:
    """Return the options of a command that stand for the fields of a dataclass.

    Args:
        kind: a dataclass that documents its fields under ``Attributes``. ``groups``, if there is such, maps headings to
            fields that only ``--help-all`` shows; ``repeated`` names lists of texts that follow one another, or the
            option again, instead of commas.
        defaults: defaults that differ from the dataclass, by name.
        leave_out: fields that are no options.
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
        >>> [(parameter.name, parameter.default) for parameter in parameters_of(Size)]
        [('width', 3)]
    """
    defaults = defaults or {}
    hints = typing.get_type_hints(kind)
    bounds = bounds_of(kind)
    fields = [field for field in dataclasses.fields(kind) if field.name not in leave_out]
    groups = {group: [field.name for field in fields if field.name not in basic]} if group else {}
    groups |= getattr(kind, "groups", {})
    heading_of: dict[str, Group] = {}
    for heading, names in groups.items():
        heading_of |= dict.fromkeys(names, _group_of(heading))
    help_of = _help_of(kind)
    parameters = []
    for field in fields:
        name = field.name
        default = defaults.get(name, field.default)
        if field.default_factory is not dataclasses.MISSING and name not in defaults:
            default = field.default_factory()
        if default is dataclasses.MISSING:
            default = inspect.Parameter.empty
        type_ = hints[name]
        if default is None and NoneType not in typing.get_args(type_):
            type_ = type_ | None
        notes: dict[str, Any] = {"help": help_of.get(name)}
        if name in getattr(kind, "repeated", ()):
            notes["consume_multiple"] = True
        else:
            if _TYPES.get(type_) in (Names, Numbers):
                LISTS.add(name)
            type_ = _TYPES.get(type_, type_)
        if name in bounds:
            notes["help"] = f"{help_of.get(name, '')} Range: {bounds[name]}."
        if name in heading_of:
            notes["group"] = heading_of[name]
        if hints[name] == bool | None:
            notes["negative"] = option(f"no_{name}")
        annotation: Any = Annotated[type_, Parameter(**notes)]
        parameters.append(inspect.Parameter(name, _BY_NAME, default=default, annotation=annotation))
    return parameters


def _help_of(kind: type[Any]) -> dict[str, str]:
    """Return the help of a dataclass's fields: their documentation, with options by their names and without markup."""
    names = {field.name for field in dataclasses.fields(kind)}
    help_of = {}
    for attribute in docstring_parser.parse(kind.__doc__ or "").params:
        text = " ".join((attribute.description or "").split())
        text = re.sub("``(.*?)``", lambda match: option(match[1]) if match[1] in names else match[1], text)
        help_of[attribute.arg_name] = re.sub(r":\w+:`(?:[^`]*\.)?([^`]*)`", r"\1", text)
    return help_of


def takes(*parameters: inspect.Parameter) -> Callable[[Command], Command]:
    """Let a function with ``**settings`` take these options instead, as the command line reads its signature.

    Args:
        parameters: of :func:`parameters_of`, each of another name.
    """

    def decorate(function: Command) -> Command:
        signature = inspect.signature(function)
        named = [parameter for parameter in signature.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
        names = [parameter.name for parameter in (*named, *parameters)]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise UserError(f"options {', '.join(sorted(repeated))}: two dataclasses have them; rename one")
        full_signature = signature.replace(parameters=[*named, *parameters])
        function.__signature__ = full_signature  # type: ignore[attr-defined]  # `inspect` reads it; functions have no type for it
        return function

    return decorate


def changed_settings(settings: Mapping[str, Any], parameters: Iterable[inspect.Parameter]) -> dict[str, Any]:
    """Return the settings of a command that differ from their defaults."""
    defaults = {parameter.name: parameter.default for parameter in parameters}
    return {name: settings[name] for name in defaults if name in settings and settings[name] != defaults[name]}


def make_app(name: str, *, help: str) -> App:
    """Make a program, or a group of commands, whose errors :func:`selfattn.cli.main.main` prints in one line.

    Args:
        name: the word that calls it.
        help: its description.
    """
    return App(
        name=name,
        help=unwrap(help),
        version=__version__,
        default_parameter=Parameter(converter=convert_option, negative=(), show_default=_default_text),
        help_format="plaintext",
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )


def _default_text(value: Any) -> str | None:
    """Write a default as the user would type it; leave out flags and empty lists."""
    if isinstance(value, bool) or value in ((), None):
        return None
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def unwrap(docstring: str) -> str:
    """Put each paragraph, and each description of an argument, on one line, for the terminal to wrap.

    Example:
        >>> unwrap("Do this\\nand that.")
        'Do this and that.'
    """
    text = re.sub(r"\n {8,}", " ", inspect.cleandoc(docstring))
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text)


def command(function: Command) -> Command:
    """Let the terminal wrap the help of a command."""
    function.__doc__ = unwrap(function.__doc__ or "")
    return function


def check_given(conditions: Sequence[Condition], **options: object) -> None:
    """Refuse options of a command that have no effect. Those that are true, or not empty, count as given."""
    check_conditions([name for name, value in options.items() if value], SimpleNamespace(**options), conditions)


def check_language(lang: str, *, json: bool) -> None:
    """Refuse a language of lines where the results are printed as JSON."""
    check_given([excludes("`json`", lambda options: options.json, "lang")], json=json, lang=lang != SOURCE)


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
