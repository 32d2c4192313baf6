"""Write a report: its page from the sections of the project and of plugins; its charts and tables as files.

Files are whole or not there at all, and have the same bytes for the same record.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from selfattn.codec import encode
from selfattn.errors import UserError, all_visible, say
from selfattn.files import write_bytes, writing
from selfattn.ownership import MARKDOWN_MARK, check_ours
from selfattn.report.blocks import Block, Chart, Charts, Document, Folded, Outputs, Table, contents
from selfattn.report.html import html_of
from selfattn.report.pictures import Signs, curves, drawn_as, label_margin, picture
from selfattn.report.sections.quality import first_screen
from selfattn.report.text import markdown_of, table_cells
from selfattn.report.verdict import verdict
from selfattn.results.record import Record
from selfattn.words.messages import LANGS, SOURCE, text_of


def document(record: Record, outputs: Outputs | None = None) -> Document:
    """Return a comparison as a page; without the outputs of the test, sections that need them are left out.

    Raises:
        UserError: a section that is not the project's does not make its blocks.
    """
    record = all_visible(record)
    names = tuple(model.name for model in record.models)
    version = str(record.environment.get("selfattn", ""))
    return Document(verdict(record), first_screen(record), contents(record, outputs), names, version)


RESULTS = "results.json"
_LINE = 110
_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_LATEX_MARK = "% selfattn\n"  # at the beginning, a comment there
_IN_LATEX = {ord(sign): f"\\{sign}" for sign in "&%$#_{}"} | {ord(sign): f"${sign}$" for sign in "<>|"}
_IN_LATEX |= {ord("\\"): r"\textbackslash{}", ord("~"): r"\textasciitilde{}", ord("^"): r"\textasciicircum{}"}
_IN_LATEX |= {ord("−"): "$-$", ord("–"): "--"}
_FORMULA = re.compile(r"[=@]|[+-](?![\d., \xa0%\[\]+−-]*$)")  # as a spreadsheet reads the beginning of a cell
_ADVICE = "free some disk space, or give another directory"


@dataclass(frozen=True)
class ReportFiles:
    """Where a report lies."""

    html: Path
    markdown: Path
    results: Path


def write_report(
    record: Record, out_dir: str | Path, lang: str = SOURCE, outputs: Outputs | None = None
) -> ReportFiles:
    """Write `results.json`, `report.md` and `report.html` of a record; older ones of ours are replaced.

    Args:
        record: the comparison.
        out_dir: the directory; made when it is not there.
        lang: the language of the Markdown file, and the one that the page opens in.
        outputs: of the test, for sections that need them; default none, and these sections are left out.

    Returns:
        The paths of the three files.

    Raises:
        UserError: the directory or a file cannot be written, there is no catalogue of the language, or a section that
            is not the project's does not make its blocks.
    """
    out = Path(out_dir)
    files = ReportFiles(out / "report.html", out / "report.md", out / "results.json")
    check_report(out)
    write_all({files.results: as_json(encode(record))})  # first: a section that fails loses no results
    page = document(record, outputs)
    for part in page.parts:
        if missing := set(LANGS) - set(getattr(part.title, "texts", ()) or LANGS):
            say(f"section {part.key!r}: has no title in {', '.join(sorted(missing))}; English stands there")
    write_all({files.markdown: markdown_of(page, lang) + MARKDOWN_MARK, files.html: html_of(page, lang)})
    return files


def check_report(out: Path) -> None:
    """Check that a report may be written into a directory.

    Raises:
        UserError: there is a file of one of its names that selfattn did not write.
    """
    for name in ("results.json", "report.md", "report.html"):
        check_ours(out / name)


def write_all(files: Mapping[Path, str | bytes], starts: Mapping[Path, Sequence[bytes]] | None = None) -> None:
    """Write files, and make their directories; older ones of ours are replaced.

    Args:
        files: contents by path.
        starts: beginnings by which an older file of ours is known, for formats without a mark.

    Raises:
        UserError: a directory or a file cannot be written, or there is a file that selfattn did not write.
    """
    for path in files:
        check_ours(path, *(starts or {}).get(path, ()))
    for path, content in files.items():
        with writing(path.parent, _ADVICE):
            path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path, _ADVICE):
            write_bytes(path, content.encode() if isinstance(content, str) else content)


def as_json(values: Any) -> str:
    """Plain values as JSON that people can read: a list or object in one line where it fits, plain values always."""
    return _dump(values, "") + "\n"


def _dump(value: Any, indent: str) -> str:
    inner = indent + "  "
    if isinstance(value, dict):
        ends = "{}"
        parts = [f"{_plain(key)}: {_dump(item, inner)}" for key, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, (list, dict)) for item in value):
        ends = "[]"
        parts = [_dump(item, inner) for item in value]
    else:
        return _plain(value)
    line = f"{ends[0]}{', '.join(parts)}{ends[1]}"
    if "\n" not in line and len(indent) + len(line) <= _LINE:
        return line
    return f"{ends[0]}\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}{ends[1]}"


# charts and tables as files


def write_figures(record: Record, out: Path, lang: str = SOURCE) -> list[Path]:
    """Write every chart of a report as SVG, and as PNG and PDF where CairoSVG is installed.

    Args:
        record: the comparison.
        out: the directory; made where it is not there.
        lang: the language of the words.

    Returns:
        The files.

    Raises:
        UserError: a file cannot be written.
    """
    files: dict[Path, str | bytes] = {}
    for block, signs in _blocks(record):
        if isinstance(block, Chart) and (svg := chart_svg(block, signs, lang)):
            files[out / f"{block.name}.svg"] = svg
            with suppress(UserError):
                files[out / f"{block.name}.png"] = drawn_as("png", svg)
                files[out / f"{block.name}.pdf"] = drawn_as("pdf", svg)
    write_all(files)
    return list(files)


def write_tables(record: Record, out: Path, lang: str = SOURCE) -> list[Path]:
    """Write every table of a report as CSV, the first as LaTeX too; the arguments are those of :func:`write_figures`.

    Raises:
        UserError: a file cannot be written.
    """
    files: dict[Path, str | bytes] = {}
    starts: dict[Path, list[bytes]] = {}
    for block, _ in _blocks(record):
        if isinstance(block, Table) and block.rows:
            path = out / f"{quote(block.name, safe='')}.csv"  # which may have the name of a metric, with any signs
            files[path] = _csv_of(table_cells(block, lang))
            starts[path] = [_csv_of(table_cells(block, code)[:1]).encode() for code in LANGS]
            if block.style == "summary":
                path = path.with_suffix(".tex")
                files[path] = latex_of(block, lang)
                starts[path] = [_LATEX_MARK.encode()]
    write_all(files, starts)
    return list(files)


def latex_of(table: Table, lang: str = SOURCE) -> str:
    r"""Return a table as LaTeX, with the rules of the package booktabs.

    Example:
        >>> from selfattn.report.blocks import Column, Row
        >>> print(latex_of(Table("t", (Column("a_b", numeric=False), Column("%")), (Row(("x", "−1")),))))
        % selfattn
        \begin{tabular}{lr}
        \toprule
        a\_b & \% \\
        \midrule
        x & $-$1 \\
        \bottomrule
        \end{tabular}
        <BLANKLINE>
    """
    heads, *body = [" & ".join(cell.translate(_IN_LATEX) for cell in row) for row in table_cells(table, lang)]
    body = ["{}" + row if row.startswith(("[", "*")) else row for row in body]  # no argument of the line break before
    ends = "".join("r" if column.numeric else "l" for column in table.columns if column.axis is None)
    lines = [rf"\begin{{tabular}}{{{ends}}}", r"\toprule", rf"{heads} \\", r"\midrule"]
    lines += [*(rf"{row} \\" for row in body), r"\bottomrule", r"\end{tabular}"]
    return _LATEX_MARK + "\n".join(lines) + "\n"


def _csv_of(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    safe = [["'" + cell if _FORMULA.match(cell) else cell for cell in row] for row in rows]
    csv.writer(text, lineterminator="\n").writerows(safe)
    return text.getvalue()


def _blocks(record: Record) -> Iterator[tuple[Block, Signs]]:
    """Yield all charts and tables, also those that are folded away, with the signs of the models."""
    page = document(record)
    signs = Signs(page.names)
    waiting = [*page.first, *chain.from_iterable(part.blocks for part in page.parts)]
    for block in waiting:
        if isinstance(block, Folded | Charts):
            waiting += block.blocks if isinstance(block, Folded) else block.charts
        yield block, signs


def chart_svg(chart: Chart, signs: Signs, lang: str = SOURCE) -> str:
    """Draw a chart as a picture of its own on a white page; empty where it has no line."""
    drawn = curves(chart, signs)
    if drawn is None:
        return ""
    return picture(
        "chart",
        drawn=drawn,
        say=lambda mark: text_of(mark, lang),
        caption=text_of(chart.caption, lang),
        above=text_of(chart.height, lang),
        unit=text_of(chart.unit, lang),
        titles=[text_of(line.title, lang) for line in drawn.lines],
        margin=label_margin(chart.lines),
    )
