"""What every command of the command line has in common: how it is made, and how its errors are printed.

Bad input is one line on standard error and exit code 2; an interrupt is one line and exit code 130; anything
unexpected keeps its traceback. The text of an error is written where it is raised. Imports no torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from selfattn import __version__
from selfattn.console import say
from selfattn.errors import UserError, as_options

_NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "storage size calculation overflowed")
BAD_INPUT, BROKEN_PIPE, INTERRUPTED = 2, 128 + 13, 128 + 2


def make_app(name: str, *, help: str) -> App:
    """Make a program, or a group of commands, whose errors :func:`run_app` can print in one line.

    Args:
        name: the word that calls it.
        help: what it is for; of a group, one line for the list of commands.
    """
    return App(
        name=name,
        help=help,
        version=__version__,
        default_parameter=Parameter(negative=(), show_default=_default_text),
        help_format="plaintext",
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )


def run_app(app: App, arguments: Sequence[str] | None = None) -> None:
    """Run a program; on an error or an interrupt, print one line and exit.

    The message of a `KeyboardInterrupt`, if it has one, says what was kept.

    Args:
        app: made by :func:`make_app`.
        arguments: default those of this process.

    Raises:
        SystemExit: 2 for bad input, 130 for an interrupt, 141 when nobody reads the output any more.
    """
    try:
        app(arguments)
        _flush()  # here, where a broken pipe can still be caught
    except UnusedCliTokensError as error:
        surplus = " ".join(error.unused_tokens or ())
        fail(f"{surplus}: belongs to no option; names in a list are separated by commas, as in a,b")
    except CycloptsError as error:
        fail(str(error))
    except UserError as error:
        with suppress(UserError, BrokenPipeError):  # the output goes before the error, and must not hide it
            _flush()
        fail(error.as_options())
    except KeyboardInterrupt as interrupt:
        say(f"interrupted; {interrupt}" if str(interrupt) else "interrupted")
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _drop_output()
        raise SystemExit(BROKEN_PIPE) from None
    except (OSError, MemoryError, RuntimeError) as error:
        reason = _refusal(error)
        if reason is None:
            raise
        fail(as_options(reason))


def _refusal(error: Exception) -> str | None:
    """Say what the machine refused, in one line; None where it is a fault of the program.

    Example:
        >>> _refusal(PermissionError(13, "Permission denied", "runs/a"))
        'runs/a: permission denied; check its permissions and the room on its disk'
    """
    if isinstance(error, OSError):
        reason = (error.strerror or "").lower()
        return f"{error.filename}: {reason}; check its permissions and the room on its disk" if error.filename else None
    # PyTorch has no class of its own for what a CPU's memory does not hold.
    if isinstance(error, MemoryError) or any(words in str(error).lower() for words in _NO_MEMORY):
        return "out of memory; take smaller batches (`batch_size`, `max_tokens`), shorter texts or a smaller model"
    return None


def _flush() -> None:
    """Flush standard output.

    Raises:
        BrokenPipeError: nobody reads it any more.
        UserError: it cannot be written, such as on a full disk.
    """
    if sys.stdout is None:  # closed by whoever started this
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        _drop_output()
        if isinstance(error, BrokenPipeError):
            raise
        raise UserError(f"standard output: cannot be written ({error.strerror}); make room and try again") from None


def _drop_output() -> None:
    """Let what is still to be written to standard output go nowhere.

    The interpreter flushes it once more on its way out, and would complain that it cannot.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _default_text(value: Any) -> str | None:
    """Write a default as the user would type it; say nothing of flags and empty lists."""
    if isinstance(value, bool) or value in ((), None):
        return None
    return ",".join(value) if isinstance(value, tuple) else str(value)


def fail(message: str) -> None:
    """Print an error on standard error and exit with code 2.

    Raises:
        SystemExit: always.
    """
    say(f"error: {message}")
    raise SystemExit(BAD_INPUT) from None
