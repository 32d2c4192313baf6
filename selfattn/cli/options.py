"""Options of a command: read from a plain dataclass, or from a file by ``--config``; written by ``--write-config``.

Of a dataclass: its fields, their types and its docstring. Imports no torch.
"""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import dataclasses
import functools
import inspect
import json
import operator
import os
import re
import shlex
import tomllib
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar

import docstring_parser
from cyclopts import App, Group, MissingArgumentError, Parameter, Token, convert
from cyclopts.config import Dict
from cyclopts.help import DefaultFormatter

from selfattn import __version__
from selfattn.errors import UserError, option, say
from selfattn.files import read_bytes, write_text, writing
from selfattn.processes import is_main_process
from selfattn.registry import TASKS
from selfattn.settings import (
    Condition,
    NoEffectError,
    bounds_of,
    check_conditions,
    command_line,
    divide,
    excludes,
    shown,
)
from selfattn.words.messages import SOURCE

Command = TypeVar("Command", bound=Callable[..., Any])
Result = TypeVar("Result")

_BY_NAME = inspect.Parameter.KEYWORD_ONLY
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
        whole = signature.replace(parameters=[*named, *parameters])
        function.__signature__ = whole  # type: ignore[attr-defined]  # `inspect` reads it; functions have no type for it
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
        help=help,
        version=__version__,
        default_parameter=Parameter(converter=checked, negative=(), show_default=_default_text),
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


def unwrapped(docstring: str) -> str:
    """Put each paragraph, and each description of an argument, on one line, for the terminal to wrap.

    Example:
        >>> unwrapped("Do this\\nand that.")
        'Do this and that.'
    """
    text = re.sub(r"\n {8,}", " ", inspect.cleandoc(docstring))
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text)


def command(function: Command) -> Command:
    """Let the terminal wrap the help of a command."""
    function.__doc__ = unwrapped(function.__doc__ or "")
    return function


def check_language(lang: str, *, json: bool) -> None:
    """Refuse a language of lines where the results are printed as JSON."""
    names = [] if lang == SOURCE else ["lang"]
    check_conditions(names, None, (excludes("`json`", lambda _: json, "lang"),))


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


MakeCommands = Callable[[Sequence[str]], App]
_LARGEST = 1 << 20  # bytes of a file of options
_ADVICE = "name a run, or a TOML file"


class OptionFiles:
    """The options in files of a command line. As a configuration of cyclopts it adds them to those that were typed.

    What was typed comes first, then the last file, then the file before. An option of a file that has no effect beside
    a typed one is left out, and a line says so.

    Args:
        files: name and options of each file, the last before the others.
    """

    def __init__(self, files: Iterable[tuple[str, dict[str, Any]]]) -> None:
        self._files = dict(files)
        self._origins: dict[str, str] = {}  # the file of each option; empty where it was typed or is left out

    def __call__(self, app: App, commands: tuple[str, ...], arguments: Any) -> None:
        """Add the options of the files to the arguments of a command."""
        for source, values in {"": {}, **self._files}.items():
            # Under the names of the command, since at the top cyclopts skips options called as a command, like models.
            nested = functools.reduce(lambda inner, name: {name: inner}, reversed(commands), values)
            Dict(nested, source=source)(app, commands, arguments)
            for argument in arguments:
                if argument.has_tokens:
                    self._origins.setdefault(argument.name, source)

    def settle(self, call: Callable[[], Result]) -> Result:
        """Call a command, again and again while options of files that it refuses can be left out.

        Raises:
            NoEffectError: an option that was typed has no effect.
        """
        while True:
            try:
                return call()
            except NoEffectError as error:
                if not self._leave_out(error):
                    raise

    def _leave_out(self, error: NoEffectError) -> bool:
        """Leave out the options of files in a conflict with typed ones.

        Returns:
            Whether there are any, so that the command can be called again.
        """
        name = option(error.name)
        others = [option(other) for other in error.others if option(other) in self._origins]
        in_files = [other for other in others if self._origins[other]]
        if self._origins.get(name):
            if len(in_files) == len(others):
                return False
            in_files = [name]
        elif not error.is_exclusive:
            return False
        for left_out in in_files:
            source = self._origins[left_out]
            values = self._files[source]
            key = next(key for key in values if option(key) == left_out)
            del values[key]
            self._origins[left_out] = ""  # so that what needs this option is left out too
            reason = f"has no effect beside {name}"
            if left_out == name:
                reason = error.as_options().removeprefix(f"{name} ").partition(":")[0]
            if is_main_process():
                say(f"{source}: {key} is left out: it {reason}")
        return bool(in_files)

    def is_typed(self, message: str) -> bool:
        """Return whether a message begins with an option that was typed."""
        return self._origins.get(re.split("[: ]", message, maxsplit=1)[0]) == ""

    def named(self, message: str) -> str:
        """Name the file behind the first mention of each option that stands in a file."""
        for name, source in self._origins.items():
            if source:
                before, *behind = re.split(rf"(?<![\w-]){name}(?![\w-])", message, maxsplit=1)
                message = f"{name} ({source})".join([before, *behind])
        return message


def read_config(path: Path, command: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of a file for a command, for :class:`OptionFiles`.

    Args:
        path: a TOML file; or a run, for the options that it was trained with.
        command: that gets the options, such as ``["train", "dates"]``.

    Raises:
        UserError: the file is missing, broken or of another kind, or the run was made by another command.
    """
    content = _options_of_run(path, command) if path.is_dir() else _content_of_file(path, "--config")
    return str(path), _checked_options(content, f"--config {path}")


def read_recipe(
    path: Path, make_commands: MakeCommands, typed: Sequence[str] = ()
) -> tuple[str, dict[str, dict[str, Any]]]:
    """Read a recipe of several comparisons: options of all at the top, those of each data set in ``[tasks.NAME]``.

    Args:
        path: a TOML file, with the name of the task as ``task``.
        make_commands: makes the program for a command line.
        typed: words of the command line that replace options of every data set, such as ``["--epochs", "3"]``.

    Returns:
        The task, and the settings of the comparison on each data set, without the defaults.

    Raises:
        UserError: the file is missing, broken or of another kind, or lacks one of the two; or an option is wrong.
    """
    where = f"--recipe {path}"
    content = _content_of_file(path, "--recipe")
    task = content.pop("task", None)
    if not isinstance(task, str):
        raise UserError(f'{where}: lacks the task that models are compared on; write task = "translation", or another')
    TASKS[task]
    tables = content.pop("tasks", None)
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UserError(f"{where}: expected a table [tasks.NAME] for each data set, with its options")
    common = _checked_options(content, where)
    settings: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        values = common | _checked_options(table, f"{where}: tasks.{name}")
        words = ["compare", task, *typed]
        commands = make_commands(words)
        files = OptionFiles([(f"{path}: tasks.{name}", values)])
        commands.config = [files]
        try:
            settings[name] = files.settle(partial(_checked_settings, commands, words))
        except UserError as error:
            message = error.as_options()
            place = "" if files.is_typed(message) else f"{where}: tasks.{name}: "
            raise UserError(f"{place}{message}") from None
    return task, settings


def _content_of_file(path: Path, name: str) -> dict[str, Any]:
    """Return what a TOML file holds, for the option of this name."""
    data = read_bytes(path, advice=_ADVICE, most=_LARGEST)
    if path.suffix != ".toml":
        raise UserError(f"{name} {path}: cannot be read as options (ends in {path.suffix!r}); {_ADVICE}")
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{name} {path}: cannot be read as options ({reason}); {_ADVICE}") from None


def _checked_options(content: dict[str, Any], where: str) -> dict[str, Any]:
    """Return options, each with a value that an option can have."""
    options: dict[str, Any] = {}
    for name, value in content.items():
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str | int | float) for item in items):
            expected = "expected a text, a number, true or false, or a list of such"
            raise UserError(f"{where}: {name}: {expected}, got {shown(value)}")
        if isinstance(value, bool) and name[:3] in ("no-", "no_"):  # cyclopts reads no-tune = true as tune = true
            options[name[3:]] = not value
        else:
            options[name] = value
    return options


def write_config(path: Path, commands: App, words: Sequence[str]) -> str:
    """Write the options of a command line as TOML, for ``--config``, and return a line that says so.

    Args:
        path: a new file that ends in ``.toml``.
        commands: the program.
        words: of the command line, such as ``["train", "dates", "--epochs", "3"]``.

    Raises:
        UserError: the path is taken or has another ending, or the command is none of a task.
    """
    if path.suffix != ".toml":
        raise UserError(f"--write-config {path}: expected a file that ends in .toml")
    if path.exists():
        raise UserError(f"--write-config {path}: is there already; choose another name")
    again = command_line(f"{' '.join(words[:2])} --config {shlex.quote(str(path))}", {})
    if len(words) < 2 or words[0] not in ("train", "compare"):
        raise UserError("--write-config: is for `train TASK` and `compare TASK`; leave it out")
    try:
        settings = _checked_settings(commands, words)
        if "out" in settings and Path(settings["out"]).is_dir():  # as that of a run which was given as --config
            again += " --out DIRECTORY"
    except MissingArgumentError:  # neither the command line nor its configuration says where to
        settings = _checked_settings(commands, [*words, "--out", "DIRECTORY"])
        settings.pop("out")
        again += " --out DIRECTORY"
    values = _plain(settings)
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    with writing(path, "choose another place"):
        write_text(path, "\n".join([f"# {again}", *lines, ""]))
    return f"{path}: the options are written, nothing is trained; try: {again}"


def _checked_settings(commands: App, words: Sequence[str]) -> dict[str, Any]:
    """Return what differs from the defaults in `train TASK` or `compare TASK`, checked as far as no file is needed.

    Raises:
        UserError: one of them is out of range, or has no effect beside another.
    """
    from selfattn.comparison.options import CompareOptions
    from selfattn.runs.task import make_task, task_class
    from selfattn.runs.train import TrainOptions
    from selfattn.training.config import TrainingConfig

    _, bound, _ = commands.parse_args(words)
    settings = changed_settings(bound.arguments, bound.signature.parameters.values())
    task = task_class(words[1])
    if words[0] == "train":
        of_run, of_training, of_task = divide(settings, TrainOptions, TrainingConfig, task.Options)
        TrainOptions(**of_run)
        of_tests = {}
    else:
        kinds = (CompareOptions, TrainingConfig, task.Options, task.TestOptions)
        of_run, of_training, of_task, of_tests = divide(settings, *kinds)
        options = CompareOptions(**{"models": task.models, "out": Path(), **of_run})
        check_conditions(of_run, options, _decided(CompareOptions.conditions, of_run.keys()))
    conditions = (*TrainingConfig.conditions, *make_task(words[1], of_task | of_tests).training_conditions())
    check_conditions(of_training, TrainingConfig(**of_training), _decided(conditions, of_training.keys()))
    return settings


def _decided(conditions: Iterable[Condition], settings: Set[str]) -> list[Condition]:
    """Return the conditions that these settings decide; others depend on defaults of the task and its data."""
    return [condition for condition in conditions if condition.is_exclusive or settings & set(condition.others)]


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as options with plain values, without ``resume``."""
    plain = json.loads(json.dumps(settings, default=str))
    return {option(name)[2:]: value for name, value in plain.items() if name != "resume"}


def _options_of_run(path: Path, command: Sequence[str]) -> dict[str, Any]:
    """Return the options that a run was trained with."""
    from selfattn.runs.directory import RunDirectory

    run = RunDirectory(path)
    config = run.config()
    if config.options is None:
        made_by = f"an older selfattn made it and kept no options; its command was: {run.record().command}"
        raise UserError(f"--config {path}: {made_by}; give the options, or {_ADVICE}")
    if [config.made_by, config.task] != list(command):
        made_by = f"was made by `selfattn {config.made_by} {config.task}`, which has other options"
        raise UserError(f"--config {path}: {made_by}; name a run of `selfattn {' '.join(command)}`")
    return _plain({**config.options, **config.task_options})
