"""Render a report as Markdown: the words and numbers of the page for places that show no HTML."""

import re
import textwrap
from collections.abc import Callable, Iterable

from selfattn.report import blocks as b
from selfattn.report.drawing.charts import chart_table
from selfattn.report.drawing.numbers import NONE
from selfattn.words.messages import SOURCE, TextLike, message, text_of

# What Markdown could read as markup; an interval such as [99.1, 99.9] stays readable in the source of the document.
_SPECIAL = re.compile(r"[\\`*<>|~&]|^[#>+=-]|(?<![^\W_])_|_(?![^\W_])|\[(?![\d.,–+−\s]*\](?![\[(:]))")

# What begins a list, a heading or a quotation where it stands first in a line.
_FIRST = re.compile(r"^ *\d*(?=[#>+=.)-]+(?: |$))")
_WIDTH = 120  # of a line of text, in characters


def markdown_of(shown: b.Document, lang: str = SOURCE) -> str:
    """Render a document as Markdown with GitHub's tables; the same document gives the same text."""
    page = MarkdownPage(lang)
    texts = [page.all([shown.verdict, *shown.first])]
    for part in shown.parts:
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


def wrapped(text: str) -> str:
    """Break a paragraph or an item of a list into lines; what it says stays the same.

    Example:
        >>> wrapped("- " + "word " * 26).splitlines()[1]
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


class MarkdownPage:
    """Draws blocks as Markdown in one language.

    Args:
        lang: the language.
        level: of headings; it grows inside what the page folds away.
        escape: makes a text safe.
        between: what stands between a text of a cell and the small one after it.
        line: what stands between the bars of a cell.
    """

    def __init__(
        self,
        lang: str,
        level: int = 3,
        escape: Callable[[str], str] = plain,
        between: str = ", ",
        line: str = "<br>",
    ) -> None:
        self.lang = lang
        self.level = level
        self.escape = escape
        self.between = between
        self.line = line
        self.nested = False  # below a heading of the section: what is folded away stands one level lower

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
                parts = [*map(self.say, block.sentences), *([plain(block.code)] if block.code else [])]
                if block.link and not block.link[1].startswith("#"):
                    parts.append(f"[{self.say(block.link[0])}]({block.link[1]})")
                return wrapped(" ".join(parts))
            case b.Heading():
                self.nested = True
                texts = f"{'#' * self.level} {self.say(block.text)}", wrapped(self.say(block.aside))
                return "\n\n".join(filter(None, texts))
            case b.Items():
                return "\n".join(wrapped(f"- {self.say(item)}") for item in block.items)
            case b.Facts():
                return "\n".join(wrapped(f"- {self.say(name)}: {self.cell(value)}") for name, value in block.facts)
            case b.Code():
                fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", block.text)), 3)
                return f"{fence}\n{block.text}\n{fence}"
            case b.Folded():
                inner = MarkdownPage(self.lang, self.level + self.nested)
                return inner.all(without_pictures(block))
            case b.Verdict():
                return self.verdict(block)
            case b.Table():
                return self.table(block) if block.rows else ""
            case b.AttentionExplorer():
                return wrapped(self.say(message("markdown.maps")))
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
        return "\n\n".join((f"# {self.say(block.question)}", *map(wrapped, filter(None, texts))))

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
                    full = round(8 * min(max(length, 0), 1))
                    bar = "█" * full + "░" * (8 - full)
                    texts.append(f"{bar} {self.say(value)} {self.say(label)}")
                return self.line.join(texts)
            case b.Strip():
                return ""
        return self.say(cell)
