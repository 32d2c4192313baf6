"""Options of a command in a file, read by ``--config`` and written by ``--write-config``."""

import functools
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cyclopts import App, MissingArgumentError
from cyclopts.config import Dict, Json, Toml, Yaml

from selfattn.cli.options import changed_settings
from selfattn.codec import parse
from selfattn.command_lines import command_line
from selfattn.errors import UserError, option
from selfattn.files import read_bytes, write_text, writing
from selfattn.registry import TASKS
from selfattn.settings import shown

MakeCommands = Callable[[Sequence[str]], App]
_KINDS: dict[str, type[Any]] = {".toml": Toml, ".yaml": Yaml, ".yml": Yaml, ".json": Json}
_LARGEST = 1 << 20  # bytes of a file of options
_ADVICE = "name a run, or a TOML, YAML or JSON file"


def read_config(path: Path, make_commands: MakeCommands, command: Sequence[str]) -> Callable[..., None]:
    """Return options for a command, which those on the command line replace, as cyclopts takes them.

    Args:
        path: a TOML, YAML or JSON file; or a run, for the options that it was trained with.
        make_commands: makes the program for a command line.
        command: that gets the options, such as ``["train", "dates"]``.

    Raises:
        UserError: the file is missing, broken or of another kind, or the run was made by another command.
    """
    if path.is_dir():
        values = _options_of_run(path, make_commands, command)
    else:
        values = _checked_options(_content_of_file(path, "--config"), f"--config {path}")

    def read(app: App, commands: tuple[str, ...], arguments: Any) -> None:
        # Under the names of the command, since at the top cyclopts skips options called as a command, such as models.
        nested = functools.reduce(lambda inner, name: {name: inner}, reversed(commands), values)
        Dict(nested, source=str(path))(app, commands, arguments)

    return read


def read_recipe(path: Path, make_commands: MakeCommands) -> tuple[str, dict[str, dict[str, Any]]]:
    """Read a recipe of several comparisons: options of all at the top, those of each data set in ``[tasks.NAME]``.

    Args:
        path: a TOML, YAML or JSON file, with the name of the task as ``task``.
        make_commands: makes the program for a command line.

    Returns:
        The task, and the settings of the comparison on each data set, without the defaults.

    Raises:
        UserError: the file is missing, broken or of another kind, or lacks one of the two.
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
    settings = {}
    for name, table in tables.items():
        values = common | _checked_options(table, f"{where}: tasks.{name}")
        words = ["compare", task]
        commands = make_commands(words)
        commands.config = [Dict({"compare": {task: values}}, source=f"{path}: tasks.{name}")]
        _, bound, _ = commands.parse_args(words)
        settings[str(name)] = changed_settings(bound.arguments, bound.signature.parameters.values())
    return task, settings


def _content_of_file(path: Path, name: str) -> dict[str, Any]:
    """Return what a TOML, YAML or JSON file holds, for the option of this name."""
    data = read_bytes(path, advice=_ADVICE, most=_LARGEST)
    if path.suffix not in _KINDS:
        raise UserError(f"{name} {path}: cannot be read as options (ends in {path.suffix!r}); {_ADVICE}")
    try:
        _refuse_repeats(path.suffix, data)
        content = _KINDS[path.suffix](path).config
    except Exception as error:  # each library has errors of its own
        reason = " ".join(str(error).split())
        raise UserError(f"{name} {path}: cannot be read as options ({reason}); {_ADVICE}") from None
    if not isinstance(content, dict):
        raise UserError(f"{name} {path}: cannot be read as options (expected names with values); {_ADVICE}")
    return content


def _checked_options(content: dict[str, Any], where: str) -> dict[str, Any]:
    """Return options, each with a value that an option can have.

    So no value refers to itself, or repeats others until the memory is full.
    """
    for name, value in content.items():
        items = value if isinstance(value, list) else [value]
        if not isinstance(name, str) or not all(isinstance(item, str | int | float) for item in items):
            expected = "expected a text, a number, true or false, or a list of such"
            raise UserError(f"{where}: {shown(name)}: {expected}, got {_kind(value)}")
    return dict(_positive(content))


def _refuse_repeats(ending: str, data: bytes) -> None:
    """Raise where a file gives a name twice, of which the libraries for YAML and JSON take the last. TOML's refuses.

    Raises:
        ValueError: with the name.
    """
    if ending == ".json":
        parse(data)
    elif ending in (".yaml", ".yml"):
        import yaml  # type: ignore[import-untyped]  # its types are a package of their own

        node = yaml.compose(data, Loader=yaml.SafeLoader)
        names = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise ValueError(f"{shown(repeated[0])} twice")


def _kind(value: object) -> str:
    """Name the kind of a value in a file without writing the value, which may refer to itself."""
    return {dict: "a table", list: "a list of other values", type(None): "nothing"}.get(type(value), "another value")


def _positive(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Replace ``no-tune = true``, which cyclopts would read as ``tune = true``, by ``tune = false``."""
    for name, value in values.items():
        is_negative = isinstance(value, bool) and name[:3] in ("no-", "no_")
        yield (name[3:], not value) if is_negative else (name, value)


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
    if list(words[:1]) not in (["train"], ["compare"]):
        raise UserError("--write-config: is for `train TASK` and `compare TASK`; leave it out")
    try:
        values = _options_of(commands, words)
    except MissingArgumentError:  # neither the command line nor its configuration says where to
        values = _options_of(commands, [*words, "--out", "DIRECTORY"])
        values.pop("out")
        again += " --out DIRECTORY"
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    with writing(path, "choose another place"):
        write_text(path, "\n".join([f"# {again}", *lines, ""]))
    return f"{path}: the options are written, nothing is trained; try: {again}"


def _options_of(commands: App, words: Sequence[str]) -> dict[str, Any]:
    """Return the options of a command line that differ from the defaults, without ``resume``, as plain values."""
    _, bound, _ = commands.parse_args(words)
    settings = changed_settings(bound.arguments, bound.signature.parameters.values())
    plain = json.loads(json.dumps(settings, default=str))
    return {option(name)[2:]: value for name, value in plain.items() if name != "resume"}


def _options_of_run(path: Path, make_commands: MakeCommands, command: Sequence[str]) -> dict[str, Any]:
    """Return the options that a run was trained with."""
    from selfattn.runs.directory import RunDirectory

    command_of_run = RunDirectory(path).record().command.rpartition(" && ")[2]
    try:
        words = shlex.split(command_of_run)
    except ValueError as error:
        reason = f"the command in its record cannot be read ({str(error).lower()})"
        raise UserError(f"--config {path}: {reason}; {_ADVICE}") from None
    words = words[next((place for place, word in enumerate(words) if word in ("train", "compare")), 0) :]
    if words[:2] != list(command):
        raise UserError(f"--config {path}: was made by `selfattn {' '.join(words[:2])}`, which has other options")
    return _options_of(make_commands(words), words)
