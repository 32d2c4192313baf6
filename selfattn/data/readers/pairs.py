"""Pairs of texts from files, for every command and the library: the one reader.

Cleaning a corpus counts broken records; `read_pairs` refuses them.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from selfattn.data.pairs import Pair
from selfattn.data.readers.containers import KnownFile, unchanged
from selfattn.data.readers.formats import FORMAT_NAMES, Format, format_of, side_of
from selfattn.data.readers.groups import groups_of
from selfattn.data.readers.line_pairs import RawRecord, book_pairs, json_pairs, parallel_pairs, scan_pairs
from selfattn.data.readers.lines import BAD_BYTE, encoding_advice
from selfattn.data.readers.records import BadRecord, Columns, PairSource, RawPair
from selfattn.data.readers.tables import TableRow, anki_pairs, bar_rows, csv_rows, layout_in, table_pairs, tsv_rows
from selfattn.data.text import clean_text
from selfattn.errors import SettingError, UserError
from selfattn.settings import shown

_ADVICE = "mend the line, or take it out"
_TABLES: tuple[Format, ...] = ("csv", "tsv", "bars")
# Shares of records above which a file is not what it was taken for.
_UNDECODED = 0.01
_BROKEN = 0.1
_FIRST_CHECK = 1_000  # records, after which the shares are checked, and whenever they have doubled


def file_records(
    paths: Sequence[Path], columns: Columns = None, encoding: str | None = None, tag: str | None = None
) -> Iterator[RawPair | BadRecord]:
    """Read the records of files: of pairs, or of one side each.

    Several files are divided by `groups_of`. The format of a file of pairs follows its name or else its first line; see
    `format_of`.

    - Parallel files: line n of the one and line n of the other.
    - TSV: nothing is quoted. The columns ``source`` and ``target`` if the first line names them, else the first two,
      unless others are chosen; further columns are ignored, but each line must have as many as the first. A first line
      that looks like other headings, such as ``en`` and ``de``, is refused unless columns are chosen.
    - CSV: quoted as usual, with commas, semicolons, tabs or bars between cells; the first record names the columns.
    - JSON lines: an object a line, with the texts at the top or within ``"translation"``.
    - The format of fast_align, ``source ||| target``, as TSV.
    - Notes exported from Anki, whose first lines say how they are written.
    - SCAN's files: ``IN: words OUT: actions``.
    - The book's file (Saito, *Deep Learning from Scratch 2*): the input padded with spaces, ``_``, the target. The
      padding is taken off. The last ``_`` of a line counts.

    Args:
        paths: the files.
        columns: names of the source's and the target's column, or (TSV, CSV) their numbers from 1, such as
            ``("2", "3")``; with names, the first record of a TSV or CSV file names the columns, with numbers it is a
            pair already. Default: numbers 1 and 2 for TSV, the names source and target for CSV and JSON lines.
        encoding: from `checked_encoding`; default that of a byte order mark, or UTF-8.
        tag: name or number of the column with the tag of each pair, of a table or JSON lines; default none.

    Raises:
        UserError: names and contents do not tell how the files belong together; a file is missing, damaged, empty or
            not text; parallel files differ in length (both counts are told); the format cannot be told; a chosen column
            is not there, or the format has none to choose.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.tsv")
        ...     _ = path.write_text("Go.\\tVa !\\tby a friend\\nNo tab\\n")
        ...     for record in file_records([path]):
        ...         print(record)
        RawPair(line=1, source='Go.', target='Va !', file='', tag='')
        BadRecord(line=2, reason='1 column(s), not 3', lines=1, file='')
    """
    groups = groups_of(paths, encoding)
    if len(groups) == 1:
        return _group_records(groups[0], columns, encoding, tag)
    labelled = ((label_of(group), _group_records(group, columns, encoding, tag)) for group in groups)
    return (record._replace(file=label) for label, records in labelled for record in records)


def _group_records(
    group: Sequence[Path], columns: Columns, encoding: str | None, tag: str | None = None
) -> Iterator[RawRecord]:
    path = group[0]
    if len(group) == 2:
        if columns is not None:
            raise SettingError("`columns` is for files of pairs, two parallel files have none; leave it out")
        if tag is not None:
            raise SettingError("`tag` is for files of pairs, two parallel files have no column; leave it out")
        return parallel_pairs(path, group[1], encoding)
    known = format_of(path, encoding)
    if tag is not None and known not in ("jsonl", *_TABLES):
        raise SettingError(f"{path}: `tag` is for tables and JSON lines; leave it out, or give such a file")
    match known:
        case "csv" | "tsv" | "bars":
            return table_pairs(path, *_table(path, known, columns, encoding), columns, tag)
        case "jsonl":
            return json_pairs(path, columns or ("source", "target"), encoding, tag)
        case "anki":
            return anki_pairs(path, encoding, columns)
        case "scan" if columns is None:
            return scan_pairs(path, encoding)
        case "book" if columns is None:
            return book_pairs(path, encoding)
    side = side_of(path)
    further = f", or give the other side of .{side} as well" if side else ""
    raise UserError(f"{path}: neither TSV, CSV nor JSON lines; name it .tsv, .csv or .jsonl{further}")


def _table(path: Path, known: Format, columns: Columns, encoding: str | None) -> tuple[Iterator[TableRow], Columns]:
    """Return the rows of a table, and the columns that are taken where none are chosen and its first row names none."""
    if known == "csv":
        return csv_rows(path, encoding, columns), None
    return (tsv_rows if known == "tsv" else bar_rows)(path, encoding), ("1", "2")


def checked_records(records: Iterable[RawRecord], paths: Sequence[Path], encoding: str | None) -> Iterator[RawRecord]:
    """Pass records on, and refuse files of which too many are broken or not in their encoding.

    Above a hundredth of undecoded records, the encoding is another; above a tenth of broken records, the format is. One
    such record is never too many.

    Args:
        records: of the files.
        paths: the files.
        encoding: that they are read in.

    Raises:
        UserError: with the counts, the first place, and what to do.
    """
    read = undecoded = broken = 0
    first: dict[str, RawRecord] = {}
    limit = _FIRST_CHECK

    def check_shares() -> None:
        if undecoded > max(1, _UNDECODED * read):
            record = first["undecoded"]
            path = _path_of(record, paths, encoding)
            counts = f"{undecoded:,} of {read:,} pairs (first {record.file or path.name}:{record.line})"
            raise UserError(f"{path}: {counts} are {encoding_advice(path, encoding)}")
        if broken > max(1, _BROKEN * read):
            record = first["broken"]
            reason = record.reason if isinstance(record, BadRecord) else ""
            place = f"{record.file or label_of(paths)}:{record.line}"
            counts = f"{broken:,} of {read:,} lines are broken"
            raise UserError(f"{place}: {reason}; {counts}, so mend the file or its format")

    for record in records:
        read += record.lines if isinstance(record, BadRecord) else 1
        if isinstance(record, BadRecord):
            broken += record.lines
            first.setdefault("broken", record)
        elif not (record.source.isascii() and record.target.isascii()) and (
            BAD_BYTE.search(record.source) or BAD_BYTE.search(record.target)
        ):
            undecoded += 1
            first.setdefault("undecoded", record)
        yield record
        if read >= limit:
            limit *= 2
            check_shares()
    check_shares()


def _path_of(record: RawRecord, paths: Sequence[Path], encoding: str | None) -> Path:
    """Return the file whose bytes an undecoded pair has."""
    groups = groups_of(paths, encoding)
    group = next((group for group in groups if label_of(group) == record.file), groups[0])
    in_source = isinstance(record, RawPair) and BAD_BYTE.search(record.source)
    return group[0] if in_source else group[-1]


def file_sources(
    files: Mapping[str, Sequence[Path]],
    columns: Columns = None,
    encoding: str | None = None,
    tags: Mapping[str, str | None] | None = None,
) -> dict[str, PairSource]:
    """Open the files of a corpus.

    Args:
        files: for ``"train"``, and for ``"valid"`` and ``"test"`` where they are not held out of train; see
            `file_records`. Parts without files are ignored.
        columns: see `file_records`.
        encoding: see `file_records`.
        tags: for each part its column of tags, see `file_records`; default none.

    Raises:
        UserError: a file is missing or cannot be read. Other problems show when it is read.
    """
    sources = {}
    for part, paths in files.items():
        if paths:
            known = [KnownFile.read(path) for path in paths]
            hashes = [{"path": str(file.path), "sha256": file.sha256} for file in known]
            settings: dict[str, Any] = {"files": hashes, "columns": columns and list(columns)}
            tag = (tags or {}).get(part)
            if encoding is not None:
                settings["encoding"] = encoding
            if tag is not None:
                settings["tag"] = tag
            rows = partial(_known_records, known, columns, encoding, tag)
            about = partial(describe_files, tuple(paths), columns, encoding, tag)
            sources[part] = PairSource(label_of(paths), rows, settings, about)
    return sources


def _known_records(
    files: Sequence[KnownFile], columns: Columns, encoding: str | None, tag: str | None
) -> Iterator[RawRecord]:
    paths = [file.path for file in files]
    return unchanged(checked_records(file_records(paths, columns, encoding, tag), paths, encoding), files)


def has_tags(paths: Sequence[Path], columns: Columns, encoding: str | None, tag: str) -> bool:
    """Return whether files have a column of tags.

    Raises:
        UserError: see `file_records`.
    """
    next(file_records(paths, columns, encoding), None)  # what is wrong otherwise is said
    try:
        next(file_records(paths, columns, encoding, tag), None)
    except SettingError:
        return False
    return True


def describe_files(
    paths: Sequence[Path], columns: Columns = None, encoding: str | None = None, tag: str | None = None
) -> list[str]:
    """Say how files are understood, a line for each group: the format, the columns, and the first pair.

    Raises:
        UserError: see `file_records`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.tsv")
        ...     _ = path.write_text("Go.\\tVa !\\tby a friend\\n")
        ...     describe_files([path])
        ["pairs.tsv: TSV, columns 1 and 2 of 3 (others can be chosen), first pair 'Go.' → 'Va !'"]
    """
    lines = []
    for group in groups_of(paths, encoding):
        kind = "parallel files"
        if len(group) == 1:
            known = format_of(group[0], encoding)
            kind = FORMAT_NAMES[known] if known else ""
            layout = None
            if known in _TABLES:
                layout = layout_in(group[0], *_table(group[0], known, columns, encoding), columns, tag)
            if layout is not None:
                choice = " (others can be chosen)" if columns is None and layout.width > 2 else ""
                kind += f", {layout}{choice}"
        records = _group_records(group, columns, encoding, tag)
        pairs = (record for record in records if isinstance(record, RawPair) and record.source and record.target)
        pair = next(pairs, None)
        example = "" if pair is None else f", first pair {shown(pair.source)} → {shown(pair.target)}"
        lines.append(f"{label_of(group)}: {kind}{example}")
    return lines


def label_of(paths: Sequence[Path]) -> str:
    """Return the names of files, as places in messages have them."""
    return ", ".join(path.name for path in paths)


def read_pairs(
    *paths: str | os.PathLike[str], columns: Columns = None, encoding: str | None = None, tag: str | None = None
) -> list[Pair]:
    """Read pairs of texts, each cleaned as for a training. A broken line is an error.

    Args:
        paths: files of pairs (TSV, CSV, JSON lines, Anki's, the book's), or source and target in turn; plain or packed;
            see `file_records`. Lines end with ``\\n`` or ``\\r\\n`` and nothing else; the
            text is UTF-8; each is cleaned by :func:`selfattn.data.text.clean_text`, as every input of a model is.
        columns: of source and target in one file, by name or by number from 1; default: source and target in CSV and
            JSON lines, 1 and 2 in TSV.
        encoding: see `file_records`.
        tag: see `file_records`.

    Returns:
        The pairs in the order of the files, with their tags.

    Raises:
        UserError: as of `file_records`; or a line is not a pair with text on both sides. The message names the file and
            the line.

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
    for row in file_records(files, columns, encoding, tag):
        place = f"{row.file or label}:{row.line}"
        if isinstance(row, BadRecord):
            raise UserError(f"{place}: {row.reason}; {_ADVICE}")
        if BAD_BYTE.search(row.source) or BAD_BYTE.search(row.target):
            raise UserError(f"{place}: {encoding_advice(_path_of(row, files, encoding), encoding)}")
        try:
            f"{row.source}{row.target}".encode()
        except UnicodeEncodeError:
            raise UserError(f"{place}: half of a surrogate pair, no character; {_ADVICE}") from None
        pair = Pair(clean_text(row.source), clean_text(row.target), clean_text(row.tag))
        if not pair.source or not pair.target:
            raise UserError(f"{place}: the source or the target is empty; {_ADVICE}")
        pairs.append(pair)
    if not pairs:
        raise UserError(f"{label}: no pairs in it; give at least one")
    return pairs


def is_book_file(*paths: str | os.PathLike[str], encoding: str | None = None) -> bool:
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
    return len(paths) == 1 and format_of(Path(paths[0]), encoding) == "book"
