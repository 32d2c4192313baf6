"""The report as Markdown: the same words and figures as the page, for places that show no HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import singledispatchmethod

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
    Stacked,
    Strip,
    Table,
    Verdict,
)
from selfattn.report.contents import contents
from selfattn.report.drawing.charts import axis_text, chart_table, strip_text
from selfattn.report.drawing.numbers import NONE
from selfattn.report.drawing.palette import Signs
from selfattn.report.drawing.scale import Scale
from selfattn.report.sections.first_screen import first_screen
from selfattn.report.words.catalogue import SOURCE
from selfattn.report.words.messages import Said, message, said

# What Markdown could read as markup; an interval such as [99.1, 99.9] stays readable in the source of the document.
_SPECIAL = re.compile(r"[\\`*<>|~&]|^[#>+=-]|(?<![^\W_])_|_(?![^\W_])|\[(?![\d.,–+−\s]*\](?![\[(:]))")


def render_markdown(record: Record, lang: str = SOURCE) -> str:
    """Render a record as Markdown (GitHub's tables); the same record gives the same text.

    Args:
        record: the comparison.
        lang: the language of the text.

    Returns:
        The document.
    """
    page = _Page(lang, Signs([model.name for model in record.models]))
    found = page.all(first_screen(record))
    for part in contents(record):
        found += [f"## {page.say(part.title)}", *page.all(part.blocks)]
    return "\n\n".join(text for text in found if text) + "\n"


def plain(text: str) -> str:
    """Text that Markdown shows as it is, in one line.

    Example:
        >>> print(plain("a|b *c* <d>"))
        a\\|b \\*c\\* \\<d\\>
    """
    return _SPECIAL.sub(lambda found: "\\" + found[0], " ".join(text.splitlines()))


class _Page:
    """Blocks as Markdown in one language; the level of headings grows inside what the page folds away."""

    def __init__(self, lang: str, signs: Signs, level: int = 3) -> None:
        self.lang, self.signs, self.level = lang, signs, level

    def all(self, blocks: Iterable[Block]) -> list[str]:
        """Each block; an empty text for one that shows nothing."""
        return [self.draw(block) for block in blocks]

    def say(self, text: Said) -> str:
        """Escaped text."""
        return plain(said(text, self.lang))

    @singledispatchmethod
    def draw(self, block: Block) -> str:
        """One block."""
        raise NotImplementedError(type(block).__name__)

    @draw.register
    def _(self, block: Paragraph) -> str:
        return " ".join([*map(self.say, block.sentences), *([plain(block.code)] if block.code else [])])

    @draw.register
    def _(self, block: Heading) -> str:
        aside = f"\n\n{self.say(block.aside)}" if block.aside else ""
        return f"{'#' * self.level} {self.say(block.text)}{aside}"

    @draw.register
    def _(self, block: Items) -> str:
        return "\n".join(f"- {self.say(one)}" for one in block.items)

    @draw.register
    def _(self, block: Facts) -> str:
        mark = "**" if block.models else ""
        return "\n".join(f"- {mark}{self.say(name)}{mark}: {self.cell(one)}" for name, one in block.facts)

    @draw.register
    def _(self, block: Code) -> str:
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", block.text)), 3)
        return f"{fence}\n{block.text}\n{fence}"

    @draw.register
    def _(self, block: Folded) -> str:
        inner = _Page(self.lang, self.signs, self.level + 1)
        return "\n\n".join([inner.draw(Heading(block.title)), *inner.all(block.blocks)])

    @draw.register
    def _(self, block: Verdict) -> str:
        texts = (
            f"# {self.say(block.question)}",
            f"**{self.say(block.lead)}**",
            " ".join(map(self.say, block.others)),
            " ".join(f"**{self.say(sentence)}**" for sentence in block.aside),
            plain(" · ".join(badge.text.say(self.lang) for badge in block.badges)),
            plain(" · ".join(block.origin)),
        )
        return "\n\n".join(text for text in texts if text)

    @draw.register
    def _(self, block: Table) -> str:
        """Cells are escaped. Strips of several models, which would take several lines, are left out."""
        if not block.rows:
            return ""
        cells = [(k, one) for row in block.rows for k, one in enumerate(row.cells)]
        several = {k for k, one in cells if isinstance(one, Strip) and len(one.entries) > 1}
        shown = [k for k in range(len(block.columns)) if k not in several]
        columns = [block.columns[k] for k in shown]
        rules = ["---:" if column.numeric and column.axis is None else "---" for column in columns]
        body = [[self.cell(row.cells[k], block.columns[k].axis) for k in shown] for row in block.rows]
        lines = [map(self.head, columns), rules, *body]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    @draw.register
    def _(self, block: Chart) -> str:
        return f"{self.say(block.caption)}\n\n{self.draw(chart_table(block))}"

    @draw.register
    def _(self, block: Charts) -> str:
        others = message("chart.others") if len(block.charts) > 1 else ""
        return "\n\n".join(text for text in (self.draw(block.charts[0]), self.say(others)) if text)

    @draw.register
    def _(self, block: AttentionMaps) -> str:
        return self.say(message("markdown.maps"))

    def head(self, column: Column) -> str:
        """The head of a column."""
        return self.say(column.label or column.head) if column.axis is None else f"`{axis_text(column.axis)}`"

    def cell(self, cell: Cell, axis: Scale | None = None) -> str:
        """What stands in a cell."""
        match cell:
            case Quality():
                return self.say(f"{cell.mean} {cell.interval}")
            case Noted():
                return self.say(cell.text)
            case Stacked():
                small = self.say(cell.small)
                between = " " if small.startswith("(") else ", "
                return self.cell(cell.text) + (between + small if small else "")
            case Answer():
                return (
                    NONE if cell.text is None else self.say(f"{'✓' if cell.text == cell.target else '✗'} {cell.text}")
                )
            case Drawn():
                return f"`{cell.text}`"
            case Strip():
                drawn = (strip_text(axis or Scale(), self.signs[name], one)[0] for name, one in cell.entries)
                return " ".join(f"`{one}`" for one in drawn)
        return self.say(cell)
