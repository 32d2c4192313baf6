"""The command line. Each command is a function of the library with its settings from a typed dataclass.

Nothing imports torch before a command needs it, so that help is fast. Bad input gives one line on standard error and
exit code 2, an interrupt one line and exit code 130. Unexpected errors keep their traceback.
"""

import errno
import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, MissingArgumentError, UnknownCommandError, UnusedCliTokensError

from selfattn.cli.config import OptionFiles, read_config, write_config
from selfattn.cli.options import LISTS, BasicHelp, make_app
from selfattn.errors import UserError, as_options, begin_command_line, say, visible
from selfattn.files import writing
from selfattn.registry import TASKS, load_installed, load_plugin
from selfattn.settings import NoEffectError

_NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "storage size calculation overflowed")
BAD_INPUT = 2
BROKEN_PIPE = 128 + 13
INTERRUPTED = 128 + 2
_ANYWHERE = {
    "--plugin": "a Python file, or a module by its dotted name",
    "--config": "a run, or a TOML file",
    "--write-config": "a file that ends in .toml",
}
_HELP = (
    "Train, inspect and compare attention models. A run is the directory of a trained model.\n\n"
    "Three options may stand anywhere on the command line. --plugin FILE_OR_MODULE loads a plugin with scores, "
    "positions, models, tasks, metrics, report sections or claims; it may be repeated. --config FILE reads options "
    "from a TOML file, and --config RUN reads those of an earlier training. Options on the command line override "
    "them; an option of the file that has no effect beside those is left out. --write-config FILE writes the options "
    "of train or compare to a TOML file and does nothing else."
)
_GROUPS = {
    "compare": "Train several models on the same data and compare them.",
    "train": "Train one model.",
    "tokenizer": "Train or inspect a tokenizer.",
    "claims": "Test what textbooks say about attention. Each claim is an experiment with a verdict.\n\n"
    "Without a command, list the claims.",
}

# Where the functions are; each is imported when its command is called or listed.
_COMMANDS = (
    "runs:report",
    "runs:verify",
    "decoding:evaluate",
    "predict:predict",
    "decoding:score",
    "decoding:align",
    "decoding:attention",
    "runs:demo",
    "runs:average",
    "runs:export",
    "runs:push",
    "runs:models",
    "decoding:heads",
)


def make_commands(arguments: Sequence[str] = (), everything: bool = False) -> App:
    """Make the program. Only what the arguments name is imported, which saves time.

    Args:
        arguments: those of the call.
        everything: show all options in help, not only the basic ones.
    """
    app = make_app("selfattn", help=_HELP)
    app.help_formatter = BasicHelp(everything)
    if everything:
        app.help_epilogue = f"Anywhere: {', '.join(_ANYWHERE)}; see selfattn --help."
    groups = {name: make_app(name, help=help) for name, help in _GROUPS.items()}
    for command in ("tokenizer:train", "tokenizer:inspect", "claims:run", "claims:new", "claims:page"):
        groups[command.partition(":")[0]].command(f"selfattn.cli.{command}")
    named = next((word for word in arguments if not word.startswith("-")), "")
    if named == "claims":
        from selfattn.cli.claims import list_claims

        groups[named].default(list_claims)
    elif named in ("train", "compare"):
        from selfattn.cli.tasks import add_tasks

        add_tasks(groups[named], arguments, make_commands)
    for part in groups.values():
        app.command(part)
    for command in _COMMANDS:
        app.command(f"selfattn.cli.{command}")
    if not any(command.endswith(f":{named}") for command in _COMMANDS):
        groups.get(named, app).resolved_commands()  # for the list of them in the help
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; on an error or an interrupt, print one line and exit.

    The message of a `KeyboardInterrupt`, if there is one, says what was saved.

    Args:
        arguments: default those of this process.

    Raises:
        SystemExit: 2 for bad input, 130 for an interrupt, 141 for a closed pipe.
    """
    begin_command_line()
    # For bfloat16, oneDNN compiles a kernel per batch shape and keeps 1,024 of them: gigabytes for texts of many
    # lengths. It reads this variable once, at the first operation of the process.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")
    if not os.environ.get("COLUMNS", "1").strip("0"):  # a terminal without a size says 0
        del os.environ["COLUMNS"]
    if sys.stdout is None:
        fail("standard output is closed; leave it open, or redirect it to a file")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # as `predict` does, on every system
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")
    files = OptionFiles([])
    try:
        anywhere, rest = split_options(sys.argv[1:] if arguments is None else arguments)
        for plugin in anywhere["--plugin"]:
            load_plugin(plugin)
        load_installed()  # now, so that each command says which of them is broken
        if everything := "--help-all" in rest:
            rest = ["--help" if word == "--help-all" else word for word in rest]
        commands = make_commands(rest, everything)
        configs = [Path(config) for config in reversed(anywhere["--config"])]  # the last one replaces the others
        files = OptionFiles(read_config(config, rest[:2]) for config in configs)
        commands.config = [files]
        written = anywhere["--write-config"]
        call = partial(write_config, Path(written[-1]), commands, rest) if written else partial(commands, rest)
        while True:
            try:
                result = call()
                break
            except NoEffectError as error:
                if not files.leave_out(error):
                    raise
        if result is not None:
            _print(result)
        _flush()  # a broken pipe can still be caught here
    except UnusedCliTokensError as error:
        fail(_surplus(list(error.unused_tokens or ()), rest))
    except UnknownCommandError as error:
        unknown = error.unused_tokens[0] if error.unused_tokens else ""
        fail(as_options(TASKS.unknown(unknown)) if rest[0] in ("train", "compare") else str(error))
    except MissingArgumentError as error:
        missing = error.argument.name if error.argument else ""
        command = " ".join(error.command_chain or ())
        fail(f"{missing}: is missing, or has no value; see selfattn {command} --help")
    except CycloptsError as error:
        fail(str(error))
    except UserError as error:
        fail(files.named(error.as_options()))
    except KeyboardInterrupt as interrupt:
        say(as_options(f"interrupted; {interrupt}") if str(interrupt) else "interrupted")
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich has caught it
            raise SystemExit(BROKEN_PIPE) from None
        raise
    except BrokenPipeError:
        _drop_output()
        raise SystemExit(BROKEN_PIPE) from None
    except (OSError, MemoryError, RuntimeError) as error:
        reason = _refusal(error)
        if reason is None:
            raise
        fail(as_options(reason))


def _surplus(words: Sequence[str], arguments: Sequence[str]) -> str:
    """Say what is wrong with words that belong to no option, and what to do.

    Example:
        >>> _surplus(["b"], ["compare", "dates", "--models", "a", "b"])
        'b: belongs to no option; --models takes a list with commas, as in a,b'
        >>> _surplus(["1", "2"], ["train", "translation", "--seed", "1", "--columns", "0", "1", "2"])
        '1 2: belongs to no option; --columns takes a list with commas, as in 0,1,2'
        >>> _surplus(["b"], ["predict", "run", "--beam", "5", "b"])
        'b: belongs to no option; see selfattn predict --help'
        >>> _surplus(["list"], ["claims", "list"])
        'list: belongs to no option; see selfattn claims --help'
    """
    make_commands(arguments)  # so that the lists among the options of this command are known
    # The value of another option may be the same word.
    places = [place for place, word in enumerate(arguments) if word == words[0]]
    place = next((place for place in places if not arguments[place - 1].startswith("--")), 0)
    in_group = arguments[0] in _GROUPS and place != 1
    before = arguments[place - 2] if place >= 2 else ""
    name = before.removeprefix("--").replace("-", "_")
    advice = f"see selfattn {' '.join(arguments[: 2 if in_group else 1])} --help"
    if before == "--set":
        advice = f"every setting has its own --set, as in --set {arguments[place - 1]} --set {words[0]}"
    elif before.startswith("--") and name in LISTS:
        advice = f"{before} takes a list with commas, as in {','.join([arguments[place - 1], *words])}"
    return f"{' '.join(words)}: belongs to no option; {advice}"


def split_options(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Take the options that may stand anywhere out of a command line, and return their values and the rest.

    Raises:
        UserError: a value is missing; the message says what is expected.

    Example:
        >>> split_options(["--plugin", "a.py", "train", "dates", "--plugin=b", "--quick"])
        ({'--plugin': ['a.py', 'b'], '--config': [], '--write-config': []}, ['train', 'dates', '--quick'])
    """
    values: dict[str, list[str]] = {name: [] for name in _ANYWHERE}
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            return values, [*rest, word, *words]
        if name not in values:
            rest.append(word)
            continue
        value = value if equals else next(words, "")
        if not value or value.startswith("-"):
            raise UserError(f"{name}: expected {_ANYWHERE[name]}")
        values[name].append(value)
    return values, rest


def _refusal(error: Exception) -> str | None:
    """Describe what the operating system refused, in one line; return None for other errors.

    Example:
        >>> _refusal(PermissionError(13, "Permission denied", "runs/a"))
        'runs/a: permission denied; check its permissions and the free space on its disk'
    """
    if isinstance(error, OSError):
        reason = (error.strerror or "").lower()
        if error.filename:
            return f"{error.filename}: {reason}; check its permissions and the free space on its disk"
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return f"standard output: {reason}; free some space and try again" if is_full else None
    # PyTorch has no exception class for a CPU that runs out of memory.
    if isinstance(error, MemoryError) or any(words in str(error).lower() for words in _NO_MEMORY):
        return "out of memory; take smaller batches (`batch_size`, `max_tokens`), shorter texts or a smaller model"
    return None


def _print(result: str | dict[str, Any] | Iterable[str]) -> None:
    """Print what a command returned: a text, one JSON object, or lines; control characters are shown on a terminal."""
    if isinstance(result, dict):
        result = json.dumps(result, indent=2, ensure_ascii=False)
    text = result if isinstance(result, str) else "\n".join(result)
    print(visible(text) if sys.stdout.isatty() else text)


def _flush() -> None:
    """Flush standard output.

    Raises:
        BrokenPipeError: the reader closed the pipe.
        UserError: it cannot be written, such as on a full disk.
    """
    try:
        with writing("standard output", "free some space and try again"):
            print(end="", flush=True)  # nothing where standard output is closed
    except (BrokenPipeError, UserError):
        _drop_output()
        raise


def _drop_output() -> None:
    """Discard what is left for standard output, so that the interpreter's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str) -> None:
    """Print an error on standard error, after the output, and exit with code 2.

    Raises:
        SystemExit: always.
    """
    with suppress(UserError, BrokenPipeError):
        _flush()
    say(f"error: {UserError(message)}")  # which cuts a long message
    raise SystemExit(BAD_INPUT) from None


if __name__ == "__main__":
    main()
