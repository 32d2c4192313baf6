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

from selfattn.report import charts
from selfattn.report.diff import pieces
from selfattn.report.explorer import explorer_data, still_maps, without_maps
from selfattn.report.numbers import NONE, interval_text, percent_number
from selfattn.report.palette import signs
from selfattn.report.record import Record
from selfattn.report.settings import config_table, own_settings, shared_settings
from selfattn.report.summary import (
    COSTS,
    cost_cells,
    further_metrics,
    gaps,
    interval_note,
    metric_name,
    metric_text,
    origin,
    record_scale,
    rows,
)
from selfattn.report.training import LEVELS, reached, spendings
from selfattn.report.verdict import Outcomes, badges, interval_outcomes, question, ranked, verdict
from selfattn.report.wording import Wording
from selfattn.report.wordlist_explorer import EXPLORER
from selfattn.report.words import LANGS, Lang, message

SECTIONS = ("learning", "attention", "formats", "differences", "cost", "settings", "reproduce")


def render_html(record: Record, lang: Lang = "en", outcomes: Outcomes | None = None) -> str:
    """Render a record as a self-contained page; the same record gives the same text.

    Args:
        record: the comparison.
        lang: the language that the page opens in; the other is in it too.
        outcomes: how every model stands to every other; by default decided by the intervals of the record.

    Returns:
        The HTML document.
    """
    outcomes = interval_outcomes(record) if outcomes is None else outcomes
    w = Wording(lang)
    sign = signs([model.name for model in record.models])
    marker = {name: Markup(charts.marker(one)) for name, one in sign.items()}
    explorer = explorer_data(record)
    script = _asset("page.js") + _asset("explorer.js")
    context = {
        "record": record,
        "lang": lang,
        "w": w,
        "question": question(record),
        "verdict": verdict(record, outcomes),
        "badges": badges(record),
        "sections": SECTIONS,
        "origin": origin(record),
        "interval_note": interval_note(record),
        "gaps": gaps(record),
        "scale": record_scale(record),
        "axis": Markup(charts.axis(record_scale(record))),
        "rows": _summary(record, outcomes, marker),
        **_learning(record, marker),
        "still": [
            {"name": name, "prediction": said, "svg": Markup(svg), "marker": marker[name]}
            for name, said, svg in still_maps(record)
        ],
        "no_maps": without_maps(record),
        "left_out": _left_out(explorer),
        "legend": [
            {"name": m.name, "marker": marker[m.name], "summary": m.summary, "source": m.source} for m in ranked(record)
        ],
        "formats": _formats(record),
        "further": _further(record, marker),
        "differences": _differences(record),
        "cost_names": COSTS,
        "costs": _costs(record, marker),
        "config": config_table(record),
        "own": own_settings(record),
        "shared": shared_settings(record),
        "environment": [(name, NONE if value is None else value) for name, value in record.environment.items()],
        "runs": [run for model in record.models for run in model.run_dirs],
        "css": Markup(_asset("report.css")),
        "script": Markup(script),
        "script_hash": _csp_hash(script),
    }
    context["data"] = _Late(lambda: _json(_page_data(w, explorer)))
    return _templates().get_template("report.html.j2").render(context) + "\n"


class _Late:
    """Text made when the template reaches it: the words of the page are known only after it is written."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __html__(self) -> str:
        return self._make()


def _page_data(w: Wording, explorer: dict[str, Any]) -> dict[str, Any]:
    words = {lang: {key: texts[k] for key, texts in EXPLORER.items()} for k, lang in enumerate(LANGS)}
    return {"texts": w.table, "langs": LANGS, "words": words, "explorer": explorer}


def _json(data: Any) -> str:
    """JSON that cannot end its script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def _summary(record: Record, outcomes: Outcomes, marker: dict[str, Markup]) -> list[dict[str, Any]]:
    scale = record_scale(record)
    exact = {model.name: f"{model.parameters:,}" for model in record.models}
    return [
        vars(row)
        | {
            "marker": marker[row.name],
            "strip": Markup(charts.strip(scale, [(row.sign, row.estimate)])),
            "exact_parameters": exact[row.name],
        }
        for row in rows(record, outcomes)
    ]


def _learning(record: Record, marker: dict[str, Markup]) -> dict[str, Any]:
    sign = signs([model.name for model in record.models])
    lines = [charts.Line(model.name, sign[model.name], model.curves) for model in record.models]
    drawn = []
    for spending in spendings(record):
        svg = charts.curves(lines, record_scale(record), spending.of, f"chart-{spending.name}")
        unit = message(f"unit.{spending.name}")
        drawn.append({"name": spending.name, "unit": unit, "svg": Markup(svg), "margin": charts.label_margin(lines)})
    table = [
        {"name": model.name, "marker": marker[model.name], "cells": [reached(model, level) for level in LEVELS]}
        for model in ranked(record)
        if model.curves
    ]
    levels = [f"{100 * level:g}\u00a0%" for level in LEVELS]
    many = any(len(model.curves) > 1 for model in record.models)
    return {"charts": drawn, "reached": {"levels": levels, "rows": table}, "many_runs": many}


def _left_out(explorer: dict[str, Any]) -> tuple[int, int] | None:
    kept, total = len(explorer["examples"]), explorer["total"]
    return (kept, total) if 0 < kept < total else None


def _formats(record: Record) -> list[dict[str, Any]]:
    scale = record_scale(record)
    sign = signs([model.name for model in record.models])
    order = ranked(record)
    names = dict.fromkeys(name for model in order for name in model.by_format)
    found = []
    for name in names:
        scores = [model.by_format.get(name) for model in order]
        estimates = [score.exact_match if score else None for score in scores]
        cells = [
            {
                "name": model.name,
                "glyph": sign[model.name].glyph,
                "mean": percent_number(one),
                "interval": interval_text(one) if one else "",
            }
            for model, one in zip(order, estimates, strict=True)
        ]
        entries = [(sign[model.name], one) for model, one in zip(order, estimates, strict=True)]
        items = max(score.items for score in scores if score)
        found.append(
            {"name": name, "count": f"{items:,}", "cells": cells, "strip": Markup(charts.strip(scale, entries))}
        )
    return found


def _further(record: Record, marker: dict[str, Markup]) -> dict[str, Any]:
    names = further_metrics(record)
    table = [
        {
            "name": model.name,
            "marker": marker[model.name],
            "cells": [metric_text(name, model.metrics.get(name)) for name in names],
        }
        for model in ranked(record)
    ]
    return {"heads": [metric_name(name) for name in names], "rows": table}


def _differences(record: Record) -> list[dict[str, Any]]:
    order = ranked(record)
    sign = signs([model.name for model in record.models])
    found = []
    for one in record.differences:
        cells = []
        for model in order:
            said = one.predictions.get(model.name)
            cell = {"name": model.name, "glyph": sign[model.name].glyph, "right": said == one.target}
            cells.append(cell | {"pieces": None if said is None else pieces(said, one.target)})
        found.append({"source": one.source, "target": one.target, "format": one.format, "cells": cells})
    return found


def _costs(record: Record, marker: dict[str, Markup]) -> list[dict[str, Any]]:
    missing = {(gap.model, gap.what): gap.reason for gap in gaps(record)}
    return [
        {
            "name": model.name,
            "marker": marker[model.name],
            "parameters": f"{model.parameters:,}",
            "non_embedding": NONE if model.parameters_non_embedding is None else f"{model.parameters_non_embedding:,}",
            "cells": [
                {"name": name, "text": text, "reason": missing.get((model.name, name))}
                for name, text in cost_cells(model).items()
            ],
        }
        for model in ranked(record)
    ]


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
