"""The report as one HTML file: no network, no other file, readable without JavaScript."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from selfattn.figures.record import Record
from selfattn.report.blocks import Answer, AttentionMaps, Chart, Strip
from selfattn.report.contents import contents
from selfattn.report.drawing import charts
from selfattn.report.drawing.diff import Piece, pieces
from selfattn.report.drawing.palette import Signs
from selfattn.report.drawing.scale import Scale
from selfattn.report.render.explorer import explorer_data, still_maps
from selfattn.report.render.translator import Translator
from selfattn.report.sections.first_screen import first_screen
from selfattn.report.words.catalogue import LANGS, SOURCE, catalogue


def render_html(record: Record, lang: str = SOURCE) -> str:
    """Render a record as a self-contained page; the same record gives the same text.

    Args:
        record: the comparison.
        lang: the language that the page opens in; the others are in it too.

    Returns:
        The HTML document.
    """
    draw, translator = Drawing(Signs([model.name for model in record.models])), Translator(lang)
    script = _asset("page.js") + _asset("explorer.js")
    verdict, *below = first_screen(record)
    context = {
        "langs": LANGS,
        "lang": lang,
        "w": translator,
        "draw": draw,
        "kind": lambda block: type(block).__name__,
        "css": Markup(_asset("report.css")),
        "script": Markup(script),
        "script_hash": _csp_hash(script),
        "data": _Late(lambda: _json(_page_data(translator, draw.explorer))),
        "version": record.environment.get("selfattn", ""),
        "verdict": verdict,
        "first": below,
        "parts": contents(record),
    }
    return _templates().get_template("report.html.j2").render(context) + "\n"


class Drawing:
    """What the templates draw: the pictures of blocks, and cells that are more than text.

    Args:
        signs: of the models.

    Attributes:
        explorer: what the script of the page draws attention from.
    """

    def __init__(self, signs: Signs) -> None:
        self.signs = signs
        self.explorer: dict[str, Any] = {"total": 0, "models": [], "examples": []}

    def marker(self, name: object) -> Markup:
        """The sign of a model."""
        return Markup(charts.marker(self.signs[str(name)]))

    def glyph(self, name: object) -> str:
        """The sign of a model in one character."""
        return self.signs[str(name)].glyph

    def axis(self, scale: Scale) -> Markup:
        """The ticks above a column of strips."""
        return Markup(charts.axis(scale))

    def strip(self, scale: Scale, cell: Strip) -> Markup:
        """Dots and intervals."""
        return Markup(charts.strip(scale, [(self.signs[name], one) for name, one in cell.entries]))

    def pieces(self, cell: Answer) -> tuple[Piece, ...] | None:
        """An answer in pieces that are right or wrong."""
        return None if cell.text is None else pieces(cell.text, cell.target)

    def chart(self, chart: Chart) -> Markup:
        """The lines of a chart."""
        return Markup(charts.curves(chart, self.signs, f"chart-{chart.name}"))

    def margin(self, chart: Chart) -> int:
        """Room for the labels beside a chart, px."""
        return charts.label_margin(chart.lines)

    def still(self, maps: AttentionMaps) -> list[tuple[str, str, Markup]]:
        """Pictures for pages without JavaScript; with it, the explorer's figures go into the page."""
        self.explorer = explorer_data(maps, self.signs)
        return [(name, said, Markup(svg)) for name, said, svg in still_maps(maps)]


class _Late:
    """Text made when the template reaches it: the words of the page are known only after it is written."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __html__(self) -> str:
        return self._make()


def _page_data(translator: Translator, explorer: dict[str, Any]) -> dict[str, Any]:
    words = {lang: {key: text for key, text in catalogue(lang).items() if key.startswith("x.")} for lang in LANGS}
    return {"texts": translator.table, "langs": LANGS, "words": words, "explorer": explorer}


def _json(data: Any) -> str:
    """JSON that cannot end its script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def _csp_hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return resources.files("selfattn.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    loader = PackageLoader("selfattn.report", "templates")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=False
    )
