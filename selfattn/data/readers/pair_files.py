"""Pairs from files without cleaning: a broken line is an error."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from selfattn.data.pairs import Pair
from selfattn.data.readers.records import BadRecord, RawPair, file_records, format_of
from selfattn.errors import SettingError, UserError

_ADVICE = "mend the line, or take it out"


def read_pairs(*paths: str | os.PathLike[str], columns: tuple[str, str] | None = None) -> list[Pair]:
    """Read pairs of texts without cleaning. A broken line is an error.

    Args:
        paths: two parallel files, source and target, or one file of pairs: TSV, CSV, JSON lines or the book's, plain or
            .gz; see `file_records`. Lines end with ``\\n`` or ``\\r\\n`` and nothing else; the
            text is UTF-8, and put into Unicode's form NFC, as every input of a model is.
        columns: of source and target in one file, by name or by number from 1; default: source and target in CSV and
            JSON lines, 1 and 2 in TSV.

    Returns:
        The pairs in the order of the files, without tags.

    Raises:
        UserError: there are neither one nor two files; a file is missing, a directory, empty or damaged; or a line is
            not a pair with text on both sides. The message names the file and the line.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "date.txt")
        ...     _ = path.write_text("2/10/93   _1993-02-10\\n")
        ...     read_pairs(path)
        [Pair(source='2/10/93', target='1993-02-10', tag='', spans=())]
    """
    if len(paths) not in (1, 2):
        raise SettingError(f"`data`: expected two parallel files or one file of pairs, got {len(paths)}")
    if len(paths) == 2 and columns is not None:
        raise SettingError("`columns` is for one file of pairs, two parallel files have none; leave it out")
    files = tuple(map(Path, paths))
    named = ", ".join(map(str, files))
    pairs = []
    for row in file_records(files, columns):
        problem = f"{row.reason}; {_ADVICE}" if isinstance(row, BadRecord) else _problem(row)
        if isinstance(row, BadRecord) or problem:
            raise UserError(f"{named}:{row.line}: {problem}")
        pairs.append(Pair(unicodedata.normalize("NFC", row.source), unicodedata.normalize("NFC", row.target)))
    if not pairs:
        raise UserError(f"{named}: no pairs in it; give at least one")
    return pairs


def _problem(row: RawPair) -> str:
    """Return what is wrong with a row and what to do; empty for a good pair."""
    for side, text in (("source", row.source), ("target", row.target)):
        try:
            text.encode()
        except UnicodeEncodeError:
            return f"not valid UTF-8 in the {side}; save the file as UTF-8"
        if not text.strip():
            return f"the {side} is empty; {_ADVICE}"
    return ""


def is_book_file(*paths: str | os.PathLike[str]) -> bool:
    """Return whether the files are the book's file, which has its own split.

    Raises:
        UserError: the file is missing, a directory, empty or damaged.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "date.txt")
        ...     _ = path.write_text("2/10/93   _1993-02-10\\n")
        ...     is_book_file(path)
        True
    """
    return len(paths) == 1 and format_of(Path(paths[0])) == "book"


def chosen_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the names of two columns, checked.

    Args:
        names: of the source's and of the target's column; none where nothing was given.

    Raises:
        SettingError: they are not two, or the same.

    Example:
        >>> chosen_columns(("en", "de")), chosen_columns(())
        (('en', 'de'), None)
    """
    if not names:
        return None
    given = ",".join(names)
    if len(names) != 2:
        raise SettingError(f"`columns` {given}: expected two, of the source and of the target, such as en,de")
    if names[0] == names[1]:
        raise SettingError(f"`columns` {given}: source and target are the same column; name two")
    return names[0], names[1]
