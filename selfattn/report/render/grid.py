"""A table as plain data, drawn alike by the page and by Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from selfattn.report.words.messages import Message


@dataclass(frozen=True)
class Noted:
    """Text with a reason that the page shows on hover, such as why nothing was measured."""

    text: str
    reason: Message


Cell = str | Message | Noted


@dataclass(frozen=True)
class Column:
    """The head of a column; `model` says that it is the name of a model, which gets its sign."""

    head: str | Message
    numeric: bool = True
    model: bool = False


@dataclass(frozen=True)
class Line:
    """A row. The first cell is its head; `model` is whose row it is, and that name then is the head.

    Args:
        cells: one a column.
        model: name of a model; empty for a row of something else.
        tone: whether the row says something good or bad.
    """

    cells: tuple[Cell, ...]
    model: str = ""
    tone: Literal["", "bad"] = ""


@dataclass(frozen=True)
class Grid:
    """A table.

    Args:
        name: an identifier, unlike that of any other table of the report.
        columns: the heads.
        lines: the rows; a table without any is not shown.
    """

    name: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]


def cell_text(cell: Cell) -> str | Message:
    """What stands in a cell."""
    return cell.text if isinstance(cell, Noted) else cell
