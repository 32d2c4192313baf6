"""Budgets: what complete trainings of several lengths reach, and where the order of the models changes."""

from __future__ import annotations

import math

import numpy as np

from selfattn.evaluation.statistics.convergence import errors_of
from selfattn.registry import register
from selfattn.report.blocks import (
    Block,
    Cell,
    Chart,
    ChartLine,
    Column,
    Items,
    Paragraph,
    Quality,
    Row,
    Spot,
    Table,
    model_table,
)
from selfattn.report.drawing.numbers import (
    NONE,
    compact,
    difference_text,
    interval_text,
    mean_text,
    p_text,
    value_text,
)
from selfattn.report.drawing.scale import Scale
from selfattn.report.verdict.comparability import obstacles, sound
from selfattn.report.verdict.conditions import budget_outcomes, convergences, share
from selfattn.report.verdict.names import headline_name, headline_unit
from selfattn.report.verdict.ranking import record_scale
from selfattn.results.budgets import BudgetNeeded, Trend
from selfattn.results.protocol import AtBudget, Budgets
from selfattn.results.record import Record
from selfattn.words.messages import Message, message

_ALONG = 24  # pieces of a line that is drawn


@register.section("budgets")
class BudgetsSection:
    """What every budget reaches."""

    title = message("head.budgets")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """What may be said, a chart and a table; nothing where there is one budget."""
        budgets = record.budgets
        if budgets is None:
            return ()
        most = budgets.found[-1]
        spent = most.steps if budgets.unit == "steps" else most.examples or 0
        whole = {budgets.unit: f"{round(spent / most.budget):,}"}
        level = f"{100 * budgets.level:g}"
        return (
            Paragraph(message(f"budgets.{budgets.unit}", **{"steps": f"{most.steps:,}"} | whole)),
            Items(() if obstacles(record) else (*budget_outcomes(record), *convergences(record), *trend_lines(record))),
            _chart(record, budgets),
            _table(record, budgets),
            _lines(record, budgets),
            Paragraph(message("budgets.intervals", level=level), note=True),
        )


def trend_lines(record: Record) -> list[Message]:
    """What the lines are, and why none is drawn of some models, or of all."""
    budgets, trends = record.budgets, _trends(record)
    if budgets is None:
        return []
    said = {}
    for model, trend in trends.items():
        common = trend.word.startswith("too few")  # for all models
        p = "" if trend.fit_p is None else p_text(trend.fit_p)
        of = {"count": len(budgets.found)} if common else {"model": model, "p": p}
        if trend.word != "line":
            said[trend.word if common else model] = message(f"budgets.{trend.word}", **of)
    lines = [message("budgets.trends", **_quality(record, budgets))] if _lines(record, budgets).rows else []
    return [*lines, *said.values()]


def _quality(record: Record, budgets: Budgets) -> dict[str, str]:
    """What the worst of those compared reaches with the largest budget."""
    most, turn = budgets.found[-1], 1 if record.headline.better == "lower" else -1
    worst = max(budgets.pair or most.models, key=lambda model: turn * most.models[model].mean)
    quality = value_text(most.models[worst].mean, record.headline.kind)
    return {"quality": quality, "worst": worst, "most": share(most.budget)}


def _lines(record: Record, budgets: Budgets) -> Table:
    """Of each model with a line its exponent, the test of its fit, and the budget that a quality needs."""
    rows = []
    for model, trend in _trends(record).items():
        if trend.word == "line":
            half = math.sqrt(trend.band[2])
            powers = (f"{one:.2f}".replace("-", "−") for one in (trend.slope, trend.slope - half, trend.slope + half))
            needed = _needed(budgets.needed[model], budgets) if model in budgets.needed else NONE
            rows.append((model, (_ranged(*powers), f"{trend.fit_p or 0:.2f}", needed)))
    needed_for = message("budgets.col.needed", quality=_quality(record, budgets)["quality"])
    return model_table("trends", (message("budgets.col.power"), message("budgets.col.fit"), needed_for), rows)


def _ranged(value: str, low: str, high: str) -> str:
    return f"{value} [{low},\u00a0{high}]"


def _trends(record: Record) -> dict[str, Trend]:
    """The trends that something is said of: where models may be compared, of those that have learned."""
    found = record.budgets.trends if record.budgets and not obstacles(record) else {}
    return {model.name: found[model.name] for model in sound(record) if model.name in found}


def _needed(one: BudgetNeeded, budgets: Budgets) -> str:
    """A budget with its interval; outside the budgets tried no more than ``> 100 %``."""
    least, most = budgets.found[0].budget, budgets.found[-1].budget
    below, above = f"<\u00a0{share(least)}", f">\u00a0{share(most)}"
    beyond = {(False, True): above, (True, False): below}.get((one.low is None, one.high is None), NONE)
    if one.low == most or one.high == least:  # for certain
        return beyond
    low, high = below if one.low is None else share(one.low), above if one.high is None else share(one.high)
    return _ranged(beyond if one.budget is None else share(one.budget), low, high)


def _chart(record: Record, budgets: Budgets) -> Chart:
    """Quality against the budget, whose marks are the budgets themselves."""
    places = {one.budget: float(one.examples or one.steps) for one in budgets.found}
    least, *_, most = places
    shares = np.geomspace(least, most, _ALONG + 1)
    along, trends = np.geomspace(places[least], places[most], _ALONG + 1), _trends(record)

    def fitted(trend: Trend | None) -> tuple[tuple[float, float], ...]:
        if trend is None or trend.word != "line":
            return ()
        errors = np.exp(trend.height + trend.slope * (np.log(shares) - trend.centre))
        scores = errors_of(errors, record.headline.kind, record.headline.better)  # its own inverse
        return tuple(zip(along.tolist(), scores.tolist(), strict=True))

    lines = tuple(
        ChartLine(
            model.name,
            tuple(
                Spot(places[one.budget], found.mean, found.low, found.high)
                for one in budgets.found
                if (found := one.models.get(model.name))
            ),
            fitted=fitted(trends.get(model.name)),
        )
        for model in record.models
    )
    marks = tuple((place, compact(place)) for place in places.values())
    across = Scale(None, marks[-1][0], "number", marks[0][0], powers=True, marks=marks)
    caption = message("budgets.caption", metric=headline_name(record), scale=headline_unit(record))
    unit = message(f"budgets.unit.{budgets.unit}")
    return Chart("budgets", caption, lines, record_scale(record), unit, compact, across=across)


def _table(record: Record, budgets: Budgets) -> Table:
    """One row a budget: what was spent, what every model reaches, and the difference of the two asked about."""
    columns = [Column(message("budgets.budget")), *(Column(message(f"budgets.col.{k}")) for k in ("steps", "tokens"))]
    columns += [Column(model.name, model=True) for model in record.models]
    if budgets.pair:
        unit = message(f"difference.{record.headline.kind}")
        first, second = budgets.pair
        columns.append(Column(message("budgets.difference", first=first, second=second, unit=unit)))
    return Table("budgets", tuple(columns), tuple(Row(_cells(record, one)) for one in budgets.found))


def _cells(record: Record, one: AtBudget) -> tuple[Cell, ...]:
    kind = record.headline.kind
    found = [one.models.get(model.name) for model in record.models]
    qualities = (Quality(mean_text(a, kind), interval_text(a, kind)) if a else NONE for a in found)
    difference = [difference_text(one.difference, kind)] if one.difference else []
    return (share(one.budget), f"{one.steps:,}", compact(one.tokens), *qualities, *difference)
