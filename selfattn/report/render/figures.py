"""Write the charts and tables of a report as files of their own."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from selfattn.errors import UserError
from selfattn.report.blocks import Block, Chart, Charts, Folded, Table
from selfattn.report.contents import document
from selfattn.report.drawing.charts import curves, label_margin
from selfattn.report.drawing.palette import Signs
from selfattn.report.pages import picture
from selfattn.report.render.markdown import table_cells
from selfattn.report.write import write_all
from selfattn.results.record import Record
from selfattn.words.messages import SOURCE, text_of

# CairoSVG uses the first family alone, so the first one has the letters of the language.
_FONTS = {"ko": "'Noto Sans CJK KR', 'Noto Sans KR', 'Malgun Gothic', 'Apple SD Gothic Neo', sans-serif"}


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
        if isinstance(block, Chart):
            files[out / f"{block.name}.svg"] = svg = chart_svg(block, signs, lang)
            with suppress(UserError):
                files[out / f"{block.name}.png"] = drawn_as("png", svg)
                files[out / f"{block.name}.pdf"] = drawn_as("pdf", svg)
    write_all(files)
    return list(files)


def write_tables(record: Record, out: Path, lang: str = SOURCE) -> list[Path]:
    """Write every table of a report as CSV; the arguments are those of :func:`write_figures`.

    Raises:
        UserError: a file cannot be written.
    """
    files: dict[Path, str | bytes] = {}
    for block, signs in _blocks(record):
        if isinstance(block, Table) and block.rows:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(table_cells(block, lang, signs))
            files[out / f"{block.name}.csv"] = text.getvalue()
    write_all(files)
    return list(files)


def drawn_as(kind: Literal["png", "pdf"], svg: str) -> bytes:
    """Convert a picture to PNG, at twice its size, or PDF.

    Raises:
        UserError: CairoSVG is missing.
    """
    try:
        import cairosvg
    except (ImportError, OSError):  # OSError: the package is there, the cairo library is not
        raise UserError(f"{kind.upper()} needs CairoSVG: pip install 'selfattn[figures]'") from None
    data: bytes = cairosvg.svg2png(svg.encode(), scale=2) if kind == "png" else cairosvg.svg2pdf(svg.encode())
    return data


def _blocks(record: Record) -> Iterator[tuple[Block, Signs]]:
    page = document(record)
    signs, parts = Signs(page.names), (block for part in page.parts for block in part.blocks)
    return ((block, signs) for block in _inside([*page.first, *parts]))


def chart_svg(chart: Chart, signs: Signs, lang: str = SOURCE) -> str:
    """Draw a chart as a picture of its own on a white page."""
    drawn = curves(chart, signs)
    assert drawn is not None
    return picture(
        "chart",
        drawn=drawn,
        caption=text_of(chart.caption, lang),
        above=text_of(chart.height, lang),
        unit=text_of(chart.unit, lang),
        titles=[text_of(line.title, lang) for line in drawn.lines],
        margin=label_margin(chart.lines),
        font=_FONTS.get(lang, "system-ui, sans-serif"),
    )


def _inside(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield all charts that have a line and all tables, also those that are folded away."""
    for block in blocks:
        if isinstance(block, Charts):
            yield from _inside(block.charts)
        elif isinstance(block, Folded):
            yield from _inside(block.blocks)
        elif not isinstance(block, Chart) or any(line.spots for line in block.lines):
            yield block
