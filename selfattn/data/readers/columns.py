"""One column of a table: TSV or CSV, by its name or its number."""

from pathlib import Path

from selfattn.data.readers.containers import inner_name
from selfattn.data.readers.lines import BAD_BYTE, encoding_advice
from selfattn.data.readers.records import BadRecord
from selfattn.data.readers.tables import csv_rows, tsv_rows
from selfattn.errors import SettingError, UserError


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
