"""The exceptions that a user of the command line is meant to see."""

from __future__ import annotations

import re

_LONGEST = 1000  # characters of a message; a file that is wrong may have a line of millions


class UserError(Exception):
    """Bad input, said in one line: what is wrong, where (file and line), and what to do.

    The command line prints the message to standard error and exits with code 2; library callers catch it like
    any other exception. Settings are named as arguments in backquotes; the command line says them as its options. A
    message of more than 1,000 characters loses its middle.

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
        """Return the message with the settings named as options of the command line."""
        return as_options(str(self))


class SettingError(UserError, ValueError):
    """A setting that cannot be meant, or two that do not go together.

    A :class:`ValueError` too, so that what reads a file says where in it the setting stands.
    """


def as_options(text: str) -> str:
    """Return a text with the settings that it names in backquotes as options of the command line.

    Example:
        >>> as_options("longer than 3 tokens (`max_input`)")
        'longer than 3 tokens (--max-input)'
    """
    return re.sub("`([a-z_]+)`", lambda found: option(found[1]), text)


def option(name: str) -> str:
    """Return the option of the command line that a setting is given by.

    Example:
        >>> option("max_input")
        '--max-input'
    """
    return "--" + name.replace("_", "-")
