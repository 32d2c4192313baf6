"""Plain texts from files, one a line."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from selfattn.data.readers.pair_files import read_lines
from selfattn.errors import UserError


@dataclass(frozen=True)
class Texts:
    """The texts of a file.

    Attributes:
        lines: those with something in them, in their order.
        empty: how many lines had nothing or only spaces in them.
    """

    lines: list[str]
    empty: int


def read_texts(path: str | os.PathLike[str]) -> Texts:
    """Read a file with one text a line.

    A name that ends in ``.gz`` is unpacked first. Lines end with ``\\n`` or ``\\r\\n`` and nothing else; the text is
    UTF-8, and put into Unicode's form NFC, as every input of a model is. Lines with nothing or only spaces in them are
    left out and counted.

    Args:
        path: the file.

    Raises:
        UserError: the file is missing, a directory, damaged, or has no text in it.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "text.txt")
        ...     _ = path.write_text("To be,\\n\\nor not to be\\n")
        ...     read_texts(path)
        Texts(lines=['To be,', 'or not to be'], empty=1)
    """
    path = Path(path)
    rows = read_lines(path, "give at least one line of text")
    lines = [unicodedata.normalize("NFC", row) for row in rows if row.strip()]
    if not lines:
        raise UserError(f"{path}: only spaces in it; give at least one line of text")
    return Texts(lines, len(rows) - len(lines))
