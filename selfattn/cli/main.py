"""The command line. Each command is a function of the library with its settings from a typed dataclass.

Nothing that needs torch is imported before a command that needs it runs, so that help comes at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App

from selfattn.cli.app import INTERRUPTED, fail, make_app, run_app
from selfattn.cli.runs import COMMANDS
from selfattn.cli.tasks import compare_command, mention, train_command
from selfattn.cli.tokenizer_commands import inspect, train
from selfattn.console import say
from selfattn.errors import UserError
from selfattn.registry import TASKS, load_plugin
from selfattn.runs.task import Task

_PLUGIN = "--plugin"
_HELP = (
    "Build, train, look inside and compare attention models.\n\n"
    "Parts of your own (scores, positions, models, tasks, metrics, sections) come in with --plugin FILE_OR_MODULE, "
    "which may stand anywhere on the line and be given several times."
)


def make_commands(arguments: Sequence[str] = ()) -> App:
    """Make the program, with the commands of every task that is known by now.

    Args:
        arguments: those that it is going to be run with; of the tasks' commands only the one that is called gets its
            options, so that no other waits for them.
    """
    app = make_app("selfattn", help=_HELP)
    comparing = make_app(
        "compare", help="Train several models on the same data and set them side by side: the main job."
    )
    training = make_app("train", help="Train one model.")
    tokenizer = make_app("tokenizer", help="Train a tokenizer, or look at one.")
    for part in (comparing, training, tokenizer):
        app.command(part)
    for name in TASKS:
        task: type[Task] = TASKS[name]
        for group, make, help in (
            (training, train_command, task.train_help),
            (comparing, compare_command, task.compare_help),
        ):
            if group is training or task.takes_pairs:
                called = list(arguments[:2]) == [*group.name, name]
                group.command(make(task) if called else mention(help or task.__doc__), name=name)
    tokenizer.command(train)
    tokenizer.command(inspect)
    for command in COMMANDS:
        app.command(command)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Args:
        arguments: default those of this process.

    Raises:
        SystemExit: see :func:`selfattn.cli.app.run_app`.
    """
    # In bfloat16 a CPU compiles a kernel for every shape of a batch, and oneDNN keeps the last 1,024 of them: gigabytes
    # for texts of many lengths, which hardly ever meet again. It is read once, at the first operation of the process.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")
    try:
        plugins, rest = split_plugins(sys.argv[1:] if arguments is None else arguments)
        for plugin in plugins:
            load_plugin(plugin)
        app = make_commands(rest)
    except UserError as error:
        fail(error.as_options())
    except KeyboardInterrupt:
        say("interrupted")
        raise SystemExit(INTERRUPTED) from None
    run_app(app, rest)


def split_plugins(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take the plugins out of a command line, wherever they stand.

    Raises:
        UserError: a plugin is not named.

    Example:
        >>> split_plugins(["--plugin", "a.py", "train", "dates", "--plugin=b", "--quick"])
        (['a.py', 'b'], ['train', 'dates', '--quick'])
    """
    plugins: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            return plugins, [*rest, word, *words]
        if name != _PLUGIN:
            rest.append(word)
            continue
        value = value if equals else next(words, "")
        if not value or value.startswith("-"):
            raise UserError("--plugin: expected a Python file, or a module by its dotted name")
        plugins.append(value)
    return plugins, rest


if __name__ == "__main__":
    main()
