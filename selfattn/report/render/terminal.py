"""Print the first screen of a report in 80 columns, and the sections of plugins."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from selfattn.errors import all_visible
from selfattn.report import blocks as b
from selfattn.report.drawing.charts import ANSI, Signs
from selfattn.report.render.markdown import MarkdownPage, without_pictures
from selfattn.report.sections.quality import brief
from selfattn.report.write import contents
from selfattn.results.record import Record
from selfattn.words.messages import SOURCE, message, text_of

_PROSE = 90  # columns; longer lines are hard to read
_TEXT = 10  # columns for words that may be broken into lines
_BADGES = {"ok": ("●", "green"), "note": ("○", "dim"), "warn": ("!", "yellow"), "bad": ("✗", "red")}


def print_summary(
    record: Record, console: Console | None = None, report: str | Path | None = None, lang: str = SOURCE
) -> None:
    """Print the first screen, the sections of plugins, and the path of the report.

    Args:
        record: the comparison.
        console: where to print, default standard output; 80 columns are enough for names of up to 15 characters.
        report: path of `report.html`; default none, and no path is printed.
        lang: the language.
    """
    record = all_visible(record)
    console = console or Console(highlight=False)
    screen = _Screen(console, lang, Signs([model.name for model in record.models]))
    screen.all(brief(record))
    for part in contents(record):
        if part.is_plugin:
            screen.all([b.Heading(part.title), *part.blocks])
    if report is not None:
        console.print()
        console.print(Text(message("report.at", path=str(report)).say(lang)), soft_wrap=True)


def print_blocks(blocks: Iterable[b.Block], console: Console | None = None, lang: str = SOURCE) -> None:
    """Print blocks one below the other.

    Args:
        blocks: what is printed.
        console: where to; default standard output.
        lang: the language.
    """
    _Screen(console or Console(highlight=False), lang, Signs([])).all(blocks)


class _Screen:
    """Blocks as lines of a terminal, in one language: tables of rich's own, all other text as Markdown."""

    def __init__(self, console: Console, lang: str, signs: Signs) -> None:
        self.console = console
        self.lang = lang
        self.signs = signs
        self.page = MarkdownPage(lang)
        self.cells = MarkdownPage(lang, escape=str, between="\n", line="\n")

    def all(self, blocks: Iterable[b.Block]) -> None:
        """Print blocks one below the other."""
        for block in blocks:
            self.draw(block)

    def draw(self, block: b.Block) -> None:
        """Print one block."""
        match block:
            case b.Code():
                self.console.print(Text(f"\n{block.text}"), soft_wrap=True)
            case b.Verdict():
                self.verdict(block)
            case b.Table():
                self.table(block)
            case b.Folded() | b.Chart() | b.Charts() | b.HeatMap():
                self.all(without_pictures(block))
            case _:
                is_note = isinstance(block, b.Paragraph) and block.note
                self.text(self.page.draw(block), "dim" if is_note else "")

    def text(self, markdown: str, style: str = "") -> None:
        """Print Markdown in lines that are easy to read, below an empty line."""
        if markdown:
            if not markdown.startswith("- "):  # rich begins a list with an empty line itself
                self.console.print()
            self.console.print(Markdown(markdown), style=style or None, width=min(self.console.width, _PROSE))

    def verdict(self, block: b.Verdict) -> None:
        """Print the question, the answer and the badges."""
        say = self.page.say
        self.text(f"**{say(block.question)}**")
        self.text(say(block.lead), "bold red" if block.stopped else "")
        self.text(" ".join(map(say, block.others)), "dim")
        self.text("\n".join(f"- {say(sentence)}" for sentence in block.aside), "yellow")
        badges = [(*_BADGES[badge.kind], text_of(badge.text, self.lang)) for badge in block.badges]
        self.console.print()
        self.console.print(Columns([Text.assemble((glyph, style), " ", text) for glyph, style, text in badges]))

    def table(self, block: b.Table) -> None:
        """Print a table that has rows; columns that do not fit beside the others stand in a table below."""
        if not block.rows:
            return
        heads, *rows = self.cells.rows(block)
        columns = [column for column in block.columns if column.axis is None]
        of_models = any(row.model for row in block.rows)
        widths = []
        longest = []
        for k, column in enumerate(columns):
            is_whole = of_models and k < 2  # names and scores are never broken
            lines = "\n".join(row[k] for row in rows).split("\n")
            width = max(map(cell_len, lines)) + 2 * (of_models and k == 0)
            longest.append(max(width, cell_len(heads[k])))
            if not (column.numeric or is_whole):  # broken between words
                width = min(width, max(_TEXT, *map(cell_len, " ".join(lines).split(" "))))
            widths.append(max(width, *map(cell_len, [heads[k]] if is_whole else heads[k].split())))
        for places in _side_by_side(widths, self.console.width):
            spare = self.console.width - sum(widths[k] + 1 for k in places) + 1
            table = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
            for k in places:
                more = max(0, min(spare, longest[k] - widths[k]))
                spare -= more
                table.add_column(
                    Text(heads[k]),
                    justify="right" if columns[k].numeric else "left",
                    overflow="fold",
                    width=min(widths[k] + more, self.console.width),
                )
            for row, cells in zip(block.rows, rows, strict=True):
                sign = self.signs[row.model] if row.model else None
                first = Text.assemble((sign.glyph, ANSI[sign.colour]), f" {cells[0]}") if sign else Text(cells[0])
                table.add_row(first, *(Text(cells[k]) for k in places[1:]), style="red" if row.tone else None)
            self.console.print(Padding(table, (1, 0, 0, 0)))


def _side_by_side(widths: Sequence[int], room: int) -> list[list[int]]:
    """Divide columns into tables that are not wider than the room; the first column stands in each.

    Example:
        >>> _side_by_side([10, 20, 20, 30], room=60)
        [[0, 1, 2], [0, 3]]
    """
    tables = [[0]]
    taken = widths[0]
    for k, width in enumerate(widths[1:], 1):
        if taken + 1 + width > room and len(tables[-1]) > 1:
            tables.append([0])
            taken = widths[0]
        tables[-1].append(k)
        taken += 1 + width
    return tables
