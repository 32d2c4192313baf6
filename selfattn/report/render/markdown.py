"""The report as Markdown: the same words and figures as the page, for places that show no HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from selfattn.report import blocks as b
from selfattn.report.contents import Document, document
from selfattn.report.drawing.charts import axis_text, chart_table, strip_text
from selfattn.report.drawing.palette import Signs
from selfattn.report.drawing.scale import Scale
from selfattn.results.record import Record
from selfattn.words.catalogue import SOURCE
from selfattn.words.messages import Said, message, said

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
    return markdown_of(document(record), lang)


def markdown_of(shown: Document, lang: str = SOURCE) -> str:
    """Render a page as Markdown; the same one gives the same text."""
    page = _Page(lang, Signs(shown.names))
    texts = [page.all([shown.verdict, *shown.first])]
    for part in shown.parts:
        page.nested = False
        if part.names:
            page.signs.begin(part.names)
        texts.append(f"## {page.say(part.title)}\n\n{page.all(part.blocks)}")
    return "\n\n".join(texts) + "\n"


def table_cells(block: b.Table, lang: str, signs: Signs) -> list[list[str]]:
    """A table as text without markup, its heads first; columns that are drawn are left out."""
    page = _Page(lang, signs, escape=lambda text: " ".join(text.split()))
    kinds = b.Strip | b.Drawn
    shown = [k for k in range(len(block.columns)) if not any(isinstance(row.cells[k], kinds) for row in block.rows)]
    heads = [page.say(block.columns[k].label or block.columns[k].head) for k in shown]
    return [heads, *([page.cell(row.cells[k]) for k in shown] for row in block.rows)]


def markdown_blocks(blocks: Iterable[b.Block], lang: str = SOURCE) -> list[str]:
    """Render blocks that name no model, each by itself."""
    return [_Page(lang, Signs(())).draw(block) for block in blocks]


def plain(text: str) -> str:
    """Text that Markdown shows as it is, in one line.

    Example:
        >>> print(plain("a|b *c* <d>"))
        a\\|b \\*c\\* \\<d\\>
    """
    return _SPECIAL.sub(lambda found: "\\" + found[0], " ".join(text.splitlines()))


class _Page:
    """Blocks as Markdown in one language; the level of headings grows inside what the page folds away."""

    def __init__(self, lang: str, signs: Signs, level: int = 3, escape: Callable[[str], str] = plain) -> None:
        self.lang, self.signs, self.level, self.escape = lang, signs, level, escape
        self.nested = False  # below a heading of the section: what is folded away stands one level lower

    def all(self, blocks: Iterable[b.Block]) -> str:
        """Blocks one below the other; those that show nothing are left out."""
        return "\n\n".join(filter(None, map(self.draw, blocks)))

    def say(self, text: Said) -> str:
        """Escaped text."""
        return self.escape(said(text, self.lang))

    def draw(self, block: b.Block) -> str:
        """One block."""
        match block:
            case b.Paragraph():
                parts = [*map(self.say, block.sentences), *([plain(block.code)] if block.code else [])]
                if block.link and not block.link[1].startswith("#"):
                    parts.append(f"[{self.say(block.link[0])}]({block.link[1]})")
                return " ".join(parts)
            case b.Heading():
                self.nested = True
                head = f"{'#' * self.level} {self.say(block.text)}"
                return f"{head}\n\n{self.say(block.aside)}" if block.aside else head
            case b.Items():
                return "\n".join(f"- {self.say(one)}" for one in block.items)
            case b.Facts():
                mark = "**" if block.models else ""
                return "\n".join(f"- {mark}{self.say(name)}{mark}: {self.cell(one)}" for name, one in block.facts)
            case b.Code():
                fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", block.text)), 3)
                return f"{fence}\n{block.text}\n{fence}"
            case b.Folded():
                inner = _Page(self.lang, self.signs, self.level + self.nested)
                return inner.all([b.Heading(block.title), *block.blocks])
            case b.Verdict():
                return self.verdict(block)
            case b.Table():
                return self.table(block) if block.rows else ""
            case b.Chart():
                return self.all([b.Paragraph(block.caption), chart_table(block)])
            case b.Charts():
                others = message("chart.others") if len(block.charts) > 1 else None
                return self.all([block.charts[0], b.Paragraph(others)])
            case b.AttentionExplorer():
                return self.say(message("markdown.maps"))

    def verdict(self, block: b.Verdict) -> str:
        """The question, the answer, the badges and where the record comes from."""
        texts = (
            f"# {self.say(block.question)}",
            f"**{self.say(block.lead)}**",
            " ".join(map(self.say, block.others)),
            " ".join(f"**{self.say(sentence)}**" for sentence in block.aside),
            plain(" · ".join(badge.text.say(self.lang) for badge in block.badges)),
            plain(" · ".join(block.origin)),
        )
        return "\n\n".join(filter(None, texts))

    def table(self, block: b.Table) -> str:
        """A table. Strips of several models, which would take several lines, are left out."""
        cells = [(k, one) for row in block.rows for k, one in enumerate(row.cells)]
        several = {k for k, one in cells if isinstance(one, b.Strip) and len(one.entries) > 1}
        shown = [k for k in range(len(block.columns)) if k not in several]
        columns = [block.columns[k] for k in shown]
        rules = ["---:" if column.numeric and column.axis is None else "---" for column in columns]
        body = [[self.cell(row.cells[k], block.columns[k].axis) for k in shown] for row in block.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in [map(self.head, columns), rules, *body])

    def head(self, column: b.Column) -> str:
        """The head of a column."""
        return self.say(column.label or column.head) if column.axis is None else f"`{axis_text(column.axis)}`"

    def cell(self, cell: b.Cell, axis: Scale | None = None) -> str:
        """What stands in a cell."""
        match cell:
            case b.Quality():
                return self.say(f"{cell.mean} {cell.interval}")
            case b.Noted() | b.Linked():
                return self.say(cell.text)
            case b.Stacked():
                small = self.say(cell.small)
                between = " " if small.startswith("(") else ", "
                return self.cell(cell.text) + (between + small if small else "")
            case b.MarkedAnswer():
                return self.say(cell.marked)
            case b.Drawn():
                return f"`{cell.text}`"
            case b.Strip():
                drawn = (strip_text(axis or Scale(), self.signs[name], one)[0] for name, one in cell.entries)
                return " ".join(f"`{one}`" for one in drawn)
        return self.say(cell)
