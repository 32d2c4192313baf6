"""What the environment, ``torchrun`` above all, says to a process of a training. Loads no torch."""

from __future__ import annotations

import os

from selfattn.errors import UserError


def is_main_process() -> bool:
    """Say whether this process is the one that writes files and speaks: the first, or the only one."""
    return _environment("RANK", 0) == 0


def process_count() -> int:
    """Return how many processes ``torchrun`` started, this one among them."""
    return _environment("WORLD_SIZE", 1)


def _environment(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise UserError(f"{name}={text}: expected a whole number, as torchrun sets it; unset it") from None
