"""The parts of the page that hold drawings: first table, learning curves, buckets, items on which models differ."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from selfattn.figures.record import Record
from selfattn.report.drawing import charts
from selfattn.report.drawing.diff import pieces
from selfattn.report.drawing.palette import signs
from selfattn.report.sections.buckets import Part, parts
from selfattn.report.sections.summary import record_scale, rows
from selfattn.report.sections.training import mean_curve, spendings
from selfattn.report.verdict.ranking import ranked
from selfattn.report.words.messages import message


def markers(record: Record) -> dict[str, Markup]:
    """The sign of every model as markup."""
    found = signs([model.name for model in record.models])
    return {name: Markup(charts.marker(sign)) for name, sign in found.items()}


def summary_rows(record: Record) -> list[dict[str, Any]]:
    """Rows of the first table, each with its dot and interval."""
    scale = record_scale(record)
    exact = {model.name: f"{model.parameters:,}" for model in record.models}
    return [
        vars(row)
        | {"strip": Markup(charts.strip(scale, [(row.sign, row.estimate)])), "exact_parameters": exact[row.name]}
        for row in rows(record)
    ]


def learning_charts(record: Record) -> list[dict[str, Any]]:
    """One chart for everything that training spends."""
    sign = signs([model.name for model in record.models])
    scale, kind = record_scale(record), record.headline.kind
    drawn = []
    for spending in spendings(record):
        lines = [charts.Line(m.name, sign[m.name], mean_curve(m, spending.of, kind)) for m in record.models]
        svg = charts.curves(lines, scale, spending.show, f"chart-{spending.name}")
        unit = message(f"spent.{spending.name}")
        drawn.append({"name": spending.name, "unit": unit, "svg": Markup(svg), "margin": charts.label_margin(lines)})
    return drawn


def bucket_parts(record: Record) -> list[dict[str, Any]]:
    """Every way to divide the test items, with one small chart a bucket."""
    return [_bucket_part(record, part) for part in parts(record)]


def _bucket_part(record: Record, part: Part) -> dict[str, Any]:
    sign = signs([model.name for model in record.models])
    found = []
    for line in part.lines:
        cells = [
            {"name": cell.model, "glyph": sign[cell.model].glyph, "mean": cell.mean, "interval": cell.interval}
            for cell in line.cells
        ]
        entries = [(sign[cell.model], cell.estimate) for cell in line.cells]
        strip = Markup(charts.strip(part.scale, entries))
        found.append({"name": line.name, "items": line.items, "cells": cells, "strip": strip})
    models = [cell.model for cell in part.lines[0].cells]
    return vars(part) | {"axis": Markup(charts.axis(part.scale)), "lines": found, "models": models}


def difference_rows(record: Record) -> list[dict[str, Any]]:
    """Items on which models differ, every answer in pieces that are right or wrong."""
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
