"""The exceptions that a user of the command line is meant to see."""

from __future__ import annotations

import re


class UserError(Exception):
    """Bad input, said in one line: what is wrong, where (file and line), and what to do.

    The command line prints the message to standard error and exits with code 2; library callers catch it like
    any other exception.

    Example:
        >>> raise UserError("runs/x/config.json: not found; is this a run directory?")
        Traceback (most recent call last):
        ...
        selfattn.errors.UserError: runs/x/config.json: not found; is this a run directory?
    """


class SettingError(UserError, ValueError):
    """A setting that cannot be meant, or two that do not go together.

    The message names settings as arguments in backquotes; the command line says them as its options.

    Example:
        >>> error = SettingError("the pairs are endless: give `items_per_epoch`")
        >>> error.as_options()
        'the pairs are endless: give --items-per-epoch'
    """

    def as_options(self) -> str:
        """Return the message with the settings named as options of the command line."""
        return re.sub("`([a-z_]+)`", lambda found: "--" + found[1].replace("_", "-"), str(self))
