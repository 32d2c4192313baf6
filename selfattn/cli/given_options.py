"""How pairs are given to a command: the options that all commands share. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from selfattn.errors import UserError

GivenFiles = Annotated[tuple[Path, ...], Parameter(consume_multiple=True, negative="")]
"""Two parallel files, or one file of pairs; to be read by `selfattn.data.readers.pair_files.read_pairs`."""


def chosen_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Check what was given with --columns.

    Args:
        names: of the source's and of the target's column; none where nothing was given.

    Raises:
        UserError: they are not two, or the same.

    Example:
        >>> chosen_columns(("en", "de")), chosen_columns(())
        (('en', 'de'), None)
    """
    if not names:
        return None
    given = ",".join(names)
    if len(names) != 2:
        raise UserError(f"--columns {given}: expected two, of the source and of the target, such as en,de")
    if names[0] == names[1]:
        raise UserError(f"--columns {given}: source and target are the same column; name two")
    return names[0], names[1]
