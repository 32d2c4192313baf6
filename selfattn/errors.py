"""The one exception that a user of the command line is meant to see."""

from __future__ import annotations


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
