"""Blocks: what a section of the report is made of, as plain data that every renderer draws.

A section is a class with a title and a method that makes blocks of a record. It comes in by name, with
``@register.section("parameters")`` above it:

>>> from selfattn.words.messages import phrase
>>> class Parameters:
...     title = phrase(en="Parameters", ko="파라미터")
...     after = "cost"
...     def blocks(self, record):
...         rows = tuple(Row((model.name, f"{model.parameters:,}"), model.name) for model in record.models)
...         return Paragraph("How large the models are."), Table("parameters", COLUMNS, rows)
>>> COLUMNS = (Column("model", numeric=False), Column("parameters"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from selfattn.report.drawing.numbers import NONE
from selfattn.report.drawing.scale import Scale
from selfattn.results.attention import AttentionExample
from selfattn.results.quality import Estimate
from selfattn.results.record import Record
from selfattn.words.messages import Message, Said, message


class Section(Protocol):
    """A part of the report. One that names another section's key as `after` stands there, else at the end."""

    @property
    def title(self) -> Said:
        """Its heading."""

    def blocks(self, record: Record) -> Sequence[Block]:
        """What it shows of a record; nothing where it is to be left out."""


# text


class Paragraph:
    """Sentences, one after the other.

    Args:
        sentences: those that are None or empty are left out; a paragraph without any is not shown.
        note: whether it is in small print.
        code: text after them that is shown as it is.
        link: text after them that leads to the heading of an identifier (`#identifier`), or to a file beside the page.
    """

    def __init__(
        self, *sentences: Said | None, note: bool = False, code: str = "", link: tuple[Said, str] | None = None
    ) -> None:
        self.sentences = tuple(one for one in sentences if one)
        self.note, self.code, self.link = note, code, link


@dataclass(frozen=True)
class Heading:
    """A heading below that of the section, under an identifier, with something in smaller print beside it."""

    text: Said
    id: str = ""
    aside: Said = ""


@dataclass(frozen=True)
class Items:
    """A list: `words` explains, `gaps` is small print, `bad` is no good news, `runs` is code."""

    items: tuple[Said, ...]
    style: Literal["words", "gaps", "bad", "runs"] = "words"


@dataclass(frozen=True)
class Facts:
    """Names with what is said of them; with `models` the names are those of models, with `wide` sentences follow."""

    facts: tuple[tuple[Said, Cell], ...]
    models: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Code:
    """Text to be copied as it is, under an identifier and a name."""

    text: str
    id: str
    name: Said


@dataclass(frozen=True)
class Folded:
    """Blocks that a reader of the page unfolds, under an identifier."""

    title: Said
    id: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Badge:
    """A short fact: `ok`, something to `note`, a warning, or what makes a comparison `bad`."""

    kind: Literal["ok", "note", "warn", "bad"]
    text: Message


@dataclass(frozen=True)
class Verdict:
    """The question and its answer.

    Args:
        question: which the comparison asks.
        lead: the answer in one sentence.
        others: what belongs to it: the test, cost, what attention is worth, and what is not said.
        stopped: whether the models are not comparable.
        aside: what is said of models that are left out because they did not pass a gate of their own.
        badges: facts that decide how far the answer can be believed.
        origin: where the record comes from.
    """

    question: Message
    lead: Message
    others: tuple[Message, ...]
    stopped: bool = False
    aside: tuple[Message, ...] = ()
    badges: tuple[Badge, ...] = ()
    origin: tuple[str, ...] = ()


# tables


@dataclass(frozen=True)
class Noted:
    """Text with a note that the page shows on hover, such as why nothing was measured."""

    text: str
    note: Said


@dataclass(frozen=True)
class Linked:
    """Text that leads to the heading of an identifier, where the page can."""

    text: Said
    id: str


@dataclass(frozen=True)
class Quality:
    """A mean and its interval, as text."""

    mean: str
    interval: str


@dataclass(frozen=True)
class Stacked:
    """Text with a small one after it; `quoted` text is data, in whatever script and direction."""

    text: Said | Quality
    small: Said = ""
    quoted: bool = False


@dataclass(frozen=True)
class Strip:
    """Means with their intervals by model, drawn on the axis of their column."""

    entries: tuple[tuple[str, Estimate | None], ...]


@dataclass(frozen=True)
class Drawn:
    """A drawing in characters, all as wide as each other."""

    text: str


@dataclass(frozen=True)
class MarkedAnswer:
    """What a model said, None if it was not asked, drawn in pieces that the target shows to be right or wrong."""

    text: str | None
    target: str

    @property
    def marked(self) -> str:
        """The answer behind a sign that says whether it is right."""
        return NONE if self.text is None else f"{'✓' if self.text == self.target else '✗'} {self.text}"


Cell = Said | Noted | Linked | Stacked | Quality | Strip | Drawn | MarkedAnswer


@dataclass(frozen=True)
class Column:
    """The head of a column.

    Args:
        head: what stands in it.
        numeric: whether its cells are figures.
        model: whether the head is the name of a model, which gets its sign.
        small: a second line of the head.
        label: the head in a word or two, for Markdown and for narrow pages; default the head.
        axis: of its strips, drawn in place of the head.
    """

    head: Said
    numeric: bool = True
    model: bool = False
    small: Said = ""
    label: Said = ""
    axis: Scale | None = None


@dataclass(frozen=True)
class Row:
    """A row. The first cell is its head; `model` is whose row it is; `tone` says that it is no good news."""

    cells: tuple[Cell, ...]
    model: str = ""
    tone: Literal["", "bad"] = ""


@dataclass(frozen=True)
class Table:
    """A table; one without rows is not shown.

    Args:
        name: an identifier, unlike that of any other table of the report.
        columns: the heads.
        rows: one cell a column.
        style: `summary` (the table of the first screen), `formats` (parts of the test), `differences` (answers side
            by side), `dense` (low rows), or plain.
        shown: rows that are shown before the others are folded away; default all.
    """

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    style: Literal["plain", "dense", "summary", "formats", "differences"] = "plain"
    shown: int = 100_000


def model_table(name: str, heads: Iterable[Said], rows: Iterable[tuple[str, Iterable[Cell]]], words: int = 0) -> Table:
    """A table with a row for each model: its name, then figures.

    Args:
        name: of the table.
        heads: of the columns after the first.
        rows: the name of a model, and its cells.
        words: how many of the columns, the last ones, hold words.
    """
    texts = [message("col.model"), *heads]
    columns = tuple(Column(head, numeric=0 < k < len(texts) - words) for k, head in enumerate(texts))
    return Table(name, columns, tuple(Row((model, *cells), model) for model, cells in rows))


# pictures


@dataclass(frozen=True)
class Spot:
    """A place on a line, and how far its band goes."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ChartLine:
    """A line of a chart; one that has the name of a model has its sign.

    Args:
        name: of the line.
        spots: its places, from left to right.
        label: what it is called, in a legend below the chart, where that is not its name.
    """

    name: str
    spots: tuple[Spot, ...]
    label: Said = ""


@dataclass(frozen=True)
class Chart:
    """Lines with bands.

    Args:
        name: an identifier, unlike that of any other chart of the report.
        caption: what is drawn.
        lines: those without a spot are left out.
        scale: the axis of what is drawn.
        unit: what stands on the other axis.
        show: how an amount of it is written.
        choice: what the reader chooses it by, where it is one of several.
        across: the other axis, where it does not go from 0 to the last spot.
        height: what stands on the axis of `scale`, where the caption does not say it.
    """

    name: str
    caption: Said
    lines: tuple[ChartLine, ...]
    scale: Scale
    unit: Said
    #: How an amount of it is written.
    show: Callable[[float], str] = "{:g}".format
    choice: Said = ""
    across: Scale | None = None
    height: Said = ""


@dataclass(frozen=True)
class Charts:
    """Charts of which the page shows one at a time, under an identifier, with what it is that the reader chooses."""

    name: str
    chooser: Said
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class AttentionExplorer:
    """Examples with the attention of models, best first: an explorer, or the first example where nothing moves.

    At most one a report, and not folded away.
    """

    examples: tuple[AttentionExample, ...]
    models: tuple[str, ...]


Block = Paragraph | Heading | Items | Facts | Code | Folded | Verdict | Table | Chart | Charts | AttentionExplorer
