"""Files of lines, texts and pairs, plain or gzipped: two parallel files, TSV, CSV, JSON lines, the book's format.

Lines and records are read one by one, so a file may be larger than memory. Cleaning a corpus counts broken records;
`read_pairs` refuses them. A record that is not a pair becomes a `BadRecord`. Bytes that are not UTF-8 become lone
surrogates (``surrogateescape``), so that a bad byte matters only in a column that is used.
"""

import csv
import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from selfattn.codec import parse
from selfattn.data.pairs import Pair
from selfattn.data.text import clean_text, compose
from selfattn.errors import SettingError, UserError, say
from selfattn.files import check_ends, sha256_of

Columns = tuple[str, str] | None
"""Names or numbers of the columns of source and target; None for the usual ones."""

_MOST = 64 << 20  # bytes of a line; a few megabytes of gzip unpack to gigabytes
_TOLD = 5_000_000  # lines between two that say how far it is
_START = 200  # bytes that tell what a file is
_SUFFIXES = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_ADVICE = "mend the line, or take it out"


def lines_of(path: Path) -> Iterator[bytes]:
    r"""Read the lines of a file, without their ends; a name that ends in ``.gz`` is unpacked.

    A line ends with ``\n`` or ``\r\n`` and nothing else. A byte order mark in front is taken off.

    Args:
        path: the file.

    Raises:
        UserError: the file is missing, a directory, a pipe, damaged, empty, or not what its name says; or a line of it
            is longer than memory should hold.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.txt")
        ...     _ = path.write_bytes(b"one\r\ntwo")
        ...     list(lines_of(path))
        [b'one', b'two']
    """
    with _named_errors(path), (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        line, number = file.readline(_MOST), 1
        _check(path, line)
        while line:
            if len(line) == _MOST:
                raise UserError(f"{path}:{number}: longer than {_MOST >> 20} MiB; give one text a line")
            bare = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            yield bare.removesuffix(b"\n").removesuffix(b"\r")
            line, number = file.readline(_MOST), number + 1
            if number % _TOLD == 0:
                say(f"{path}: {number:,} lines read so far")


def read_text_lines(path: Path) -> list[str]:
    """Read the lines of a text in UTF-8, unpacked where its name ends in ``.gz``.

    Args:
        path: the file.

    Raises:
        UserError: the file is missing, a directory, damaged or empty.
    """
    lines = []
    for number, row in enumerate(lines_of(path), 1):
        try:
            lines.append(row.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(f"{path}:{number}: not valid UTF-8 (byte {error.start + 1}); save it as UTF-8") from None
    return lines


def read_texts(path: str | os.PathLike[str]) -> list[str]:
    """Read a file with one text a line.

    A name that ends in ``.gz`` is unpacked first. Lines end with ``\\n`` or ``\\r\\n`` and nothing else; the text is
    UTF-8, and put into Unicode's form NFC, as every input of a model is. Lines with nothing or only spaces in them are
    left out.

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
        ['To be,', 'or not to be']
    """
    lines = [compose(row) for row in read_text_lines(Path(path)) if row.strip()]
    if not lines:
        raise UserError(f"{path}: only spaces in it; give at least one line of text")
    return lines


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file as it lies there (packed, where it is packed), in hexadecimal digits.

    Raises:
        UserError: the file is missing, a directory, or cannot be read.
    """
    with _named_errors(path):
        return sha256_of(path)


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into a `UserError`."""
    try:
        str(path).encode()
        check_ends(path, "what comes out of a pipe has to be written into one first")
        yield
    except UnicodeEncodeError:
        raise UserError(f"{str(path)!a}: the path is not UTF-8; rename the file or its folder") from None
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; check the path") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a whole gzip file ({error}); fetch or pack it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the file") from None


def _check(path: Path, first: bytes) -> None:
    if not first:
        raise UserError(f"{path}: the file is empty; give at least one line")
    if first.startswith(b"\x1f\x8b"):
        raise UserError(f"{path}: packed with gzip; let its name end in .gz")
    # UTF-16 has a byte order mark, or zeros where plain letters are.
    start = first[:_START]
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or 3 * start.count(0) > len(start) > 1:
        raise UserError(f"{path}: UTF-16, not UTF-8; save the file as UTF-8")


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


def file_records(paths: tuple[Path, ...], columns: Columns = None) -> Iterator[RawPair | BadRecord]:
    """Read the records of two parallel files, or of one file with both sides.

    The format of one file follows its name or else its first line; see `format_of`.

    - Parallel files: line n of the one and line n of the other.
    - TSV: nothing is quoted. The first two columns, unless others are chosen; further columns are ignored, but each
      line must have as many as the first.
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
        UserError: there are neither one nor two files; a file is missing, damaged, empty or not text; parallel files
            differ in length (both counts are told); the format cannot be told; a chosen column is not there, or the
            format has none to choose.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.tsv")
        ...     _ = path.write_text("Go.\\tVa !\\tby a friend\\nNo tab\\n")
        ...     list(file_records((path,)))
        [RawPair(line=1, source='Go.', target='Va !'), BadRecord(line=2, reason='1 column(s), not 3', lines=1)]
    """
    if len(paths) not in (1, 2):
        raise SettingError(f"`data`: expected two parallel files or one file of pairs, got {len(paths)}")
    if len(paths) == 2 and columns is not None:
        raise SettingError("`columns` is for one file of pairs, two parallel files have none; leave it out")
    if len(paths) == 2:
        return _parallel(*paths)
    path, named = paths[0], columns or ("source", "target")
    match format_of(path):
        case "jsonl":
            return _json_lines(path, named)
        case "csv":
            return _table(path, _csv_rows(path), named)
        case "tsv":
            rows = ((number, _text(line).split("\t") if line else []) for number, line in enumerate(lines_of(path), 1))
            return _table(path, rows, columns or ("1", "2"))
        case "book" if columns is None:
            return _book(path)
    raise UserError(f"{path}: neither TSV, CSV nor JSON lines; name it .tsv, .csv or .jsonl")


def format_of(path: Path) -> str | None:
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
    texts = _flat(record)
    if not texts.keys() >= set(columns):
        return BadRecord(line, f"no {columns[0]!r} and {columns[1]!r}")
    source, target = ("" if texts[column] is None else texts[column] for column in columns)
    if not isinstance(source, str) or not isinstance(target, str):
        return BadRecord(line, "not two texts")
    return RawPair(line, source, target)


def check_columns(where: str, record: Mapping[str, Any], columns: tuple[str, str]) -> None:
    """Check that a record has both columns, flat or in a nested ``translation``.

    Raises:
        SettingError: it has not; the message starts with `where` and names the columns that it has.

    Example:
        >>> check_columns("x.csv", {"id": 1, "translation": {"en": "Go.", "ko": "가."}}, ("source", "target"))
        Traceback (most recent call last):
        selfattn.errors.SettingError: x.csv: no columns 'source' and 'target'; choose with `columns`: 'id', 'en', 'ko'
    """
    names = _flat(record).keys()
    if not names >= set(columns):
        choice = f"choose with `columns`: {', '.join(map(repr, names))}"
        raise SettingError(f"{where}: no columns {columns[0]!r} and {columns[1]!r}; {choice}")


def _flat(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record with the texts of its ``translation`` beside its other columns."""
    nested = record.get("translation")
    if not isinstance(nested, Mapping):
        return record
    return {name: value for name, value in record.items() if name != "translation"} | dict(nested)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _parallel(source: Path, target: Path) -> Iterator[RawPair | BadRecord]:
    counts = [sum(1 for _ in lines_of(path)) for path in (source, target)]
    if counts[0] != counts[1]:
        raise UserError(f"{source} has {counts[0]:,} lines and {target} {counts[1]:,}; parallel files need as many")
    for number, (left, right) in enumerate(zip(lines_of(source), lines_of(target), strict=True), 1):
        yield RawPair(number, _text(left), _text(right))


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
    path: Path, rows: Iterable[tuple[int, list[str] | BadRecord]], columns: tuple[str, str]
) -> Iterator[RawPair | BadRecord]:
    """Take two columns out of rows of cells; a blank row has none, and the first that is not blank may name them."""
    width = 0
    numbered = all(column.isdecimal() and int(column) > 0 for column in columns)
    places = [int(column) - 1 for column in columns] if numbered else []
    for line, row in rows:
        if isinstance(row, BadRecord):
            yield row
        elif not row:
            yield RawPair(line, "", "")
        elif not places:
            check_columns(f"{path}:{line}", dict.fromkeys(row), columns)
            places, width = list(map(row.index, columns)), len(row)
        elif max(places) >= (width := width or len(row)):
            raise SettingError(f"{path}: {width} column(s) a line, so there is no column {max(places) + 1} (`columns`)")
        elif len(row) != width:
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
            yield BadRecord(number, f"not valid JSON ({getattr(error, 'msg', error)})")
            continue
        if not isinstance(record, dict):
            yield BadRecord(number, "not a JSON object")
            continue
        if not known:
            check_columns(f"{path}:{number}", record, columns)
        known = True
        yield pair_of(number, record, columns)


def _book(path: Path) -> Iterator[RawPair | BadRecord]:
    for number, line in enumerate(lines_of(path), 1):
        source, separator, target = _text(line).rpartition("_")
        if separator or not line.strip():
            yield RawPair(number, source.rstrip(" "), target.rstrip(" "))
        else:
            yield BadRecord(number, "no separator (_) between input and target")


@dataclass(frozen=True)
class PairSource:
    """Raw pairs of one part.

    Attributes:
        label: start of the places in messages, such as the file's name.
        rows: reads the pairs from the beginning.
        settings: JSON values from which the source can be opened again.
    """

    label: str
    rows: Callable[[], Iterator[RawPair | BadRecord]]
    settings: dict[str, Any]


def file_sources(files: Mapping[str, Sequence[Path]], columns: Columns = None) -> dict[str, PairSource]:
    """Open the files of a corpus.

    Args:
        files: for ``"train"``, and for ``"valid"`` and ``"test"`` where they are not held out of train: two parallel
            files (source, target), or one file with both sides. Parts without files are ignored.
        columns: see `file_records`.

    Raises:
        UserError: a file is missing or cannot be read. Other problems show when it is read.
    """
    sources = {}
    for part, paths in files.items():
        if paths:
            hashes = [{"path": str(path), "sha256": file_sha256(path)} for path in paths]
            settings = {"files": hashes, "columns": columns and list(columns)}
            rows = partial(file_records, tuple(paths), columns)
            sources[part] = PairSource(", ".join(path.name for path in paths), rows, settings)
    return sources


def read_pairs(*paths: str | os.PathLike[str], columns: Columns = None) -> list[Pair]:
    """Read pairs of texts, each cleaned as for a training. A broken line is an error.

    Args:
        paths: two parallel files, source and target, or one file of pairs: TSV, CSV, JSON lines or the book's, plain or
            .gz; see `file_records`. Lines end with ``\\n`` or ``\\r\\n`` and nothing else; the
            text is UTF-8; each is cleaned by :func:`selfattn.data.text.clean_text`, as every input of a model is.
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
    files = tuple(map(Path, paths))
    label = ", ".join(map(str, files))
    pairs = []
    for row in file_records(files, columns):
        if isinstance(row, BadRecord):
            raise UserError(f"{label}:{row.line}: {row.reason}; {_ADVICE}")
        try:
            f"{row.source}{row.target}".encode()
        except UnicodeEncodeError:
            raise UserError(f"{label}:{row.line}: not valid UTF-8; save the file as UTF-8") from None
        pair = Pair(clean_text(row.source), clean_text(row.target))
        if not pair.source or not pair.target:
            raise UserError(f"{label}:{row.line}: the source or the target is empty; {_ADVICE}")
        pairs.append(pair)
    if not pairs:
        raise UserError(f"{label}: no pairs in it; give at least one")
    return pairs


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


def chosen_columns(names: Sequence[str]) -> Columns:
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
    if len(names) != 2 or names[0] == names[1]:
        raise SettingError(f"`columns` {','.join(names)}: expected two different ones, such as en,de")
    return names[0], names[1]
