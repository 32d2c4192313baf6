"""Render a report as text: Markdown with the words and numbers of the page, and its first screen for a terminal."""

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from selfattn.errors import all_visible
from selfattn.report import blocks as b
from selfattn.report.numbers import NONE
from selfattn.report.pictures import ANSI, Signs, chart_table
from selfattn.report.sections.quality import brief
from selfattn.results.record import Record
from selfattn.words.messages import SOURCE, TextLike, message, text_of

# What Markdown could read as markup; an interval such as [99.1, 99.9] stays readable in the source of the document.
_SPECIAL = re.compile(r"[\\`*<>|~&]|^[#>+=-]|(?<![^\W_])_|_(?![^\W_])|\[(?![\d.,–+−\s]*\](?![\[(:]))")

# What begins a list, a heading or a quotation where it stands first in a line.
_FIRST = re.compile(r"^ *\d*(?=[#>+=.)-]+(?: |$))")
_WIDTH = 120  # of a line of text, in characters


def markdown_of(document: b.Document, lang: str = SOURCE) -> str:
    """Render a document as Markdown with GitHub's tables; the same document gives the same text."""
    page = MarkdownPage(lang)
    texts = [page.all([document.verdict, *document.first])]
    for part in document.parts:
        page.nested = False
        texts.append(f"## {page.say(part.title)}\n\n{page.all(part.blocks)}")
    return "\n\n".join(texts) + "\n"


def table_cells(block: b.Table, lang: str) -> list[list[str]]:
    """Return a table as text without markup, its heads first; columns in which pictures stand are left out."""
    return MarkdownPage(lang, escape=lambda text: " ".join(text.split()), line="; ").rows(block)


def plain(text: str) -> str:
    """Escape text so that Markdown shows it as it is, in one line.

    Example:
        >>> print(plain("a|b *c* <d>"))
        a\\|b \\*c\\* \\<d\\>
    """
    return _SPECIAL.sub(lambda special: "\\" + special[0], " ".join(text.splitlines()))


def wrap_text(text: str) -> str:
    """Break a paragraph or an item of a list into lines; what it says stays the same.

    Example:
        >>> wrap_text("- " + "word " * 26).splitlines()[1]
        '  word word word'
    """
    indent = "  " if text.startswith("- ") else ""
    breaks = textwrap.TextWrapper(_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    lines = breaks.wrap(text)
    return "\n".join((*lines[:1], *(_FIRST.sub(r"\g<0>\\", line) for line in lines[1:])))


def without_pictures(block: b.Block) -> tuple[b.Block, ...]:
    """Return what stands for a block where nothing is drawn or folded; nothing for text and tables."""
    match block:
        case b.Folded():
            return b.Heading(block.title), *block.blocks
        case b.Chart():
            return b.Paragraph(block.caption), chart_table(block)
        case b.Charts():
            return block.charts[0], b.Paragraph(message("chart.others"))
        case b.HeatMap():
            return b.Paragraph(block.caption), block.table()
    return ()


@dataclass
class MarkdownPage:
    """Draws blocks as Markdown in one language.

    Attributes:
        lang: the language.
        level: of headings; it grows inside what the page folds away.
        escape: makes a text safe.
        between: what stands between a text of a cell and the small one after it.
        line: what stands between the bars of a cell.
        nested: whether a heading of the section stands above: what is folded away stands one level lower.
    """

    lang: str
    level: int = 3
    escape: Callable[[str], str] = plain
    between: str = ", "
    line: str = "<br>"
    nested: bool = False

    def all(self, blocks: Iterable[b.Block]) -> str:
        """Draw blocks one below the other; those that show nothing are left out."""
        return "\n\n".join(filter(None, map(self.draw, blocks)))

    def say(self, text: TextLike) -> str:
        """Return escaped text."""
        return self.escape(text_of(text, self.lang))

    def draw(self, block: b.Block) -> str:
        """Draw one block."""
        match block:
            case b.Paragraph():
                parts = [*map(self.say, block.sentences), plain(block.code)]
                if block.link and not block.link[1].startswith("#"):
                    parts.append(f"[{self.say(block.link[0])}]({block.link[1]})")
                return wrap_text(" ".join(filter(None, parts)))
            case b.Heading():
                self.nested = True
                texts = f"{'#' * self.level} {self.say(block.text)}", wrap_text(self.say(block.aside))
                return "\n\n".join(filter(None, texts))
            case b.Items():
                return "\n".join(wrap_text(f"- {self.say(item)}") for item in block.items)
            case b.Facts():
                return "\n".join(wrap_text(f"- {self.say(name)}: {self.cell(value)}") for name, value in block.facts)
            case b.Code():
                fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", block.text)), 3)
                return f"{fence}\n{block.text}\n{fence}"
            case b.Folded():
                return MarkdownPage(self.lang, self.level + self.nested).all(without_pictures(block))
            case b.Verdict():
                return self.verdict(block)
            case b.Table():
                return self.table(block) if block.rows else ""
            case b.AttentionExplorer():
                return wrap_text(self.say(message("markdown.maps")))
            case _:
                return self.all(without_pictures(block))

    def verdict(self, block: b.Verdict) -> str:
        """Draw the question, the answer, the badges and where the record comes from."""
        texts = (
            f"**{self.say(block.lead)}**",
            " ".join(map(self.say, block.others)),
            " ".join(f"**{self.say(sentence)}**" for sentence in block.aside),
            plain(" · ".join(badge.text.say(self.lang) for badge in block.badges)),
            plain(" · ".join(block.origin)),
        )
        return "\n\n".join((f"# {self.say(block.question)}", *map(wrap_text, filter(None, texts))))

    def table(self, block: b.Table) -> str:
        """Draw a table."""
        rules = ["---:" if column.numeric else "---" for column in block.columns if column.axis is None]
        heads, *body = self.rows(block)
        return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rules, *body))

    def rows(self, block: b.Table) -> list[list[str]]:
        """Return the cells of a table, its heads first, without columns in which pictures stand."""
        places = [k for k, column in enumerate(block.columns) if column.axis is None]
        heads = [self.say(block.columns[k].head) for k in places]
        return [heads, *([self.cell(row.cells[k]) for k in places] for row in block.rows)]

    def cell(self, cell: b.Cell) -> str:
        """Draw what stands in a cell."""
        match cell:
            case b.Styled():
                text = self.escape(str(cell.text)) if cell.quoted else self.say(cell.text)
                small = self.say(cell.small)
                between = " " if cell.strong or small.startswith(("(", "[")) else self.between
                return text + between + small if small else text
            case b.MarkedAnswer():
                sign = "✓" if cell.text == cell.target else "✗"
                return NONE if cell.text is None else self.escape(f"{sign} {cell.text}")
            case b.Bars():
                texts = []
                for label, length, value in cell.entries:
                    bar = "█" * round(8 * min(max(length, 0), 1))
                    texts.append(f"{bar:░<8} {self.say(value)} {self.say(label)}")
                return self.line.join(texts)
            case b.Strip():
                return ""
        return self.say(cell)


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
    for part in b.contents(record):
        if part.is_plugin:
            screen.all([b.Heading(part.title), *part.blocks])
    if report is not None:
        console.print()
        console.print(Text(message("report.at", path=str(report)).say(lang)), soft_wrap=True)


def print_blocks(blocks: Iterable[b.Block], lang: str = SOURCE) -> None:
    """Print blocks one below the other on standard output.

    Args:
        blocks: what is printed.
        lang: the language.
    """
    _Screen(Console(highlight=False), lang, Signs([])).all(blocks)


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
            from rich.markdown import Markdown  # 64 modules, for a terminal alone

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
