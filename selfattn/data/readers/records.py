"""What is read of pairs: raw pairs and broken records, and the two columns of a record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from selfattn.errors import SettingError

Columns = tuple[str, str] | None
"""Names or numbers of the columns of source and target; None for the usual ones."""


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


@dataclass(frozen=True)
class PairSource:
    """Raw pairs of one part.

    Attributes:
        label: start of the places in messages, such as the file's name.
        rows: reads the pairs from the beginning.
        settings: JSON values from which the source can be opened again.
        about: says how the source is understood, in a line; default nothing.
    """

    label: str
    rows: Callable[[], Iterator[RawPair | BadRecord]]
    settings: dict[str, Any]
    about: Callable[[], Sequence[str]] = tuple


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


def pair_of(
    line: int, record: Mapping[str, Any], columns: tuple[str, str], tag: str | None = None
) -> RawPair | BadRecord:
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
    texts = _flat(record)
    for column in columns:
        if column in record and texts.get(column) != record[column]:
            return BadRecord(line, f"{column!r} at the top and another in 'translation'")
    if not texts.keys() >= set(columns):
        return BadRecord(line, f"no {columns[0]!r} and {columns[1]!r}")
    source, target = ("" if texts[column] is None else texts[column] for column in columns)
    if not isinstance(source, str) or not isinstance(target, str):
        return BadRecord(line, "not two texts")
    kind = "" if tag is None else record.get(tag)
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
    names = _flat(record).keys()
    if not names >= set(columns):
        choice = f"choose with `columns`: {', '.join(map(repr, names))}"
        raise SettingError(f"{where}: no columns {columns[0]!r} and {columns[1]!r}; {choice}{advice}")


def _flat(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record with the texts of its ``translation`` beside its other columns."""
    nested = record.get("translation")
    if not isinstance(nested, Mapping):
        return record
    return {name: value for name, value in record.items() if name != "translation"} | dict(nested)
