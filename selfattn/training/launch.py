"""What the environment, above all ``torchrun``, tells a process of a training. Imports no torch."""

import os

from selfattn.errors import UserError


def is_main_process() -> bool:
    """Say whether this process writes files and messages: the first, or the only one."""
    return _environment("RANK", 0) == 0


def process_count() -> int:
    """Return the number of processes that ``torchrun`` started."""
    return _environment("WORLD_SIZE", 1)


def _environment(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    try:
        return int(text or default)
    except ValueError:
        raise UserError(f"{name}={text}: expected a whole number, as torchrun sets it; unset it") from None
