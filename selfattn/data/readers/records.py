"""Records of files of pairs, one after the other: two parallel files, TSV, CSV, JSON lines, the book's; plain or .gz.

Every command reads pairs with this: those that clean a corpus count what is wrong (`cleaning`), those for
which every line counts refuse it (`selfattn.data.readers.pair_files.read_pairs`).

Nothing but the record at hand is in memory. What cannot be read as a pair is handed on as a `BadRecord`, to be counted.
Bytes that are not UTF-8 come through as lone surrogates (``surrogateescape``): cleaning finds them in the texts that
are used, and a bad byte in a column that is not used harms nobody.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from selfattn.codec import parse
from selfattn.data.readers.lines import count_lines, lines_of
from selfattn.errors import SettingError, UserError

FileFormat = Literal["tsv", "csv", "jsonl", "book"]
_SUFFIXES: dict[str, FileFormat] = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_NAMES = 12  # columns that an error names
_HEAD = 100  # lines that decide how many columns a TSV file has


@dataclass(frozen=True, slots=True)
class RawPair:
    """A pair as read from a file.

    Attributes:
        line: its line or row, from 1.
        source: the text of the source, not cleaned.
        target: the text of the target.
    """

    line: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is no pair.

    Attributes:
        line: its first line or row, from 1.
        reason: what is wrong.
        lines: how many lines it takes up (an open quote in a CSV file swallows several).
    """

    line: int
    reason: str
    lines: int = 1


def file_records(paths: tuple[Path, ...], columns: tuple[str, str] | None = None) -> Iterator[RawPair | BadRecord]:
    """Read the records of two parallel files, or of one file with both sides.

    The format of one file follows its name or else its first line; see `format_of`.

    - Parallel files: line n of the one and line n of the other.
    - TSV: nothing is quoted. The first two columns, unless others are chosen; further columns are ignored, but each
      line must have as many as most of the first 100 lines have.
    - CSV: quoted as usual; the first record names the columns.
    - JSON lines: an object a line, with the texts at the top or within ``"translation"``.
    - The book's file (Saito, *Deep Learning from Scratch 2*): the input padded with spaces, ``_``, the target. The
      padding is taken off. The last ``_`` of a line counts.

    Args:
        paths: one file, or the file of the sources and the file of the targets.
        columns: names of the source's and the target's column, or (TSV, CSV) their numbers from 1, such as
            ``("2", "3")``; with names, the first record of a TSV or CSV file names the columns, with numbers it is a
            pair already. Default: numbers 1 and 2 for TSV, the names source and target for CSV and JSON lines.

    Raises:
        UserError: a file is missing, damaged, empty or not text; parallel files differ in length (both counts are
            told); the format cannot be told; a chosen column is not there, or the format has none to choose.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.tsv")
        ...     _ = path.write_text("Go.\\tVa !\\tby a friend\\nNo tab\\n")
        ...     list(file_records((path,)))
        [RawPair(line=1, source='Go.', target='Va !'), BadRecord(line=2, reason='1 column(s), not 3', lines=1)]
    """
    if len(paths) == 2:
        return _parallel(*paths)
    (path,) = paths
    match format_of(path):
        case "jsonl":
            return _json_lines(path, columns or ("source", "target"))
        case "csv":
            return _table(path, _csv_rows(path), columns or ("source", "target"))
        case "tsv":
            return _tsv(path, columns or ("1", "2"))
        case "book" if columns is None:
            return _book(path)
        case "book":
            raise SettingError(f"{path}: input_target, which has no columns to choose; leave `columns` out")
    raise UserError(
        f"{path}: neither TSV, CSV, JSON lines nor input_target; name it .tsv, .csv or .jsonl, or give two files, "
        "source and target"
    )


def format_of(path: Path) -> FileFormat | None:
    """Return the format of a file of pairs.

    It follows the file's name (``.tsv``, ``.csv``, ``.jsonl``, ``.ndjson``; ``.gz`` may stand behind it), or else its
    first line: ``{`` begins JSON lines, a tab stands in TSV, an ``_`` in the book's file.

    Returns:
        The format; None where neither tells, such as of one of two parallel files.

    Raises:
        UserError: the file is missing, damaged or empty.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "date.txt")
        ...     _ = path.write_text("2/10/93   _1993-02-10\\n")
        ...     format_of(path)
        'book'
    """
    first = next(lines_of(path), b"")
    name = path.with_suffix("") if path.suffix == ".gz" else path
    if name.suffix in _SUFFIXES:
        return _SUFFIXES[name.suffix]
    if first.lstrip()[:1] == b"{":
        return "jsonl"
    if b"\t" in first:
        return "tsv"
    return "book" if b"_" in first else None


def pair_of(line: int, record: Mapping[str, Any], columns: tuple[str, str]) -> RawPair | BadRecord:
    """Return the two texts of a record, from flat columns or a nested ``translation``. None becomes empty.

    Example:
        >>> pair_of(1, {"translation": {"en": "Go.", "ko": "가."}}, ("en", "ko"))
        RawPair(line=1, source='Go.', target='가.')
    """
    texts = _level(record, columns)
    if texts is None:
        return BadRecord(line, f"no {columns[0]!r} and {columns[1]!r}")
    source, target = ("" if texts[column] is None else texts[column] for column in columns)
    if not isinstance(source, str) or not isinstance(target, str):
        return BadRecord(line, "not two texts")
    return RawPair(line, source, target)


def has_columns(record: Mapping[str, Any], columns: tuple[str, str]) -> bool:
    """Return whether a record has both columns, both flat or both in a nested ``translation``.

    Example:
        >>> has_columns({"en": "Go.", "translation": {"ko": "가."}}, ("en", "ko"))
        False
    """
    return _level(record, columns) is not None


def columns_of(record: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns, including the keys of a nested ``translation``.

    Example:
        >>> columns_of({"id": 1, "translation": {"en": "Go.", "ko": "가."}})
        ['id', 'en', 'ko']
    """
    nested = record.get("translation")
    names = [name for name in record if not (name == "translation" and isinstance(nested, Mapping))]
    return names + (list(nested) if isinstance(nested, Mapping) else [])


def _level(record: Mapping[str, Any], columns: tuple[str, str]) -> Mapping[str, Any] | None:
    for level in (record, record.get("translation")):
        if isinstance(level, Mapping) and all(column in level for column in columns):
            return level
    return None


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _parallel(source: Path, target: Path) -> Iterator[RawPair | BadRecord]:
    counts = count_lines(source), count_lines(target)
    if counts[0] != counts[1]:
        raise UserError(
            f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}; parallel files need the same number, "
            "line n of the one the translation of line n of the other"
        )
    for number, (left, right) in enumerate(zip(lines_of(source), lines_of(target), strict=True), 1):
        yield RawPair(number, _text(left), _text(right))


def _tsv(path: Path, columns: tuple[str, str]) -> Iterator[RawPair | BadRecord]:
    # Where numbers choose, most lines tell how many columns there are; blank ones tell nothing.
    head = (line.split(b"\t") for line in islice(lines_of(path), _HEAD) if line)
    usual = Counter(map(len, head)).most_common(1)
    rows = ((number, _text(line).split("\t") if line else []) for number, line in enumerate(lines_of(path), 1))
    return _table(path, rows, columns, usual[0][0] if usual else None)


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str] | BadRecord]]:
    # A line feed is put back behind each line, for texts in quotes may have line feeds in them. Strict: what is
    # quoted wrongly is broken, where the lenient reader would hand on some other text.
    reader = csv.reader((_text(line) + "\n" for line in lines_of(path)), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, BadRecord(line, str(error), reader.line_num - line + 1)


def _table(
    path: Path,
    rows: Iterable[tuple[int, list[str] | BadRecord]],
    columns: tuple[str, str],
    width: int | None = None,
) -> Iterator[RawPair | BadRecord]:
    """Take two columns out of rows of cells; a blank row has none, and the first that is not blank may name them."""
    named = not all(column.isdecimal() and int(column) > 0 for column in columns)
    places = None if named or width is None else _places(path, columns, None, width)
    for line, row in rows:
        if isinstance(row, BadRecord):
            yield row
            continue
        if not row:
            yield RawPair(line, "", "")
            continue
        if places is None:
            width = len(row)
            places = _places(path, columns, row if named else None, width)
            if named:
                continue
        if len(row) != width:
            yield BadRecord(line, f"{len(row)} column(s), not {width}")
        else:
            yield RawPair(line, row[places[0]], row[places[1]])


def _json_lines(path: Path, columns: tuple[str, str]) -> Iterator[RawPair | BadRecord]:
    known = False
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            yield RawPair(number, "", "")
            continue
        try:
            record = parse(_text(line).encode())
        except ValueError as error:
            problem = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
            yield BadRecord(number, f"not valid JSON ({problem})")
            continue
        if not isinstance(record, dict):
            yield BadRecord(number, "not a JSON object")
            continue
        if not known and not has_columns(record, columns):
            raise SettingError(missing_columns(f"{path}:{number}", columns, columns_of(record)))
        known = True
        yield pair_of(number, record, columns)


def _book(path: Path) -> Iterator[RawPair | BadRecord]:
    for number, line in enumerate(lines_of(path), 1):
        source, separator, target = _text(line).rpartition("_")
        if separator or not line.strip():
            yield RawPair(number, source.rstrip(" "), target.rstrip(" "))
        else:
            yield BadRecord(number, "no separator (_) between input and target")


def missing_columns(where: str, columns: tuple[str, str], there: list[str]) -> str:
    """Return the error message for missing columns.

    Example:
        >>> missing_columns("x.csv", ("source", "target"), ["en", "ko"])
        "x.csv: no columns 'source' and 'target'; choose two of en, ko with `columns`"
    """
    names = ", ".join(name if name.isprintable() else repr(name) for name in there[:_NAMES])
    more = ", ..." if len(there) > _NAMES else ""
    return f"{where}: no columns {columns[0]!r} and {columns[1]!r}; choose two of {names}{more} with `columns`"


def _places(path: Path, columns: tuple[str, str], header: list[str] | None, width: int) -> tuple[int, int]:
    if header is not None:
        if not set(columns) <= set(header):
            raise SettingError(missing_columns(f"{path}:1", columns, header))
        return header.index(columns[0]), header.index(columns[1])
    first, second = int(columns[0]) - 1, int(columns[1]) - 1
    if max(first, second) >= width:
        raise SettingError(
            f"{path}: {width} column(s) a line, so there is no column {max(first, second) + 1}; "
            "choose two others with `columns`, or correct the file"
        )
    return first, second
