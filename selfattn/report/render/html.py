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
from selfattn.report.drawing import charts
from selfattn.report.drawing.palette import signs
from selfattn.report.render.page_parts import bucket_parts, difference_rows, learning_charts, markers, summary_rows
from selfattn.report.sections.explorer import explorer_data, still_maps, without_maps
from selfattn.report.sections.judged import method_note, tuning_space
from selfattn.report.sections.settings import reproduce_facts, shared_settings
from selfattn.report.sections.summary import gaps, interval_note, origin, record_scale, standing_note
from selfattn.report.sections.tables import Tables, tables
from selfattn.report.sections.training import band_note, threshold
from selfattn.report.verdict.comparability import badges, matched_sentence
from selfattn.report.verdict.names import metric_name
from selfattn.report.verdict.ranking import ranked
from selfattn.report.verdict.verdict import question, verdict
from selfattn.report.words.catalogue import LANGS, catalogue
from selfattn.report.words.messages import message
from selfattn.report.words.wording import Wording


def render_html(record: Record, lang: str = "en") -> str:
    """Render a record as a self-contained page; the same record gives the same text.

    Args:
        record: the comparison.
        lang: the language that the page opens in; the other is in it too.

    Returns:
        The HTML document.
    """
    w = Wording(lang)
    explorer = explorer_data(record)
    script = _asset("page.js") + _asset("explorer.js")
    context = {
        "record": record,
        "lang": lang,
        "w": w,
        "css": Markup(_asset("report.css")),
        "script": Markup(script),
        "script_hash": _csp_hash(script),
        "data": _Late(lambda: _json(_page_data(w, explorer))),
        **_first_screen(record),
        **_sections(record, tables(record)),
        **_attention(record, explorer),
    }
    return _templates().get_template("report.html.j2").render(context) + "\n"


def _first_screen(record: Record) -> dict[str, Any]:
    scale = record_scale(record)
    return {
        "question": question(record),
        "verdict": verdict(record),
        "badges": badges(record),
        "origin": origin(record),
        "interval_note": interval_note(record),
        "standing_note": standing_note(record),
        "gaps": gaps(record),
        "scale": scale,
        "axis": Markup(charts.axis(scale)),
        "metric": metric_name(record),
        "unit": message(f"unit.{record.headline.kind}"),
        "marker": markers(record),
        "glyph": {name: sign.glyph for name, sign in signs([model.name for model in record.models]).items()},
        "rows": summary_rows(record),
        "legend": ranked(record),
    }


def _sections(record: Record, found: Tables) -> dict[str, Any]:
    buckets = bucket_parts(record)
    optional = {"buckets": buckets, "alignment": found.alignment, "gates": True}
    names = ("learning", "attention", "buckets", "differences", "statistics", "cost", "alignment", "gates", "fairness")
    level = threshold(record)
    return {
        "sections": [name for name in (*names, "reproduce") if optional.get(name, True)],
        "charts": learning_charts(record),
        "band_note": band_note(record),
        "threshold": level[1] if level else None,
        "buckets": buckets,
        "differences": difference_rows(record),
        "tables": found,
        "shared": shared_settings(record),
        "method_note": method_note(record),
        "failed": sum(not gate.passed for gate in record.gates),
        "matched": matched_sentence(record),
        "space": tuning_space(record),
        "facts": reproduce_facts(record),
        "runs": [run for model in record.models for run in model.run_dirs],
    }


def _attention(record: Record, explorer: dict[str, Any]) -> dict[str, Any]:
    kept, total = len(explorer["examples"]), explorer["total"]
    return {
        "still": [{"name": name, "prediction": said, "svg": Markup(svg)} for name, said, svg in still_maps(record)],
        "no_maps": without_maps(record),
        "left_out": (kept, total) if 0 < kept < total else None,
    }


class _Late:
    """Text made when the template reaches it: the words of the page are known only after it is written."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __html__(self) -> str:
        return self._make()


def _page_data(w: Wording, explorer: dict[str, Any]) -> dict[str, Any]:
    words = {lang: {key: text for key, text in catalogue(lang).items() if key.startswith("x.")} for lang in LANGS}
    return {"texts": w.table, "langs": LANGS, "words": words, "explorer": explorer}


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
