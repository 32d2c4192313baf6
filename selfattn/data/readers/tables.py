"""Pairs, or a single column, out of tables: TSV, CSV, fast_align's, and notes exported from Anki."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from selfattn.data.languages import is_language, is_language_name
from selfattn.data.readers.containers import inner_name
from selfattn.data.readers.lines import BAD_BYTE, encoding_advice, lines_of
from selfattn.data.readers.records import BadRecord, Columns, RawPair, check_columns
from selfattn.errors import SettingError, UserError, number_of

TableRow = tuple[int, list[str] | BadRecord]
"""The number of a row's first line, from 1, and its cells; no cells for a blank line."""

_USUAL = ("source", "target")
_HEADINGS = {
    *_USUAL,
    *("src", "tgt", "trg", "input", "output", "sentence", "translation", "text", "label", "question", "answer"),
    *("sentence1", "sentence2", "original", "reference", "front", "back", "id", "iso", "word", "pronunciation"),
}
_WORDS = _HEADINGS | {"col", "column", "text", "sent", "sentence", "lang", "language", "line", "field", "string", "raw"}
_SEPARATORS = ",;\t|"
_HEAD = 20  # rows that tell the separator of a CSV file
_QUOTED_HEAD = 1_000  # rows that tell whether a TSV file is quoted
_SHOWN = 60  # characters of an example
_QUOTED = re.compile('"[^"]*"')
_CSV_CELL = re.compile('"(?:[^"]|"")*"')
_ANKI = re.compile(r"#(separator|html|columns|notetype|deck|tags|guid|if matches)( column)?:(.*)", re.I)
_ANKI_SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|", "colon": ":"}
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>|&(#\d+|#x[0-9a-fA-F]+|[a-zA-Z]+);")


@dataclass(frozen=True)
class Layout:
    """Where the texts of a pair stand in the rows of a table.

    Attributes:
        places: of the source and the target, from 0.
        width: cells of a row.
        names: of the columns; empty where the first row is a pair already.
        tag: place of the tag; None without.
    """

    places: tuple[int, int]
    width: int
    names: tuple[str, ...] = ()
    tag: int | None = None

    def __str__(self) -> str:
        """Return which columns are taken, for a message."""
        source, target, *tag = (
            repr(self.names[place]) if self.names else str(place + 1)
            for place in (*self.places, self.tag)
            if place is not None
        )
        return f"columns {source} and {target} of {self.width}" + (f", tags in {tag[0]}" if tag else "")


def tsv_rows(path: Path, encoding: str | None) -> Iterator[TableRow]:
    """Read rows with tabs between cells. Nothing is quoted.

    Raises:
        UserError: the first rows are quoted as only CSV is; or see `lines_of`.
    """
    rows = ((number, line.split("\t") if line else []) for number, line in enumerate(lines_of(path, encoding), 1))
    head = list(islice(rows, _QUOTED_HEAD))
    cells = list(chain.from_iterable(row for _, row in head))
    first = list(chain.from_iterable(row for _, row in head[:_HEAD]))
    if len(head) >= _HEAD and first and all(_QUOTED.fullmatch(cell) for cell in first):
        raise UserError(f"{path}: every cell is in quotes; name it .csv, where cells may be quoted and tabs between")
    quoted = [cell for cell in cells if '"' in cell]
    if any('""' in cell[1:-1] for cell in quoted) and all(_CSV_CELL.fullmatch(cell) for cell in quoted):
        example = next(cell for cell in quoted if '""' in cell[1:-1])[:_SHOWN]
        raise UserError(f"{path}: quotes are doubled as in CSV ({example}); name it .csv, where tabs may stand between")
    yield from chain(head, rows)


def bar_rows(path: Path, encoding: str | None) -> Iterator[TableRow]:
    """Read rows of fast_align: ``source ||| target``. Nothing is quoted; a line with further bars is broken.

    Raises:
        UserError: see `lines_of`.
    """
    for number, line in enumerate(lines_of(path, encoding), 1):
        cells = line.split("|||") if line.strip() else []
        yield (
            number,
            cells if len(cells) in (0, 2) else BadRecord(number, f"{number_of(len(cells), 'text')} between |||, not 2"),
        )


def csv_rows(path: Path, encoding: str | None, columns: Columns = None) -> Iterator[TableRow]:
    """Read rows of CSV, quoted as usual. The separator is a comma, or else a semicolon, a tab or a bar.

    The separator is the one of these with which the first row names the columns, or else each of the first rows has the
    same number of cells, two or more. A line such as ``sep=;`` in front says it too, as in files of Excel.

    Raises:
        UserError: several separators fit; or see `lines_of`.
    """
    first = next(lines_of(path, encoding), "")
    if first[:4].lower() == "sep=" and len(first) == 5:
        yield from _quoted(path, encoding, first[4], after=1)
        return
    yield from _quoted(path, encoding, _separator(path, encoding, columns))


def _separator(path: Path, encoding: str | None, columns: Columns) -> str:
    named = set(columns or _USUAL)
    fitting = []
    for separator in _SEPARATORS:
        head = [row for _, row in islice(_quoted(path, encoding, separator), _HEAD) if row != []]
        widths = {-1 if isinstance(row, BadRecord) else len(row) for row in head}
        if head and isinstance(head[0], list) and named <= set(head[0]):
            return separator
        if len(widths) == 1 and min(widths) > 1:
            fitting.append(separator)
    if len(fitting) > 1:
        choice = " and ".join(map(repr, fitting))
        raise UserError(f"{path}: {choice} may both stand between cells; put a line such as sep=; in front")
    return fitting[0] if fitting else ","


def _quoted(path: Path, encoding: str | None, separator: str, after: int = 0) -> Iterator[TableRow]:
    # A line feed is put back behind each line, for texts in quotes may have line feeds in them. Strict: what is
    # quoted wrongly is broken, where the lenient reader would hand on some other text.
    lines = (line + "\n" for line in islice(lines_of(path, encoding), after, None))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            yield line + after, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line + after, BadRecord(line + after, str(error), reader.line_num - line + 1)


def table_pairs(
    path: Path, rows: Iterable[TableRow], default: Columns, columns: Columns, tag: str | None = None
) -> Iterator[RawPair | BadRecord]:
    """Take two columns out of rows of cells.

    Args:
        path: of the file, for messages.
        rows: of the file.
        default: numbers of the columns that are taken where none are chosen and the first row does not name them;
            None if it has to.
        columns: the chosen ones; None for the usual ones.
        tag: name or number of the column of tags; default none.

    Raises:
        UserError: see `layout_of`.
    """
    layout = None
    for line, row in rows:
        if isinstance(row, BadRecord):
            yield row
            continue
        if not row:
            yield RawPair(line, "", "")
            continue
        if layout is None:
            layout = layout_of(f"{path}:{line}", row, columns, default, tag)
            if layout.names:
                continue
        if len(row) != layout.width:
            yield BadRecord(line, f"{len(row)} column(s), not {layout.width}")
        else:
            kind = "" if layout.tag is None else row[layout.tag]
            yield RawPair(line, row[layout.places[0]], row[layout.places[1]], tag=kind)


def layout_in(
    path: Path, rows: Iterable[TableRow], default: Columns, columns: Columns, tag: str | None = None
) -> Layout | None:
    """Return the layout of a table from its first row that is not blank or broken; None where there is none.

    The arguments and errors are those of `table_pairs`.
    """
    for line, row in rows:
        if row and not isinstance(row, BadRecord):
            return layout_of(f"{path}:{line}", row, columns, default, tag)
    return None


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
    names = [cell.strip().casefold() for cell in row]
    if columns is None and (default is None or set(_USUAL) <= set(names)):
        columns = _USUAL
    numbers = columns or default or _USUAL
    if all(column.isdecimal() and int(column) > 0 for column in numbers):
        places = int(numbers[0]) - 1, int(numbers[1]) - 1
        if places[0] == places[1]:
            raise SettingError(f"{where}: both `columns` are number {places[0] + 1}; give two different ones")
        if max(places) >= len(row):
            missing = max(places) + 1
            raise SettingError(f"{where}: {len(row)} column(s) a line, so there is no column {missing} (`columns`)")
        source = row[places[0]]
        target = row[places[1]]
        shorter, longer = sorted((source, target), key=len)
        if columns is None and _is_heading(longer) and _is_heading(shorter):  # a long cell is told at once
            choice = f"give `columns` {source.strip()},{target.strip()}, or {','.join(numbers)} if this is a pair"
            raise SettingError(f"{where}: {source!r} and {target!r} look like names of columns; {choice}")
        return Layout(places, len(row), tag=_tag_place(where, row, names, tag, is_named=False))
    places_of = [_places(row, names, column) for column in numbers]
    if not all(places_of):
        texts = dict.fromkeys(row)
        check_columns(where, texts, numbers, "; or by number, such as 1,2, if this line is a pair")
    for column, several in zip(numbers, places_of, strict=True):
        if len(several) > 1:
            raise SettingError(f"{where}: {len(several)} columns are called {column!r}; choose by number (`columns`)")
    places = places_of[0][0], places_of[1][0]
    if places[0] == places[1]:
        raise SettingError(f"{where}: both `columns` are {row[places[0]]!r}; give two different ones")
    return Layout(places, len(row), tuple(row), _tag_place(where, row, names, tag, is_named=True))


def _tag_place(where: str, row: Sequence[str], names: Sequence[str], tag: str | None, *, is_named: bool) -> int | None:
    """Return where the tags stand, by number or by name."""
    if tag is None:
        return None
    if tag.isdecimal() and 0 < int(tag) <= len(row):
        return int(tag) - 1
    if tag.isdecimal():
        raise SettingError(f"{where}: {len(row)} column(s) a line, so there is no column {tag} (`tag`)")
    if not is_named:
        raise SettingError(f"{where}: the first line names no columns, so there is no {tag!r} (`tag`); give its number")
    places = _places(row, names, tag)
    if len(places) != 1:
        raise SettingError(f"{where}: {len(places)} columns are called {tag!r} (`tag`): {', '.join(map(repr, row))}")
    return places[0]


def _places(row: Sequence[str], names: Sequence[str], column: str) -> list[int]:
    """Return where a column is called by a name: exactly, or else but for case and spaces around it."""
    exact = [place for place, cell in enumerate(row) if cell == column]
    return exact or [place for place, name in enumerate(names) if name == column.strip().casefold()]


def _is_heading(cell: str) -> bool:
    """Return whether a cell is a usual name of a column, such as a language's name or code."""
    name = cell.strip().casefold()
    if name in _HEADINGS or is_language(name) or is_language_name(name):
        return True
    parts = [part for part in re.split(r"_|(\d+)", name) if part]
    return len(parts) > 1 and all(part.isdecimal() or part in _WORDS or is_language(part) for part in parts)


def anki_pairs(path: Path, encoding: str | None, columns: Columns) -> Iterator[RawPair | BadRecord]:
    """Read notes that Anki has exported as text: lines such as ``#separator:tab`` in front say how.

    Columns of identifiers, note types, decks and tags are not taken for texts. A cell with HTML in it is broken.

    Raises:
        UserError: the lines in front are not understood, or a column is not there; or see `lines_of`.
    """
    settings: dict[str, str] = {}
    apart: set[int] = set()
    after = 0
    for line in lines_of(path, encoding):
        match = _ANKI.fullmatch(line)
        if not line.startswith("#"):
            break
        after += 1
        if match is None or (match[2] and not match[3].strip().isdecimal()):
            raise UserError(f"{path}:{after}: not understood, of Anki's export; take the line out")
        if match[2]:
            apart.add(int(match[3]))
        else:
            settings[match[1].lower()] = match[3]
    name = settings.get("separator", "tab").strip()
    separator = _ANKI_SEPARATORS.get(name.lower(), name)
    if len(separator) != 1:
        raise UserError(f"{path}: separator {name!r} is unknown; export with tabs")
    rows: Iterable[TableRow] = _quoted(path, encoding, separator, after)
    if "columns" in settings:
        names = next(csv.reader([settings["columns"]], delimiter=separator), [])
        are_usual = {name.strip().casefold() for name in names} >= set(_USUAL)
        are_named = are_usual if columns is None else not all(column.isdecimal() for column in columns)
        rows = chain([(1, names)], rows) if are_named else rows
    first = [number for number in map(str, range(1, len(apart) + 3)) if int(number) not in apart]
    for record in table_pairs(path, rows, (first[0], first[1]), columns):
        if isinstance(record, RawPair) and (_MARKUP.search(record.source) or _MARKUP.search(record.target)):
            yield BadRecord(record.line, "HTML in the note; export without HTML")
        else:
            yield record


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
    is_csv = inner_name(path).suffix.lower() == ".csv"
    rows = csv_rows(path, encoding, ("", column)) if is_csv else tsv_rows(path, encoding)
    texts: list[str] = []
    place = int(column) - 1 if column.isdecimal() else None
    width = 0
    for line, row in rows:
        where = f"{path}:{line}"
        if isinstance(row, BadRecord):
            raise UserError(f"{where}: {row.reason}; mend or remove this row")
        if not width:
            width = len(row)
            if place is None and row.count(column) != 1:
                choice = ", ".join(map(repr, row))
                raise SettingError(f"{where}: {row.count(column) or 'no'} column {column!r}; choose one of {choice}")
            if place is None:
                place = row.index(column)
                continue
            if not 0 <= place < width:
                raise SettingError(f"{where}: {width} column(s) a line, so there is no column {column}")
        if len(row) != width:
            raise UserError(f"{where}: {len(row)} column(s), not {width}; mend this row")
        text = row[place or 0]
        if BAD_BYTE.search(text):
            raise UserError(f"{where}: {encoding_advice(path, encoding)}")
        texts.append(text)
    return texts
