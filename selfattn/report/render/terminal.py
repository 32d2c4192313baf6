"""The report's twin in the terminal: the first screen in 80 columns, and any section that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatchmethod
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from selfattn.figures.quality import Estimate
from selfattn.figures.record import Record
from selfattn.report.blocks import (
    Answer,
    AttentionMaps,
    Block,
    Cell,
    Chart,
    Charts,
    Code,
    Column,
    Drawn,
    Facts,
    Folded,
    Heading,
    Items,
    Noted,
    Paragraph,
    Quality,
    Row,
    Stacked,
    Strip,
    Table,
    Verdict,
)
from selfattn.report.contents import contents
from selfattn.report.drawing.attention_text import attention_text
from selfattn.report.drawing.charts import COLUMNS, axis_text, chart_table, strip_text
from selfattn.report.drawing.numbers import NONE
from selfattn.report.drawing.palette import ANSI, Signs
from selfattn.report.drawing.scale import Scale
from selfattn.report.drawing.tokens import width
from selfattn.report.render.explorer import first_maps
from selfattn.report.sections.first_screen import brief
from selfattn.report.words.catalogue import SOURCE
from selfattn.report.words.messages import Said, message, said

_PROSE = 90  # columns; longer lines are hard to read
_BADGES = {"ok": ("●", "green"), "note": ("○", "dim"), "warn": ("▲", "yellow"), "bad": ("✗", "red")}


def print_summary(
    record: Record,
    console: Console,
    report: str | Path | None = None,
    lang: str = SOURCE,
    sections: Sequence[str] = (),
) -> None:
    """Print the first screen, the sections that are not the project's own, and the report's path.

    Args:
        record: the comparison.
        console: where to print; 80 columns are enough for names of up to 15 characters.
        report: path of `report.html`; default none, and no path is printed.
        lang: the language.
        sections: further sections to print, by key.
    """
    screen = _Screen(console, lang, Signs([model.name for model in record.models]))
    screen.all(brief(record))
    for part in contents(record):
        if not part.own or part.key in sections:
            console.print()
            screen.say(part.title, "bold underline")
            screen.all(part.blocks)
            console.print()
    if report is not None:
        console.print(Text(message("report.at", path=str(report)).say(lang)), soft_wrap=True)


class _Screen:
    """Blocks as lines of a terminal, in one language."""

    def __init__(self, console: Console, lang: str, signs: Signs) -> None:
        self.console, self.lang, self.signs = console, lang, signs

    def all(self, blocks: Iterable[Block]) -> None:
        """Print blocks one below the other."""
        for block in blocks:
            self.draw(block)

    def say(self, text: Said, style: str = "") -> None:
        """Print text in lines that are easy to read."""
        columns = min(self.console.width, _PROSE)
        self.console.print(Text(_wrapped(said(text, self.lang), columns), style=style))

    @singledispatchmethod
    def draw(self, block: Block) -> None:
        """Print one block."""
        raise NotImplementedError(type(block).__name__)

    @draw.register
    def _(self, block: Paragraph) -> None:
        texts = [*(said(one, self.lang) for one in block.sentences), block.code]
        if any(texts):
            self.say(" ".join(text for text in texts if text), "dim" if block.note else "")

    @draw.register
    def _(self, block: Heading) -> None:
        self.console.print()
        self.say(block.text, "bold")
        if block.aside:
            self.say(block.aside, "dim")

    @draw.register
    def _(self, block: Items) -> None:
        sign, style = {"words": ("· ", ""), "gaps": ("", "dim"), "bad": ("✗ ", "red"), "runs": ("· ", "")}[block.style]
        for one in block.items:
            self.say(f"{sign}{said(one, self.lang)}", style)

    @draw.register
    def _(self, block: Facts) -> None:
        for name, one in block.facts:
            self.say(" ".join(f"{said(name, self.lang)}: {self.cell(one, None).plain}".split("\n")))

    @draw.register
    def _(self, block: Code) -> None:
        self.console.print(Text(block.text), soft_wrap=True)

    @draw.register
    def _(self, block: Folded) -> None:
        self.draw(Heading(block.title))
        self.all(block.blocks)

    @draw.register
    def _(self, block: Verdict) -> None:
        self.console.print()
        self.say(block.question, "bold")
        self.console.print()
        self.say(block.lead, "bold red" if block.stopped else "")
        self.say(" ".join(sentence.say(self.lang) for sentence in block.others), "dim")
        self.draw(Items(block.aside, "bad"))
        self.console.print()
        line = Text()
        for badge in block.badges:
            glyph, style = _BADGES[badge.kind]
            line.append(f"{glyph} ", style=style).append(f"{badge.text.say(self.lang)}   ")
        self.console.print(line)

    @draw.register
    def _(self, block: Table) -> None:
        if not block.rows:
            return
        table = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
        for k, column in enumerate(block.columns):
            justify: Literal["left", "right"] = "right" if column.numeric and column.axis is None else "left"
            whole = column.axis is not None or (block.style == "summary" and k > 0)
            size = None if column.axis is None else COLUMNS
            table.add_column(self._head(column), justify=justify, no_wrap=whole, width=size, overflow="fold")
        for row in block.rows:
            cells = [self.cell(one, column.axis) for one, column in zip(row.cells, block.columns, strict=True)]
            table.add_row(self._name(row, cells[0]), *cells[1:], style="red" if row.tone else None)
        self.console.print(Padding(table, (1, 0)))

    def _head(self, column: Column) -> Text:
        if column.axis is not None:
            return Text(axis_text(column.axis))
        return Text(said(column.label or column.head, self.lang))

    def _name(self, row: Row, cell: Text) -> Text:
        if not row.model:
            return cell
        sign = self.signs[row.model]
        return Text(sign.glyph, style=ANSI[sign.colour]).append(f" {cell.plain}", style="default")

    def cell(self, cell: Cell, axis: Scale | None) -> Text:
        """What stands in a cell."""
        match cell:
            case Quality():
                return Text(cell.mean, style="bold").append(f" {cell.interval}", style="not bold dim")
            case Noted() | Drawn():
                return Text(cell.text)
            case Stacked():
                small = said(cell.small, self.lang)
                text = self.cell(cell.text, axis)
                return text.append(f"\n{small}", style="not bold italic dim") if small else text
            case Answer():
                right = cell.text == cell.target
                return Text(NONE if cell.text is None else f"{'✓' if right else '✗'} {cell.text}")
            case Strip() if axis is not None:
                return Text("\n").join(self._strip(axis, name, one) for name, one in cell.entries)
            case Strip():
                return Text()
        return Text(said(cell, self.lang))

    def _strip(self, scale: Scale, name: str, estimate: Estimate | None) -> Text:
        sign = self.signs[name]
        text, start, end = strip_text(scale, sign, estimate)
        drawn = Text(text, style="dim")
        drawn.stylize(f"not dim {ANSI[sign.colour]}", start, end)
        return drawn

    @draw.register
    def _(self, block: Chart) -> None:
        self.say(block.caption)
        self.draw(chart_table(block))

    @draw.register
    def _(self, block: Charts) -> None:
        self.draw(block.charts[0])

    @draw.register
    def _(self, block: AttentionMaps) -> None:
        """The first example."""
        self.say(f"{block.examples[0].source} → {block.examples[0].target}")
        for name, one, weights in first_maps(block):
            self.say(f"{self.signs[name].glyph} {name}: {one.prediction}", "bold")
            picture = attention_text(weights, one.source_tokens, one.target_tokens, columns=self.console.width)
            self.console.print(Padding(picture, (0, 0, 1, 0)))


def _wrapped(text: str, columns: int) -> str:
    """Lines of at most so many columns, broken at spaces but, unlike rich does it, not at no-break spaces."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if width(longer) <= columns:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)
