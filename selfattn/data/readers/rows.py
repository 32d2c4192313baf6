"""Rows of files of pairs, in every format, and the two texts in them.

How a file is understood follows from its name and its first lines; `understand` says it once, or refuses the file.
A row is read as a pair, or as broken. Cleaning a corpus counts broken records; `pairs.read_pairs` refuses them.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, islice, takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

from selfattn.codec import parse
from selfattn.data.languages import SOURCES, TARGETS, is_language, is_language_name
from selfattn.data.readers.lines import BAD_BYTE, LearnedFile, encoding_advice
from selfattn.errors import SettingError, UserError, number_of

Columns = tuple[str, str] | None
"""Names or numbers of the columns of source and target; None for the usual ones."""
FileFormat = Literal["tsv", "csv", "jsonl", "bars", "anki", "scan", "book"]
FORMAT_NAMES: dict[FileFormat, str] = {
    "tsv": "TSV",
    "csv": "CSV",
    "jsonl": "JSON lines",
    "bars": "source ||| target",
    "anki": "notes of Anki",
    "scan": "IN: source OUT: target",
    "book": "the book's format",
}
ENDINGS: dict[str, FileFormat] = {".tsv": "tsv", ".tab": "tsv", ".csv": "csv"}
ENDINGS |= {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
"""Endings of the names of files of pairs."""
BARS = " ||| "
SCAN = re.compile("IN: (.+?) OUT: (.+)")
"""A line of SCAN's files."""
_USUAL = ("source", "target")
_FIRST = ("1", "2")
_TABLES: tuple[FileFormat, ...] = ("csv", "tsv", "bars")
_WORDS = set(
    """
    source target src tgt trg input output sentence translation text label question answer sentence1 sentence2 original
    reference front back id iso word pronunciation col column sent lang language line field string raw
    """.split()  # noqa: SIM905  # a list would take forty lines
)
_PART_OF_A_HEADING = {"col", "column", "sent", "lang", "language", "line", "field", "string", "raw"}
_HEAD = 20  # rows that tell the separator of a CSV file
_CSV_CELL = re.compile('"(?:[^"]|"")*"')
_ANKI = re.compile(r"#(separator|html|columns|notetype|deck|tags|guid|if matches)( column)?:(.*)", re.I)
_ANKI_SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|", "colon": ":"}
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>|&(#\d+|#x[0-9a-fA-F]+|[a-zA-Z]+);")
_ANKI_HEADS = ("#separator:", "#html:", "#columns:", "#notetype", "#deck", "#tags", "#guid", "#if matches:")


class RawPair(NamedTuple):
    """A pair as read from a file.

    Attributes:
        line: its line or row, from 1.
        source: the text of the source, not cleaned.
        target: the text of the target.
        file: name of the file, where several are read as one; else empty.
        tag: the name of its kind, where a column has it; else empty.
    """

    line: int
    source: str
    target: str
    file: str = ""
    tag: str = ""


class BadRecord(NamedTuple):
    """A record that is no pair.

    Attributes:
        line: its first line or row, from 1.
        reason: what is wrong.
        lines: how many lines it takes up (an open quote in a CSV file swallows several).
        file: name of the file, where several are read as one; else empty.
    """

    line: int
    reason: str
    lines: int = 1
    file: str = ""


RawRecord = RawPair | BadRecord
Row = tuple[int, Sequence[str] | BadRecord]
"""The number of a row's first line, from 1, and its cells; no cells for a blank line."""


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
    if names and (len(names) != 2 or names[0] == names[1]):
        raise SettingError(f"`columns` {','.join(names)}: expected two different ones, such as en,de")
    return (names[0], names[1]) if names else None


def _texts_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the texts of its ``translation`` beside its other columns."""
    nested = record.get("translation")
    if not isinstance(nested, Mapping):
        return dict(record)
    return {name: value for name, value in record.items() if name != "translation"} | dict(nested)


def pair_of(line: int, record: Mapping[str, Any], columns: tuple[str, str], tag: str | None = None) -> RawRecord:
    """Return the two texts of a record, from flat columns or a nested ``translation``. None becomes empty.

    Args:
        line: its number.
        record: texts by name.
        columns: of the two texts.
        tag: of a third, the tag of the pair; default none.

    Example:
        >>> pair_of(1, {"translation": {"en": "Go.", "ko": "가."}}, ("en", "ko"))
        RawPair(line=1, source='Go.', target='가.', file='', tag='')
    """
    texts = _texts_of(record)
    if twice := [column for column in columns if column in record and texts.get(column) != record[column]]:
        return BadRecord(line, f"{twice[0]!r} at the top and another in 'translation'")
    if not texts.keys() >= set(columns):
        return BadRecord(line, f"no {columns[0]!r} and {columns[1]!r}")
    source, target = ("" if texts[column] is None else texts[column] for column in columns)
    kind = "" if tag is None else record.get(tag)
    if not isinstance(source, str) or not isinstance(target, str):
        return BadRecord(line, "not two texts")
    if not isinstance(kind, str):
        return BadRecord(line, f"no text in {tag!r}, the column of tags")
    return RawPair(line, source, target, tag=kind)


def check_columns(where: str, record: Mapping[str, Any], columns: tuple[str, str], advice: str = "") -> None:
    """Check that a record has both columns, flat or in a nested ``translation``.

    Args:
        where: the beginning of the message.
        record: the first of the data.
        columns: names of the source's and of the target's column.
        advice: a further thing to do; default none.

    Raises:
        SettingError: it has not; the message names the columns that it has.

    Example:
        >>> check_columns("x.csv", {"id": 1, "translation": {"en": "Go.", "ko": "가."}}, ("source", "target"))
        Traceback (most recent call last):
        selfattn.errors.SettingError: x.csv: no columns 'source' and 'target'; choose with `columns`: 'id', 'en', 'ko'
    """
    names = _texts_of(record)
    if not names.keys() >= set(columns):
        choice = f"choose with `columns`: {', '.join(map(repr, names))}"
        raise SettingError(f"{where}: no columns {columns[0]!r} and {columns[1]!r}; {choice}{advice}")


# How a file is understood.


@dataclass(frozen=True)
class Understood:
    """How a file of pairs is read.

    Attributes:
        file: the file.
        kind: its format.
        records: reads records out of its lines.
        layout: of a table; None for other formats, and where the first lines have no row.
    """

    file: LearnedFile
    kind: FileFormat
    records: Callable[[Iterable[str]], Iterator[RawRecord]]
    layout: "Layout | None" = None

    def first(self) -> RawPair | None:
        """Return the first pair with two texts among the first lines; None where there is none.

        Raises:
            UserError: the first record shows that a chosen column is not there.
        """
        pairs = (row for row in self.records(self.file.head) if isinstance(row, RawPair))
        return next((pair for pair in pairs if pair.source and pair.target), None)


def side_of(name: Path) -> str | None:
    """Return the language, or the side, that the name of a file ends in, in lower case; None where it names none.

    Args:
        name: of an unpacked file; see `lines.inner_name`.

    Example:
        >>> side_of(Path("train.EN")), side_of(Path("news.zho.txt")), side_of(Path("a.src")), side_of(Path("a.txt"))
        ('en', 'zho', 'src', None)
    """
    if name.suffix.lower() == ".txt":
        name = name.with_suffix("")
    ending = name.suffix.removeprefix(".").lower()
    return ending if ending in SOURCES | TARGETS or is_language(ending) else None


def is_anki(file: LearnedFile) -> bool:
    """Return whether a file has notes that Anki has exported."""
    return first_line(file).lower().startswith(_ANKI_HEADS)


def first_line(file: LearnedFile) -> str:
    """Return the first line that is not blank; empty where the first lines all are."""
    return next((line for line in file.head if line.strip()), "")


def file_format(file: LearnedFile) -> FileFormat | None:
    """Return the format of a file of pairs.

    It follows the file's name (``.tsv``, ``.tab``, ``.csv``, ``.jsonl``, ``.ndjson``, ``.json``, in any case; the
    ending of a packed file may stand behind it), or else its first line: ``#separator:`` begins notes exported from
    Anki, ``{`` JSON lines, ``IN:`` SCAN's, a tab stands in TSV, `` ||| `` in fast_align's format, an ``_`` in the
    book's.

    Returns:
        The format; None where neither tells, such as of one of two parallel files.

    Raises:
        UserError: a JSON document over several lines; or lines have several underscores, and not the last at the same
            place.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "date.txt")
        ...     _ = path.write_text("2/10/93   _1993-02-10\\n")
        ...     file_format(LearnedFile.learn(path))
        'book'
    """
    first = first_line(file)
    if is_anki(file):
        return "anki"
    signs: dict[FileFormat, Any] = {
        "jsonl": first.lstrip().startswith("{"),
        "tsv": "\t" in first,
        "bars": BARS in first,
        "scan": SCAN.fullmatch(first),
        "book": "_" in first,
    }
    told = next((kind for kind, is_there in signs.items() if is_there), None)
    kind = ENDINGS.get(file.name.suffix.lower(), told)
    if kind == "jsonl":
        _refuse_documents(file, first.lstrip())
    if kind == "book":
        head = [line for line in file.head if "_" in line]
        if len({line.rindex("_") for line in head}) > 1 and any(line.count("_") > 1 for line in head):
            wrong = "several underscores in a line, and not at one place"
            raise UserError(f"{file.path}: {wrong}; write tabs between, as TSV")
    return kind


def _refuse_documents(file: LearnedFile, first: str) -> None:
    """Refuse JSON that is no object a line."""
    if first.startswith("["):
        raise UserError(f"{file.path}: a JSON array; write one object a line (jq -c '.[]'), and name it .jsonl")
    if first.rstrip().endswith(("{", "[", ",")):
        advice = "write one object a line, such as with jq -c"
        raise UserError(f"{file.path}: JSON objects over several lines; {advice}")


def is_encodable(source: str, target: str) -> bool:
    """Return whether both texts can be written as UTF-8: they have no undecoded byte, and no half of a surrogate pair.

    Example:
        >>> is_encodable("é", "한"), is_encodable("a", "\\udcff")
        (True, False)
    """
    if source.isascii() and target.isascii():
        return True
    try:
        source.encode()
        target.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_object(line: str) -> bool:
    """Return whether a line is a JSON object."""
    with suppress(ValueError):
        return line.lstrip().startswith("{") and isinstance(parse(line.encode("utf-8", "surrogateescape")), dict)
    return False


def understand(file: LearnedFile, columns: Columns = None, tag: str | None = None) -> Understood:
    """Say how a file of pairs is read; see `pairs.PairFiles` for the formats.

    Args:
        file: its first lines tell.
        columns: the chosen ones.
        tag: name or number of the column of tags; default none.

    Raises:
        UserError: the format cannot be told; a chosen column is not there, or the format has none to choose.
    """
    kind = file_format(file)
    if tag is not None and kind not in ("jsonl", *_TABLES):
        raise SettingError(f"{file.path}: `tag` is for tables and JSON lines; leave it out, or give such a file")
    if kind == "jsonl":
        return Understood(file, kind, partial(_json_records, file, columns or _USUAL, tag))
    if kind in ("scan", "book") and columns is None:
        return Understood(file, kind, partial(_line_records, _cut_scan if kind == "scan" else _cut_book))
    default: Columns = _FIRST
    read: Callable[[Iterable[str]], Iterator[Row]]
    match kind:
        case "csv":
            read = _csv_reader(file, columns)
            default = None
        case "tsv":
            _refuse_quotes(file)
            read = _tsv_rows
        case "bars":
            read = _bar_rows
        case "anki":
            read, default = _anki_reader(file, columns)
        case _:
            side = side_of(file.name)
            further = f", or give the other side of .{side} as well" if side else ""
            raise UserError(f"{file.path}: neither TSV, CSV nor JSON lines; name it .tsv, .csv or .jsonl{further}")

    def layout_at(line: int, row: Sequence[str]) -> Layout:
        try:
            return layout_of(f"{file.path}:{line}", row, columns, default, tag)
        except SettingError:
            if BAD_BYTE.search("".join(row)):
                raise UserError(f"{file.path}:{line}: {encoding_advice(file.path, file.encoding)}") from None
            raise

    layouts = (layout_at(line, row) for line, row in read(file.head) if row and not isinstance(row, BadRecord))
    is_anki = kind == "anki"
    return Understood(file, kind, partial(_table_records, read, layout_at, is_anki=is_anki), next(layouts, None))


def _table_records(
    read: Callable[[Iterable[str]], Iterator[Row]],
    layout_at: Callable[[int, Sequence[str]], "Layout"],
    lines: Iterable[str],
    *,
    is_anki: bool,
) -> Iterator[RawRecord]:
    """Take the two texts, and the tag, out of the rows of a table."""
    layout = None
    width = source = target = 0
    tag = None
    for line, row in read(lines):
        if isinstance(row, BadRecord):
            yield row
            continue
        if not row:
            yield RawPair(line, "", "")
            continue
        if layout is None:
            layout = layout_at(line, row)
            source, target, tag, width, names = layout
            if names:
                continue
        if len(row) != width:
            yield BadRecord(line, f"{len(row)} column(s), not {width}")
        elif is_anki and _MARKUP.search(f"{row[source]}\n{row[target]}"):
            yield BadRecord(line, "HTML in the note; export without HTML")
        else:
            yield RawPair(line, row[source], row[target], "", "" if tag is None else row[tag])


def _line_records(cut: Callable[[str], Sequence[str] | str], lines: Iterable[str]) -> Iterator[RawRecord]:
    """Read a pair a line; a text in place of two is the reason why the line is broken."""
    for number, line in enumerate(lines, 1):
        texts = cut(line) if line.strip() else ("", "")
        if isinstance(texts, str):
            yield BadRecord(number, texts)
        else:
            yield RawPair(number, texts[0], texts[1])


def _cut_scan(line: str) -> Sequence[str] | str:
    match = SCAN.fullmatch(line)
    return match.groups() if match else "no IN: source OUT: target"


def _cut_book(line: str) -> Sequence[str] | str:
    texts = [side.rstrip(" ") for side in line.rsplit("_", 1)]
    return texts if len(texts) == 2 else "no separator (_) between input and target"


def _json_records(
    file: LearnedFile, columns: tuple[str, str], tag: str | None, lines: Iterable[str]
) -> Iterator[RawRecord]:
    """Read an object a line."""
    is_first = True
    for number, line in enumerate(lines, 1):
        if BAD_BYTE.search(line):
            yield RawPair(number, line, line)  # which has the byte in its texts
            continue
        if not line.strip():
            yield RawPair(number, "", "")
            continue
        try:
            record = parse(line.encode())
        except ValueError as error:
            yield BadRecord(number, f"not valid JSON ({getattr(error, 'msg', error)})")
            continue
        if not isinstance(record, dict):
            yield BadRecord(number, "not a JSON object")
            continue
        if is_first:
            _check_first(f"{file.path}:{number}", record, columns, tag)
            is_first = False
        yield pair_of(number, record, columns, tag)


def _check_first(where: str, record: Mapping[str, Any], columns: tuple[str, str], tag: str | None) -> None:
    """Check that the first object of a file has the columns."""
    for name, value in record.items():
        if isinstance(value, list) and value and isinstance(value[0], dict) and not record.keys() >= set(columns):
            raise UserError(f"{where}: the records stand in a list, {name!r}; write one a line (jq -c '.{name}[]')")
    check_columns(where, record, columns)
    if tag is not None and tag not in record:
        raise SettingError(f"{where}: no {tag!r} (`tag`), only {', '.join(map(repr, record))}")


def _tsv_rows(lines: Iterable[str]) -> Iterator[Row]:
    """Read rows with tabs between cells. Nothing is quoted."""
    for number, line in enumerate(lines, 1):
        yield number, line.split("\t") if line else ()


def _refuse_quotes(file: LearnedFile) -> None:
    """Refuse a TSV file that is quoted as only CSV is."""
    rows = [line.split("\t") for line in file.head]
    first = list(chain.from_iterable(row for row in rows[:_HEAD] if row != [""]))
    advice = "name it .csv, where cells may be quoted and tabs between"
    if len(rows) >= _HEAD and first and all(re.fullmatch('"[^"]*"', cell) for cell in first):
        raise UserError(f"{file.path}: every cell is in quotes; {advice}")
    quoted = [cell for cell in chain.from_iterable(rows) if '"' in cell]
    doubled = [cell for cell in quoted if '""' in cell[1:-1]]
    if doubled and all(map(_CSV_CELL.fullmatch, quoted)):
        raise UserError(f"{file.path}: quotes are doubled as in CSV ({doubled[0][:60]}); {advice}")


def _bar_rows(lines: Iterable[str]) -> Iterator[Row]:
    """Read rows of fast_align: ``source ||| target``. Nothing is quoted; a line with further bars is broken."""
    for number, line in enumerate(lines, 1):
        cells = line.split("|||") if line.strip() else []
        is_row = len(cells) in (0, 2)
        yield number, cells if is_row else BadRecord(number, f"{number_of(len(cells), 'text')} between |||, not 2")


def _quoted_rows(lines: Iterable[str], separator: str, after: int = 0) -> Iterator[Row]:
    """Read rows of CSV behind some lines. Strict: what is quoted wrongly is broken, not some other text."""
    # A line feed is put back behind each line, for texts in quotes may have line feeds in them.
    reader = csv.reader((line + "\n" for line in islice(lines, after, None)), delimiter=separator, strict=True)
    line = after + 1
    while True:
        try:
            for row in reader:
                yield line, row
                line = after + reader.line_num + 1
            return
        except csv.Error as error:
            end = after + reader.line_num + 1
            yield line, BadRecord(line, str(error), end - line)
            line = end


def _csv_reader(file: LearnedFile, columns: Columns) -> Callable[[Iterable[str]], Iterator[Row]]:
    """Return what reads rows of CSV. The separator is a comma, or else a semicolon, a tab or a bar.

    It is the one with which the first row names the columns, or else each of the first rows has the same number of
    cells, two or more. A line such as ``sep=;`` in front says it too, as in files of Excel.
    """
    start = file.head[0]
    if len(start) == 5 and start[:4].lower() == "sep=":
        return partial(_quoted_rows, separator=start[4], after=1)
    fitting = []
    for separator in ",;\t|":
        head = [row for _, row in islice(_quoted_rows(file.head, separator), _HEAD) if row]
        if not head or isinstance(head[0], BadRecord):
            continue
        if set(columns or _USUAL) <= set(head[0]):
            return partial(_quoted_rows, separator=separator)
        widths = {-1 if isinstance(row, BadRecord) else len(row) for row in head}
        if widths == {len(head[0])} and len(head[0]) > 1:
            fitting.append(separator)
    if len(fitting) > 1:
        choice = " and ".join(map(repr, fitting))
        raise UserError(f"{file.path}: {choice} may both stand between cells; put a line such as sep=; in front")
    return partial(_quoted_rows, separator=fitting[0] if fitting else ",")


def _anki_reader(file: LearnedFile, columns: Columns) -> tuple[Callable[[Iterable[str]], Iterator[Row]], Columns]:
    """Return what reads notes exported from Anki, and the first two columns that are no identifiers, decks or tags."""
    settings: dict[str, str] = {}
    apart: set[int] = set()
    head = list(takewhile(lambda line: line.startswith("#"), file.head))
    for number, line in enumerate(head, 1):
        match = _ANKI.fullmatch(line)
        if match is None or (match[2] and not match[3].strip().isdecimal()):
            raise UserError(f"{file.path}:{number}: not understood, of Anki's export; take the line out")
        if match[2]:
            apart.add(int(match[3]))
        else:
            settings[match[1].lower()] = match[3]
    name = settings.get("separator", "tab").strip()
    separator = _ANKI_SEPARATORS.get(name.lower(), name)
    if len(separator) != 1:
        raise UserError(f"{file.path}: separator {name!r} is unknown; export with tabs")
    names = next(csv.reader([settings.get("columns", "")], delimiter=separator), [])
    are_usual = {name.strip().casefold() for name in names} >= set(_USUAL)
    is_named = names and (are_usual if columns is None else not all(column.isdecimal() for column in columns))
    heading: list[Row] = [(1, names)] if is_named else []

    def rows(lines: Iterable[str]) -> Iterator[Row]:
        return chain(heading, _quoted_rows(lines, separator, len(head)))

    free = (str(number) for number in count(1) if number not in apart)
    return rows, (next(free), next(free))


# Where the texts stand in a row.


class Layout(NamedTuple):
    """Where the texts of a pair stand in the rows of a table, from 0, and that of the tag.

    Attributes:
        source: place of the source.
        target: place of the target.
        tag: place of the tag; None without.
        width: cells of a row.
        names: of the columns; empty where the first row is a pair already.
    """

    source: int
    target: int
    tag: int | None
    width: int
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return which columns are taken, for a message."""
        labels = [repr(name) for name in self.names] or [str(number) for number in range(1, self.width + 1)]
        source, target = labels[self.source], labels[self.target]
        tag = "" if self.tag is None else labels[self.tag]
        return f"columns {source} and {target} of {self.width}" + (f", tags in {tag}" if tag else "")


def layout_of(where: str, row: Sequence[str], columns: Columns, default: Columns, tag: str | None = None) -> Layout:
    """Return the layout of a table from its first row.

    With chosen numbers, the row is a pair. With chosen names, it names the columns. Otherwise it names them if
    ``source`` and ``target`` are among its cells; case, and spaces around a name, are ignored. Else it is a pair,
    unless its two cells look like headings.

    Raises:
        SettingError: a column is not there, or twice; or the row looks like headings, and nothing is chosen.

    Example:
        >>> print(layout_of("a.tsv:1", ["id", "Target", "Source"], None, ("1", "2")))
        columns 'Source' and 'Target' of 3
    """
    is_usual = columns is None and (default is None or {cell.strip().casefold() for cell in row} >= set(_USUAL))
    chosen = _USUAL if is_usual else columns or default or _USUAL
    is_named = not all(column.isdecimal() and int(column) > 0 for column in chosen)
    if is_named and not all(places_of(row, column) for column in chosen):
        check_columns(where, dict.fromkeys(row), chosen, "; or by number, such as 1,2, if this line is a pair")
    source, target = (_place(where, row, column, "columns") for column in chosen)
    if source == target:
        same = repr(row[source]) if is_named else f"number {source + 1}"
        raise SettingError(f"{where}: both `columns` are {same}; give two different ones")
    cells = sorted((row[source], row[target]), key=len, reverse=True)  # a long cell is told at once
    if columns is None and not is_named and all(map(_is_heading, cells)):
        choice = f"give `columns` {row[source].strip()},{row[target].strip()}, or {','.join(chosen)} if this is a pair"
        raise SettingError(f"{where}: {row[source]!r} and {row[target]!r} look like names of columns; {choice}")
    if tag and not is_named and not tag.isdecimal():
        raise SettingError(f"{where}: the first line names no columns, so there is no {tag!r} (`tag`); give its number")
    place = None if tag is None else _place(where, row, tag, "tag")
    return Layout(source, target, place, len(row), tuple(row) if is_named else ())


def places_of(row: Sequence[str], column: str) -> list[int]:
    """Return where a column is called by a name: exactly, or else but for case and spaces around it."""
    name = column.strip().casefold()
    exact = [place for place, cell in enumerate(row) if cell == column]
    return exact or [place for place, cell in enumerate(row) if cell.strip().casefold() == name]


def _place(where: str, row: Sequence[str], column: str, setting: str) -> int:
    """Return where a column stands, by number or by name."""
    places = [int(column) - 1] if column.isdecimal() else places_of(row, column)
    if column.isdecimal() and not 0 < int(column) <= len(row):
        raise SettingError(f"{where}: {len(row)} column(s) a line, so there is no column {int(column)} (`{setting}`)")
    if len(places) != 1:
        advice = (
            "; choose by number (`columns`)" if setting == "columns" else f" (`{setting}`): {', '.join(map(repr, row))}"
        )
        raise SettingError(f"{where}: {len(places)} columns are called {column!r}{advice}")
    return places[0]


def _is_heading(cell: str) -> bool:
    """Return whether a cell is a usual name of a column, such as a language's name or code."""
    name = cell.strip().casefold()
    if name in _WORDS - _PART_OF_A_HEADING or is_language(name) or is_language_name(name):
        return True
    parts = [part for part in re.split(r"_|(\d+)", name) if part]
    return len(parts) > 1 and all(part.isdecimal() or part in _WORDS or is_language(part) for part in parts)


def read_column(path: Path, column: str, encoding: str | None = None) -> list[str]:
    r"""Read a column of a table. With a name, the first row names the columns; with a number, it is a row like others.

    Args:
        path: of the file; ``.csv`` may be quoted and have another separator, every other one has tabs.
        column: name, or number from 1.
        encoding: see `lines.lines_of`.

    Raises:
        UserError: no such column, a row with another number of cells, or see `lines.lines_of`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.tsv")
        ...     _ = path.write_text("source\toutput\nGo.\tGeh.\n")
        ...     read_column(path, "output"), read_column(path, "2")
        (['Geh.'], ['output', 'Geh.'])
    """
    file = LearnedFile.learn(path, encoding)
    if file.name.suffix.lower() == ".csv":
        read = _csv_reader(file, ("", column))
    else:
        _refuse_quotes(file)
        read = _tsv_rows
    texts: list[str] = []
    head: Sequence[str] = ()
    for line, row in read(file.lines()):
        where = f"{path}:{line}"
        if isinstance(row, BadRecord) or (head and len(row) != len(head)):
            reason = row.reason if isinstance(row, BadRecord) else f"{len(row)} column(s), not {len(head)}"
            raise UserError(f"{where}: {reason}; mend or remove this row")
        if not head:
            head = row
            if not column.isdecimal():
                if row.count(column) != 1:
                    wrong = f"{row.count(column) or 'no'} column {column!r}"
                    raise SettingError(f"{where}: {wrong}; choose one of {', '.join(map(repr, row))}")
                continue
        texts.append(row[_place(where, head, column, "column")])
        if BAD_BYTE.search(texts[-1]):
            raise UserError(f"{where}: {encoding_advice(path, encoding)}")
    return texts
