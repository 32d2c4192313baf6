"""Files of a tokenizer: written whole or not at all, read with errors that name them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from selfattn.errors import UserError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file aside and move it into place, so that a run killed meanwhile leaves no half a file.

    Args:
        path: the file; its folder is made where there is none.
        content: all of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        aside.write_bytes(content)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def read_whole(path: Path) -> bytes:
    """Read a file.

    Raises:
        UserError: it is missing or cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); is this the tokenizer of a run?") from None


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UserError: it is missing, cannot be read, or is not JSON.
    """
    content = read_whole(path)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested without end
        raise UserError(f"{path}: not valid JSON; restore the file or train again") from None
