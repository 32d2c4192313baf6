"""What a user is told: errors, lines of the logger ``selfattn``, and texts made safe to show.

In a program, :mod:`logging` decides about the lines: ``logging.disable()`` silences them, handlers of the program get
them, and as long as the root logger has none, they go to standard error.
"""

import dataclasses
import logging
import re
import sys
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

# One character for one, so that positions stay: control characters become their pictures, and others that act on a
# terminal or change the direction of writing become U+FFFD.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_ACTING = (*range(0x80, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
_VISIBLE = _PICTURES | dict.fromkeys(_ACTING, 0xFFFD)
_LONGEST = 1000  # characters of a message; a file that is wrong may have a line of millions


class UserError(Exception):
    """Bad input, described in one line: what is wrong, where (file and line), and what to do.

    The command line prints the message to standard error and exits with code 2. Settings are named as arguments in
    backquotes, which the command line turns into options. A message of more than 1,000 characters loses its middle.

    Example:
        >>> raise UserError("runs/x/config.json: not found; is this a run directory?")
        Traceback (most recent call last):
        ...
        selfattn.errors.UserError: runs/x/config.json: not found; is this a run directory?
        >>> UserError("the pairs are endless: give `items_per_epoch`").as_options()
        'the pairs are endless: give --items-per-epoch'
    """

    def __init__(self, message: str) -> None:
        super().__init__(message if len(message) <= _LONGEST else f"{message[:700]} ... {message[-250:]}")

    def as_options(self) -> str:
        """Return the message with settings as options of the command line."""
        return as_options(str(self))


class SettingError(UserError, ValueError):
    """A setting is out of range, or contradicts another.

    Also a :class:`ValueError`, so that readers of files add the place.
    """


class DivergedError(UserError):
    """Numbers of a model or of its training are not finite."""


def describe_error(error: BaseException) -> str:
    """Describe an error of foreign code in one line: its class, and the first line of its text.

    Its backquotes become quotes, since :func:`as_options` would take them for settings of ours.

    Example:
        >>> describe_error(ValueError("no `width`"))
        "ValueError: no 'width'"
        >>> describe_error(KeyError("width")), describe_error(ValueError())
        ("KeyError: 'width'", 'ValueError')
        >>> class Mute(Exception):
        ...     def __str__(self):
        ...         raise RuntimeError
        >>> describe_error(Mute())
        'Mute: has a text that cannot be printed'
    """
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # of a foreign `__str__`
        lines = ["has a text that cannot be printed"]
    return ": ".join([type(error).__name__, *lines[:1]]).replace("`", "'")


def as_options(text: str) -> str:
    """Replace settings in backquotes by options of the command line.

    Example:
        >>> as_options("longer than 3 tokens (`max_input`)")
        'longer than 3 tokens (--max-input)'
    """
    return re.sub("`([a-z_]+)`", lambda name: option(name[1]), text)


def option(name: str) -> str:
    """Return the option of a setting on the command line.

    Example:
        >>> option("max_input")
        '--max-input'
    """
    return "--" + name.replace("_", "-")


def number_of(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is 1.

    Example:
        >>> number_of(1, "line"), number_of(1024, "line"), number_of(0, "data set")
        ('1 line', '1,024 lines', '0 data sets')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def visible(text: str) -> str:
    """Return a text without control characters and changes of the writing direction.

    Example:
        >>> visible("a\\x1b[2Jb\\u202ec")
        'a␛[2Jb�c'
    """
    return text.translate(_VISIBLE)


def all_visible(value: T) -> T:
    """Apply :func:`visible` to every text in dataclasses, mappings and tuples."""
    if isinstance(value, str):
        return visible(value)  # type: ignore[return-value]  # a text for a text
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {field.name: all_visible(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **changes)
    if isinstance(value, Mapping):
        return {all_visible(key): all_visible(item) for key, item in value.items()}  # type: ignore[return-value]  # so here
    if isinstance(value, tuple):
        return tuple(map(all_visible, value))  # type: ignore[return-value]  # and here
    return value


class LineHandler(logging.Handler):
    """Writes the lines of the package to standard error, unless the program has handlers of its own.

    Attributes:
        is_command_line: whether the command line runs, whose terminal this is. Default False.
    """

    is_command_line = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line to standard error as it is now, if it is open."""
        if sys.stderr is not None and (self.is_command_line or not logging.getLogger().handlers):
            print(record.getMessage(), file=sys.stderr, flush=True)


LINES = LineHandler()
_LOGGER = logging.getLogger("selfattn")
_LOGGER.addHandler(LINES)
_LOGGER.setLevel(logging.INFO)


def begin_command_line() -> None:
    """Let all lines go to standard error and nowhere else, and show bars, in this process."""
    LINES.is_command_line = True
    _LOGGER.propagate = False


def say(message: str) -> None:
    """Tell the user something in one line, by the logger ``selfattn``; see :class:`LineHandler`."""
    _LOGGER.info("%s", visible(" ".join(message.split("\n"))))
