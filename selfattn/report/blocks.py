"""Blocks: the parts of a report's section as plain data that every renderer draws.

A section is a class with a title and a method that returns the blocks it shows of a record. It is registered by
name, with ``@register.section("parameters")`` above it:

>>> from selfattn.words.messages import phrase
>>> class Parameters:
...     title = phrase(en="Parameters", ko="파라미터")
...     after = "cost"
...     def blocks(self, record):
...         rows = tuple(Row((model.name, f"{model.parameters:,}"), model.name) for model in record.models)
...         return Paragraph("How large the models are."), Table("parameters", COLUMNS, rows)
>>> COLUMNS = (Column("model", numeric=False), Column("parameters"))

The class attribute `after` names the section that this one follows: rates, target, limits, budgets, learning,
attention, buckets, differences, statistics, cost, alignment, gates, fairness, reproduce, or a plugin's. Without it the
section stands at the end. A section whose `blocks` takes a second argument, `outputs`, is handed the outputs of the
test there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal

from selfattn.errors import UserError, describe_error
from selfattn.registry import SECTIONS
from selfattn.report.numbers import NONE, Scale, interval_text, mean_text
from selfattn.results.quality import Estimate, Unit
from selfattn.results.record import AttentionExample, Record
from selfattn.words.messages import Message, TextLike, message

Blocks = Callable[[Record], Iterable["Block"]]


def _problem(section: type) -> str | None:
    if lacking := [name for name in ("title", "blocks") if not hasattr(section, name)]:
        return f"{section.__name__} has no {' and no '.join(lacking)}"
    return None


SECTIONS.expect(object, _problem)


def section(key: str, title: str, after: str = "") -> Callable[[Blocks], Any]:
    """Register a function of a record as the section `key`.

    Args:
        key: of the section.
        title: key of its title in the catalogues.
        after: see above; default at the end.
    """

    def put(blocks: Blocks) -> Blocks:
        parts = {"title": message(title), "after": after, "blocks": staticmethod(blocks)}
        SECTIONS.register(key)(type(key, (), parts))
        return blocks

    return put


@dataclass(frozen=True)
class Outputs:
    """What every model wrote for every test item.

    Attributes:
        sources: the inputs.
        targets: their right outputs.
        by_model: for each model the outputs of its runs, in the order of its seeds.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    by_model: Mapping[str, tuple[tuple[str, ...], ...]]


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
        self, *sentences: TextLike | None, note: bool = False, code: str = "", link: tuple[TextLike, str] | None = None
    ) -> None:
        self.sentences = tuple(sentence for sentence in sentences if sentence)
        self.note = note
        self.code = code
        self.link = link


@dataclass(frozen=True)
class Heading:
    """A heading below that of the section, with its identifier and smaller text beside it."""

    text: TextLike
    id: str = ""
    aside: TextLike = ""


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[TextLike, ...]


@dataclass(frozen=True)
class Facts:
    """Names with their values; `wide` values are sentences."""

    facts: tuple[tuple[TextLike, Cell], ...]
    wide: bool = False


@dataclass(frozen=True)
class Code:
    """Text to be copied as it is, with an identifier and a name."""

    text: str
    id: str
    name: TextLike


@dataclass(frozen=True)
class Folded:
    """Blocks that a reader of the page unfolds, with an identifier."""

    title: TextLike
    id: str
    blocks: tuple[Block, ...]


BadgeKind = Literal["ok", "note", "warn", "bad"]


@dataclass(frozen=True)
class Badge:
    """A short fact: `ok`, something to `note`, a warning, or what makes a comparison `bad`."""

    kind: BadgeKind
    text: Message


@dataclass(frozen=True)
class Verdict:
    """The question and its answer.

    Attributes:
        question: what the comparison asks.
        lead: the answer in one sentence.
        others: the sentences that belong to the answer.
        stopped: whether the models are not comparable.
        aside: why models are left out of the comparison.
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
class Styled:
    """The text of a cell with what belongs to it.

    Attributes:
        text: the text.
        small: smaller text after it, such as an interval.
        strong: whether the text stands out from the small one.
        quoted: whether the text is data, in whatever script and direction.
        link: identifier of a heading that the text leads to, where the page can.
    """

    text: TextLike
    small: TextLike = ""
    strong: bool = False
    quoted: bool = False
    link: str = ""


def quality_cell(estimate: Estimate | None, kind: Unit = "share") -> Styled:
    """Return a mean and its interval as a cell."""
    return Styled(mean_text(estimate, kind), interval_text(estimate, kind) if estimate else NONE, strong=True)


@dataclass(frozen=True)
class Strip:
    """Means with their intervals by model, drawn on the axis of their column."""

    entries: tuple[tuple[str, Estimate | None], ...]


@dataclass(frozen=True)
class MarkedAnswer:
    """A model's output, None if there is none; the page marks where it differs from the target."""

    text: str | None
    target: str


@dataclass(frozen=True)
class Bars:
    """A small picture in a cell: a bar for each entry.

    Attributes:
        entries: what it is, its length as a share of the longest possible bar, and its value as text.
    """

    entries: tuple[tuple[TextLike, float, str], ...]


Cell = TextLike | Styled | Strip | MarkedAnswer | Bars


@dataclass(frozen=True)
class Column:
    """The head of a column.

    Attributes:
        head: its text.
        numeric: whether the cells are numbers.
        model: whether the head is the name of a model, which gets its sign.
        axis: of the strips in this column, drawn in place of the head.
    """

    head: TextLike
    numeric: bool = True
    model: bool = False
    axis: Scale | None = None


@dataclass(frozen=True)
class Row:
    """A row. The first cell is its head; `model` names the model of the row; `tone` marks bad news."""

    cells: tuple[Cell, ...]
    model: str = ""
    tone: Literal["", "bad"] = ""


@dataclass(frozen=True)
class Table:
    """A table; a table without rows is not shown.

    Attributes:
        name: an identifier, unlike that of any other table of the report.
        columns: the heads.
        rows: with a cell for each column.
        style: `summary` (the table of the first screen), `formats` (parts of the test), `differences` (outputs side
            by side), `dense` (low rows), or plain.
        shown: rows above the fold; default all.
    """

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    style: Literal["plain", "dense", "summary", "formats", "differences"] = "plain"
    shown: int = 100_000


def model_table(
    name: str, heads: Iterable[TextLike], rows: Iterable[tuple[str, Iterable[Cell]]], words: int = 0
) -> Table:
    """Return a table with a row for each model.

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
    """A point of a line with the ends of its band; a `chosen` point is ringed."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    chosen: bool = False


@dataclass(frozen=True)
class ChartLine:
    """A line of a chart; a line with the name of a model has the model's sign.

    Attributes:
        name: of the line.
        spots: its points, from left to right.
        label: its name in a legend below the chart, where the name itself should not be shown.
    """

    name: str
    spots: tuple[Spot, ...]
    label: TextLike = ""


@dataclass(frozen=True)
class Chart:
    """Lines with bands.

    Attributes:
        name: an identifier, unlike that of any other chart of the report.
        caption: what is drawn.
        lines: those without a spot are left out.
        scale: the vertical axis.
        unit: of the horizontal axis.
        show: returns a value of the horizontal axis as text; default six digits at most.
        choice: the name by which the reader chooses this chart, where it is one of several.
        across: the horizontal axis, where it does not go from 0 to the last spot.
        height: the name of the vertical axis, where the caption does not say it.
    """

    name: str
    caption: TextLike
    lines: tuple[ChartLine, ...]
    scale: Scale
    unit: TextLike
    show: Callable[[float], str] = field(default=lambda value: f"{value:g}")
    choice: TextLike = ""
    across: Scale | None = None
    height: TextLike = ""


def drawn(charts: Iterable[Chart]) -> tuple[Chart, ...]:
    """Return the charts that have a spot."""
    return tuple(chart for chart in charts if any(line.spots for line in chart.lines))


@dataclass(frozen=True)
class Charts:
    """Charts of which the page shows one at a time, with an identifier and a name for the choice."""

    name: str
    chooser: TextLike
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class HeatMap:
    """A grid of values between 0 and 1; the darker a cell, the larger its value.

    Attributes:
        name: an identifier, unlike that of any other table of the report.
        caption: what is drawn.
        rows: names of the rows.
        columns: names of the columns.
        values: one row of values for each row.
    """

    name: str
    caption: TextLike
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    def table(self) -> Table:
        """Return the values as a table, for where there are no pictures."""
        columns = (Column("", numeric=False), *map(Column, self.columns))
        rows = zip(self.rows, self.values, strict=True)
        return Table(self.name, columns, tuple(Row((row, *(f"{value:.2f}" for value in cells))) for row, cells in rows))


@dataclass(frozen=True)
class AttentionExplorer:
    """Examples with the attention of models, best first: an explorer, or the first example where nothing moves.

    At most one a report, and not folded away.

    Attributes:
        examples: in the order in which they are shown.
        models: that are shown.
        second: the source token with which the second of two sentences begins; None where there is one.
        is_shifted: whether row k belongs to the step that wrote target token k, not to the one that read it.
        without: names of layers that handed over no weights.
    """

    examples: tuple[AttentionExample, ...]
    models: tuple[str, ...]
    second: int | None = None
    is_shifted: bool = True
    without: tuple[str, ...] = ()


Block = (
    Paragraph | Heading | Items | Facts | Code | Folded | Verdict | Table | Chart | Charts | HeatMap | AttentionExplorer
)


# pages


@dataclass(frozen=True)
class Part:
    """A section with what it shows.

    Attributes:
        key: of the section.
        title: its heading.
        blocks: what it shows.
        is_plugin: whether a plugin brought it.
        names: whose signs are drawn in it, where they are not those of the whole page.
    """

    key: str
    title: TextLike
    blocks: tuple[Block, ...]
    is_plugin: bool = False
    names: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The key as an identifier, which has no spaces."""
        return self.key.replace(" ", "-")


@dataclass(frozen=True)
class Document:
    """A page in no language and no format yet: what every renderer draws.

    Attributes:
        verdict: the question and its answer.
        first: what else the first screen shows.
        parts: the sections.
        names: whose signs are drawn, such as models.
        version: of the package that made what is shown.
        has_contents: whether a line of links to the sections is needed; no where the first screen has them.
    """

    verdict: Verdict
    first: tuple[Block, ...]
    parts: tuple[Part, ...]
    names: tuple[str, ...] = ()
    version: str = ""
    has_contents: bool = True


def contents(record: Record, outputs: Outputs | None = None) -> tuple[Part, ...]:
    """Every section that shows something of a record.

    Raises:
        UserError: a section that is not the project's does not make its blocks.
    """
    order: list[str] = []
    for key in sorted(SECTIONS, key=lambda key: bool(getattr(SECTIONS[key], "after", ""))):
        after = getattr(SECTIONS[key], "after", "")
        if after and after not in SECTIONS:
            names = ", ".join(SECTIONS)
            raise UserError(f"section {key!r}: after = {after!r} is no section; choose one of {names}")
        order.insert(order.index(after) + 1 if after in order else len(order), key)
    return tuple(part for part in (_part(record, key, outputs) for key in order) if part.blocks)


def _part(record: Record, key: str, outputs: Outputs | None) -> Part:
    section = SECTIONS[key]
    is_plugin = not section.__module__.startswith("selfattn.report.")
    try:
        instance = section() if isinstance(section, type) else section
        more = (outputs,) if "outputs" in signature(instance.blocks).parameters else ()
        blocks = () if more == (None,) else tuple(instance.blocks(record, *more))
    except Exception as error:
        if not is_plugin:
            raise
        raise UserError(f"section {key!r}: shows nothing ({describe_error(error)}); mend its file") from error
    return Part(key, instance.title, blocks, is_plugin)
