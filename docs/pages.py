"""What the site changes in the pages before it writes them: words that belong together, and tables for a phone."""

from __future__ import annotations

import re
from pathlib import Path
from unicodedata import east_asian_width

from docutils import nodes

# Where a line must not break: before a Korean particle; inside an interval or a range; between a number and its sign
# or unit.
PARTICLE = re.compile(r"(?<=[%)\]”’])(?=[가-힣])")
INTERVAL = re.compile(r" ?\[([−+]?[\d.,]+), ([−+]?[\d.,]+)\]")
SIGN = re.compile(r"(?<=\d) (?=%)|(?<=[≤≥=]) (?=\d)|(?<=\bp) (?=[=<])|(?<=\d) (?=(?:ms|s|min|KB|MB|GB)\b)")
RANGE = re.compile(r"(?<=\d–)(?=\d)")
AS_IT_IS = (nodes.literal, nodes.math, nodes.FixedTextElement)  # code, formulas, and what is HTML already
SHORT = 24  # characters of code that a line of a phone has room for

FEW_COLUMNS = 4  # fit on a phone
WIDE_DRAWING = 520  # px; on a phone its words would be too small to read
TOO_WIDE = 150  # characters of the longest cell times the number of columns; a Korean character counts twice


def keep_words_whole(document: nodes.document) -> None:
    """Join what belongs together, in texts alone: attention maps in a page only run as they were written."""
    before = ""  # the last character of the text before, perhaps in bold
    for text in list(document.findall(nodes.Text)):
        words = text.astext()
        if not isinstance(text.parent, AS_IT_IS):
            joined = PARTICLE.sub("\u2060", before + words).removeprefix(before)
            joined = RANGE.sub("\u2060", joined)
            joined = INTERVAL.sub("\u00a0[\\1,\u00a0\\2]", joined)
            text.parent.replace(text, nodes.Text(SIGN.sub("\u00a0", joined)))
        before = words[-1:]


def keep_code_whole(document: nodes.document) -> None:
    """Mark short code, such as an option, in which no line should break."""
    for code in document.findall(nodes.literal):
        if all(len(word) <= SHORT for word in code.astext().split()):
            code["classes"].append("short")


def mark_wide_drawings(document: nodes.document, home: Path) -> None:
    """Mark drawings that a phone shows in part, to be moved by the reader; their paths are below `home`."""
    for image in document.findall(nodes.image):
        path = home / image["uri"]
        if path.suffix == ".svg" and path.is_file():
            width = re.search(r"<svg[^>]*\swidth=['\"]([\d.]+)", path.read_text(encoding="utf-8"))
            if width and float(width[1]) > WIDE_DRAWING:
                image["classes"].append("wide")


def name_columns(document: nodes.document) -> None:
    """Let a wide table of texts become a list on a phone, where every cell begins with the name of its column."""
    for table in document.findall(nodes.table):
        heads = [[entry.astext() for entry in row.findall(nodes.entry)] for row in _rows(table, nodes.thead)]
        rows = [list(row.findall(nodes.entry)) for row in _rows(table, nodes.tbody)]
        if len(heads) != 1:
            continue
        longest = max((_width(entry.astext()) for row in rows for entry in row), default=0)
        if len(heads[0]) * longest <= TOO_WIDE:
            if len(heads[0]) > FEW_COLUMNS:
                table["classes"].append("numbers")
            continue
        table["classes"].append("cards")
        for row in rows:
            for head, entry in zip(heads[0][1:], row[1:], strict=False):
                if head and entry.astext():
                    entry.insert(0, nodes.paragraph("", head, classes=["column"]))


def _width(text: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _rows(table: nodes.table, part: type[nodes.Element]) -> list[nodes.row]:
    return [row for group in table.findall(part) for row in group.findall(nodes.row)]
