"""Options in files: read by ``--config`` and ``--recipe``, written by ``--write-config``. Imports no torch."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import reduce
from pathlib import Path
from typing import Any

from cyclopts import App, MissingArgumentError
from cyclopts.config import Dict

from selfattn.cli.options import changed_settings
from selfattn.errors import UserError, option, say
from selfattn.files import read_bytes, write_text, writing
from selfattn.processes import is_main_process
from selfattn.registry import TASKS
from selfattn.settings import Condition, NoEffectError, check_conditions, command_line, divide, shown

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
            nested = reduce(lambda inner, name: {name: inner}, reversed(commands), values)
            Dict(nested, source=source)(app, commands, arguments)
            for argument in arguments:
                if argument.has_tokens:
                    self._origins.setdefault(argument.name, source)

    def leave_out(self, error: NoEffectError) -> bool:
        """Leave out the options of files in a conflict with typed ones.

        Returns:
            Whether there are any, so that the command can be called again.
        """
        name = option(error.name)
        others = [option(other) for other in error.condition.others if option(other) in self._origins]
        in_files = [other for other in others if self._origins[other]]
        if self._origins.get(name):
            if len(in_files) == len(others):
                return False
            in_files = [name]
        elif not error.condition.is_exclusive:
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
        while name not in settings:
            try:
                settings[name] = _checked_settings(commands, words)
            except UserError as error:
                if not (isinstance(error, NoEffectError) and files.leave_out(error)):
                    message = error.as_options()
                    place = "" if files.is_typed(message) else f"{where}: tasks.{name}: "
                    raise UserError(f"{place}{message}") from None
    return task, settings


def _content_of_file(path: Path, name: str) -> dict[str, Any]:
    """Return what a TOML file holds, for the option of this name."""
    data = read_bytes(path, advice=_ADVICE, max_bytes=_LARGEST)
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
