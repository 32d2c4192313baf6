"""The report as one HTML file: no network, no other file, readable without JavaScript."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup

from selfattn.figures.record import Record
from selfattn.report.blocks import AttentionExplorer
from selfattn.report.contents import contents
from selfattn.report.drawing.charts import curves, label_margin
from selfattn.report.drawing.diff import pieces
from selfattn.report.drawing.palette import Signs
from selfattn.report.drawing.svg import templates
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
    signs, translator = Signs([model.name for model in record.models]), Translator(lang)
    verdict, *below = first_screen(record)
    parts = contents(record)
    maps = next((block for part in parts for block in part.blocks if isinstance(block, AttentionExplorer)), None)
    explorer = explorer_data(maps, signs) if maps else {"total": 0, "models": [], "examples": []}
    words = {lang: {key: text for key, text in catalogue(lang).items() if key.startswith("x.")} for lang in LANGS}
    data = {"langs": LANGS, "words": words, "explorer": explorer}
    script = _asset("page.js") + _asset("explorer.js")
    context = {
        "langs": LANGS,
        "lang": lang,
        "w": translator,
        "signs": signs,
        "kind": lambda block: type(block).__name__,
        "pieces": pieces,
        "curves_of": curves,
        "margin_of": label_margin,
        "still": [(name, said, Markup(svg)) for name, said, svg in still_maps(maps)] if maps else [],
        "explorer": explorer,
        "css": Markup(_asset("report.css")),
        "script": Markup(script),
        "script_hash": "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        # Called at the end of the page, for only then its words are known.
        "data": lambda: _json({"texts": translator.table} | data),
        "version": record.environment.get("selfattn", ""),
        "verdict": verdict,
        "first": below,
        "parts": parts,
    }
    return templates().get_template("report.html.j2").render(context) + "\n"


def _json(data: Any) -> Markup:
    """JSON that cannot end its script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e"))


@cache
def _asset(name: str) -> str:
    return resources.files("selfattn.report").joinpath("templates", name).read_text(encoding="utf-8")
