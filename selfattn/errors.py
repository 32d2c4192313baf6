"""Exceptions that the command line shows to the user."""

from __future__ import annotations

import re

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
