"""Charts and tables of a report as files of their own, for a paper: SVG and PDF (matplotlib's work), CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from selfattn.errors import SettingError, UserError
from selfattn.files import write_atomically, writing
from selfattn.report.blocks import Block, Chart, Charts, Folded, Table
from selfattn.report.contents import document
from selfattn.report.drawing.palette import Signs
from selfattn.report.render.markdown import table_cells
from selfattn.results.record import Record
from selfattn.words.catalogue import SOURCE
from selfattn.words.messages import said

FIGURES, TABLES = ("svg", "pdf"), ("csv", "tex")
FOLDER = "paper"
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "×": r"$\times$"}
_SPECIAL |= {"−": "$-$", "✓": r"$\checkmark$", "✗": r"$\times$"} | {char: "\\" + char for char in "&%$#_{}"}
_INCHES = 5.5, 3.2
_LOOK = {"svg.hashsalt": "selfattn", "svg.fonttype": "none", "font.size": 9.0, "axes.spines.top": False}
_LOOK |= {"axes.spines.right": False}
_FONTS = ("DejaVu Sans", "Noto Sans CJK KR", "Noto Sans KR", "Malgun Gothic", "AppleGothic", "NanumGothic")


def check_forms(figures: Sequence[str], tables: Sequence[str]) -> None:
    """Check what files are asked for.

    Raises:
        SettingError: there is no such form.
        UserError: figures need matplotlib, and it is not installed.
    """
    for name, given, known in (("figures", figures, FIGURES), ("tables", tables, TABLES)):
        for one in given:
            if one not in known:
                raise SettingError(f"`{name}` {one}: choose of {', '.join(known)}")
    if figures:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise UserError("`figures` needs matplotlib: pip install 'selfattn[figures]'") from None


def write_paper(
    record: Record, out: Path, figures: Sequence[str] = (), tables: Sequence[str] = (), lang: str = SOURCE
) -> list[Path]:
    """Write every chart and every table of a report into ``paper`` beside it; the same record gives the same bytes.

    Args:
        record: the comparison.
        out: where its report lies.
        figures: forms of the charts: ``svg``, ``pdf``; default none.
        tables: forms of the tables: ``csv`` (UTF-8), ``tex`` (with ``booktabs``); default none.
        lang: of their words.

    Returns:
        The files.

    Raises:
        UserError: see :func:`check_forms`; or a file cannot be written.
    """
    check_forms(figures, tables)
    page = document(record)
    signs, found = Signs(page.names), []
    blocks = [*_inside([*page.first]), *(one for part in page.parts for one in _inside(part.blocks))]
    for block in blocks if figures or tables else ():
        forms = figures if isinstance(block, Chart) else tables
        for form in forms:
            data = (
                _figure(block, form, lang, signs)
                if isinstance(block, Chart)
                else (_csv if form == "csv" else _tex)(block, lang, signs).encode()
            )
            path = out / FOLDER / f"{block.name}.{form}"
            with writing(path, "choose another place"):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, partial(_write, data))
            found.append(path)
    return found


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _inside(blocks: Iterable[Block]) -> Iterator[Chart | Table]:
    """Charts and tables, also those that are folded away."""
    for block in blocks:
        if isinstance(block, Charts):
            yield from _inside(block.charts)
        elif isinstance(block, Folded):
            yield from _inside(block.blocks)
        elif (isinstance(block, Chart) and any(line.spots for line in block.lines)) or (
            isinstance(block, Table) and block.rows
        ):
            yield block


def _figure(chart: Chart, form: str, lang: str, signs: Signs) -> bytes:
    from matplotlib import rc_context, style
    from matplotlib.figure import Figure
    from matplotlib.font_manager import get_font_names

    fonts = {"font.family": [name for name in _FONTS if name in get_font_names()]}
    with rc_context({**style.library["tableau-colorblind10"], **_LOOK, **fonts}):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes, scale = figure.add_subplot(), chart.scale
        for number, line in enumerate(one for one in chart.lines if one.spots):
            colour = f"C{signs[line.name].colour if line.name in signs else number}"
            spots = [(spot.x, scale.place(spot.y)) for spot in line.spots]
            axes.plot(*zip(*spots, strict=True), color=colour, label=line.name)
            bands = [
                (spot.x, scale.place(spot.low), scale.place(spot.high))
                for spot in line.spots
                if spot.low is not None and spot.high is not None
            ]
            if bands:
                axes.fill_between(*zip(*bands, strict=True), color=colour, alpha=0.16, linewidth=0)
        axes.set_yticks([scale.place(value) for value, _ in scale.ticks], [mark for _, mark in scale.ticks])
        axes.set_ylim(0, 1)
        axes.set_xlabel(said(chart.unit, lang))
        axes.set_title(said(chart.caption, lang), fontsize=9, wrap=True)
        axes.legend(frameon=False, fontsize=8)
        data = io.BytesIO()
        figure.savefig(data, format=form, metadata={"Date": None} if form == "svg" else {"CreationDate": None})
    return data.getvalue()


def _csv(table: Table, lang: str, signs: Signs) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table_cells(table, lang, signs))
    return text.getvalue()


def _tex(table: Table, lang: str, signs: Signs) -> str:
    heads, *rows = ([tex_text(cell) for cell in row] for row in table_cells(table, lang, signs))
    lines = [r"\begin{tabular}{l" + "r" * (len(heads) - 1) + "}", r"\toprule", " & ".join(heads) + r" \\", r"\midrule"]
    return "\n".join([*lines, *(" & ".join(row) + r" \\" for row in rows), r"\bottomrule", r"\end{tabular}"]) + "\n"


def tex_text(text: str) -> str:
    """Text as LaTeX shows it.

    Example:
        >>> print(tex_text("50 % of a_b"))
        50 \\% of a\\_b
    """
    return re.sub(r"[\\~^×−✓✗&%$#_{}]", lambda found: _SPECIAL[found[0]], text)
