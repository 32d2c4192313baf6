"""Read files of outputs that were made elsewhere."""

from collections.abc import Sequence
from pathlib import Path

from selfattn.data.readers.containers import inner_name
from selfattn.data.readers.lines import read_text_lines
from selfattn.data.readers.tables import read_column
from selfattn.errors import UserError

_TABLES = (".tsv", ".tab", ".csv", ".json", ".jsonl", ".ndjson")  # files that a line of does not have one text in


def read_given(label: str, encoding: str | None) -> Sequence[str]:
    """Read one text a line, as it is.

    Args:
        label: a file, or FILE:COLUMN of a table.
        encoding: of the file; None for UTF-8, or what a byte order mark says.

    Raises:
        UserError: it cannot be read, or is a table without a column.
    """
    path = Path(label)
    name, colon, column = label.rpartition(":")
    if colon and not path.exists() and Path(name).exists():
        return read_column(Path(name), column, encoding)
    if inner_name(path).suffix.lower() in _TABLES:
        raise UserError(f"{path}: a table; name a column of a TSV or CSV file, as in {path}:2 or {path}:output")
    lines = read_text_lines(path, encoding)
    if all("\t" in line for line in lines):
        raise UserError(f"{path}: has a tab in every line; name the column, as in {path}:2")
    return lines
