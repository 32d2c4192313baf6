"""Files that are there whole or not at all, and errors that name them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selfattn.errors import UserError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file beside ``path``, then move it into place: readers see the old file or the new one.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_atomically(Path(folder, "x"), lambda path: path.write_text("whole"))
        ...     Path(folder, "x").read_text()
        'whole'
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb"):
            mode = temporary.stat().st_mode
        write(temporary)
        temporary.chmod(mode)  # safetensors makes files that nobody else can read
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, data: Any) -> None:
    """Write JSON for people to read, atomically; NaN and infinity are refused."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_atomically(path, write)


def read_json(path: Path, advice: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        UserError: the file cannot be read or is not a JSON object; with `advice` behind.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; {advice}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); {advice}") from None
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error}); {advice}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: expected a JSON object; {advice}")
    return data
