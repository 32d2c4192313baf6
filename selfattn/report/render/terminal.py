"""The report's twin in the terminal: the first screen in 80 columns, and any section that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from selfattn.console import all_visible
from selfattn.report import blocks as b
from selfattn.report.contents import contents
from selfattn.report.drawing.attention_text import attention_text
from selfattn.report.drawing.charts import COLUMNS, axis_text, chart_table, strip_text
from selfattn.report.drawing.palette import ANSI, Signs
from selfattn.report.drawing.scale import Scale
from selfattn.report.drawing.tokens import wrapped
from selfattn.report.render.explorer import first_maps
from selfattn.report.sections.first_screen import brief
from selfattn.results.quality import Estimate
from selfattn.results.record import Record
from selfattn.words.catalogue import SOURCE
from selfattn.words.messages import Said, message, said

_PROSE = 90  # columns; longer lines are hard to read
_BULLETS = {"words": ("· ", ""), "gaps": ("", "dim"), "bad": ("✗ ", "red"), "runs": ("· ", "")}
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
    record = all_visible(record)
    screen = _Screen(console, lang, Signs([model.name for model in record.models]))
    screen.all(brief(record))
    for part in contents(record):
        if not part.own or part.key in sections:
            screen.list(["", part.title], style="bold underline")
            screen.all([*part.blocks, b.Paragraph()])
    if report is not None:
        console.print(Text(message("report.at", path=str(report)).say(lang)), soft_wrap=True)


def print_blocks(blocks: Iterable[b.Block], console: Console, lang: str = SOURCE, names: Sequence[str] = ()) -> None:
    """Print blocks one below the other.

    Args:
        blocks: what is printed.
        console: where to.
        lang: the language.
        names: whose signs are drawn, such as models; default as they come.
    """
    _Screen(console, lang, Signs(names)).all(blocks)


class _Screen:
    """Blocks as lines of a terminal, in one language."""

    def __init__(self, console: Console, lang: str, signs: Signs) -> None:
        self.console, self.lang, self.signs = console, lang, signs

    def all(self, blocks: Iterable[b.Block]) -> None:
        """Print blocks one below the other."""
        for block in blocks:
            self.draw(block)

    def draw(self, block: b.Block) -> None:
        """Print one block."""
        match block:
            case b.Paragraph():
                texts = [text for one in (*block.sentences, block.code) if (text := said(one, self.lang))]
                self.list([" ".join(texts)] if texts else [], style="dim" if block.note else "")
            case b.Heading():
                self.list(["", block.text], style="bold")
                self.list([block.aside] if block.aside else [], style="dim")
            case b.Items():
                self.list(block.items, *_BULLETS[block.style])
            case b.Facts():
                facts = (f"{said(name, self.lang)}: {self.cell(one).plain}" for name, one in block.facts)
                self.list([" ".join(fact.split("\n")) for fact in facts])
            case b.Code():
                self.console.print(Text(block.text), soft_wrap=True)
            case b.Folded():
                self.all([b.Heading(block.title), *block.blocks])
            case b.Verdict():
                self.verdict(block)
            case b.Table():
                self.table(block)
            case b.Chart():
                self.all([b.Paragraph(block.caption), chart_table(block)])
            case b.Charts():
                self.draw(block.charts[0])
            case b.AttentionExplorer():
                self.attention(block)

    def list(self, texts: Iterable[Said], bullet: str = "", style: str = "") -> None:
        """Print texts one below the other, in lines that are easy to read."""
        for text in texts:
            lines = wrapped((bullet + said(text, self.lang)).split(" "), min(self.console.width, _PROSE))
            self.console.print(Text("\n".join(lines), style=style))

    def verdict(self, block: b.Verdict) -> None:
        """Print the question, the answer and the badges."""
        self.list(["", block.question, ""], style="bold")
        self.list([block.lead], style="bold red" if block.stopped else "")
        self.list([" ".join(sentence.say(self.lang) for sentence in block.others)], style="dim")
        self.list(block.aside, *_BULLETS["bad"])
        line = Text("\n")
        for badge in block.badges:
            glyph, style = _BADGES[badge.kind]
            line.append(f"{glyph} ", style=style).append(f"{badge.text.say(self.lang)}   ")
        self.console.print(line)

    def table(self, block: b.Table) -> None:
        """Print a table that has rows."""
        table = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
        for k, column in enumerate(block.columns):
            drawn, right = column.axis is not None, column.numeric and column.axis is None
            head = axis_text(column.axis) if column.axis else said(column.label or column.head, self.lang)
            table.add_column(
                Text(head),
                justify="right" if right else "left",
                no_wrap=drawn or (block.style == "summary" and k > 0),
                width=COLUMNS if drawn else None,
                overflow="fold",
            )
        for row in block.rows:
            cells = [self.cell(one, column.axis) for one, column in zip(row.cells, block.columns, strict=True)]
            if row.model:
                sign = self.signs[row.model]
                cells[0] = Text(sign.glyph, ANSI[sign.colour]).append(f" {cells[0].plain}", style="default")
            table.add_row(*cells, style="red" if row.tone else None)
        if block.rows:
            self.console.print(Padding(table, (1, 0)))

    def cell(self, cell: b.Cell, axis: Scale | None = None) -> Text:
        """What stands in a cell."""
        match cell:
            case b.Quality():
                return Text(cell.mean, style="bold").append(f" {cell.interval}", style="not bold dim")
            case b.Noted() | b.Drawn():
                return Text(cell.text)
            case b.Linked():
                return Text(said(cell.text, self.lang))
            case b.Stacked():
                text, small = self.cell(cell.text), said(cell.small, self.lang)
                return text.append(f"\n{small}", style="not bold italic dim") if small else text
            case b.MarkedAnswer():
                return Text(cell.marked)
            case b.Strip():
                return Text("\n").join(self.strip(axis or Scale(), name, one) for name, one in cell.entries)
        return Text(said(cell, self.lang))

    def strip(self, scale: Scale, name: str, estimate: Estimate | None) -> Text:
        """Print a mean with its interval in characters."""
        sign = self.signs[name]
        text, start, end = strip_text(scale, sign, estimate)
        drawn = Text(text, style="dim")
        drawn.stylize(f"not dim {ANSI[sign.colour]}", start, end)
        return drawn

    def attention(self, block: b.AttentionExplorer) -> None:
        """Print the maps of the first example."""
        self.list([f"{block.examples[0].source} → {block.examples[0].target}"])
        for name, one, weights in first_maps(block):
            self.list([f"{self.signs[name].glyph} {name}: {one.prediction}"], style="bold")
            picture = attention_text(weights, one.source_tokens, one.target_tokens, columns=self.console.width)
            self.console.print(Padding(picture, (0, 0, 1, 0)))
