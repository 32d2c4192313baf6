"""What the environment, above all ``torchrun``, tells a process of a training. Imports no torch."""

import os

from selfattn.errors import UserError

_NEEDED = ("RANK", "MASTER_ADDR", "MASTER_PORT")  # beside WORLD_SIZE


def is_main_process() -> bool:
    """Say whether this process writes files and messages: the first, or the only one."""
    return launched()[0] == 0


def process_count() -> int:
    """Return the number of processes that ``torchrun`` started."""
    return launched()[1]


def launched() -> tuple[int, int]:
    """Return the number of this process, counted from 0, and how many train together.

    ``WORLD_SIZE`` decides: without it, this process is the only one, whatever ``RANK`` says, which other programs set
    too.

    Raises:
        UserError: the variables are incomplete or contradict each other.
    """
    count = _number("WORLD_SIZE", 1)
    if count == 1 and not os.environ.get("WORLD_SIZE"):
        return 0, 1
    rank = _number("RANK", 0)
    if not 0 <= rank < count:
        raise UserError(f"RANK={rank} with WORLD_SIZE={count}: torchrun counts from 0 to {count - 1}; unset both")
    missing = [name for name in _NEEDED if not os.environ.get(name)]
    if count > 1 and missing:
        names = " and ".join(missing)
        raise UserError(f"WORLD_SIZE={count} without {names}: start the processes with torchrun, or unset WORLD_SIZE")
    return rank, count


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    try:
        return int(text or default)
    except ValueError:
        raise UserError(f"{name}={text}: expected a whole number, as torchrun sets it; unset it") from None
