"""Budgets: what complete trainings of several lengths reach, and where the order of the models changes."""

from __future__ import annotations

from selfattn.registry import register
from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, compact, difference_text
from selfattn.report.drawing.scale import Scale
from selfattn.report.verdict.conditions import amount_of_training
from selfattn.report.verdict.ranking import headline_name, headline_unit, record_scale
from selfattn.results.plan import AtBudget, Budgets
from selfattn.results.quality import is_estimable
from selfattn.results.record import Record
from selfattn.words.messages import message


@register.section("budgets")
class BudgetsSection:
    """What every budget reaches."""

    title = message("head.budgets")

    def blocks(self, record: Record) -> tuple[b.Block, ...]:
        """Return a chart and a table; nothing where there is one budget."""
        budgets = record.budgets
        if budgets is None:
            return ()
        most = budgets.cells[-1]
        spent = most.steps if budgets.unit == "steps" else most.examples or 0
        full = {"steps": f"{most.steps:,}"} | {budgets.unit: f"{round(spent / most.budget):,}"}
        return (
            b.Paragraph(message(f"budgets.{budgets.unit}", **full)),
            _chart(record, budgets),
            _table(record, budgets),
            b.Paragraph(message("budgets.intervals", level=f"{100 * budgets.level:g}"), note=True),
        )


def _chart(record: Record, budgets: Budgets) -> b.Chart:
    """Draw quality against the budget, whose marks are the budgets themselves."""
    places = {point.budget: float(point.examples or point.steps) for point in budgets.cells}
    lines = []
    for model in record.models:
        scores = ((places[point.budget], point.models.get(model.name)) for point in budgets.cells)
        spots = (b.Spot(place, score.mean, score.low, score.high) for place, score in scores if score)
        lines.append(b.ChartLine(model.name, tuple(spots)))
    marks = tuple((place, compact(place)) for place in places.values())
    across = Scale(None, marks[-1][0], "number", marks[0][0], powers=True, marks=marks)
    caption = message("budgets.caption", metric=headline_name(record), scale=headline_unit(record))
    unit = message(f"budgets.unit.{budgets.unit}")
    return b.Chart("budgets", caption, tuple(lines), record_scale(record), unit, compact, across=across)


def _table(record: Record, budgets: Budgets) -> b.Table:
    """Return a row for each budget: what was spent, what every model reaches, and the difference of the pair."""
    heads = (message("budgets.budget"), *(message(f"budgets.col.{key}") for key in ("steps", "tokens")))
    columns = [*map(b.Column, heads), *(b.Column(model.name, model=True) for model in record.models)]
    if budgets.pair:
        unit = message(f"difference.{record.headline.kind}")
        first, second = budgets.pair
        columns.append(b.Column(message("budgets.difference", first=first, second=second, unit=unit)))
    return b.Table("budgets", tuple(columns), tuple(b.Row(_cells(record, point, budgets)) for point in budgets.cells))


def _cells(record: Record, point: AtBudget, budgets: Budgets) -> tuple[b.Cell, ...]:
    kind = record.headline.kind
    scores = (b.quality_cell(point.models.get(model.name), kind) for model in record.models)
    difference: b.Cell = difference_text(point.difference, kind) if point.difference else NONE
    if point.difference and not is_estimable(point.difference, kind):
        difference = message("gap.wide.cell", count=min(len(score.runs) for score in point.models.values()))
    return (
        amount_of_training(record, point.budget),
        f"{point.steps:,}",
        compact(point.tokens),
        *scores,
        *([difference] if budgets.pair else []),
    )
