"""What the program says beside its output: one line at a time, on standard error."""

from __future__ import annotations

import sys


def say(message: str) -> None:
    """Write one line to standard error."""
    if sys.stderr is not None:  # where it is closed, `print` would take standard output
        print(" ".join(message.split("\n")), file=sys.stderr, flush=True)
