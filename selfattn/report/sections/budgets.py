"""Budgets: what complete trainings of several lengths reach, and where the order of the models changes."""

from __future__ import annotations

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
)
from selfattn.report.drawing.numbers import (
    NONE,
    compact,
    difference_text,
    interval_text,
    mean_text,
)
from selfattn.report.drawing.scale import Scale
from selfattn.report.verdict.comparability import obstacles
from selfattn.report.verdict.conditions import budget_outcomes, share
from selfattn.report.verdict.names import headline_name, headline_unit
from selfattn.report.verdict.ranking import record_scale
from selfattn.results.protocol import AtBudget, Budgets
from selfattn.results.record import Record
from selfattn.words.messages import message


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
            Items(() if obstacles(record) else tuple(budget_outcomes(record))),
            _chart(record, budgets),
            _table(record, budgets),
            Paragraph(message("budgets.intervals", level=level), note=True),
        )


def _chart(record: Record, budgets: Budgets) -> Chart:
    """Quality against the budget, whose marks are the budgets themselves."""
    places = {one.budget: float(one.examples or one.steps) for one in budgets.found}
    lines = tuple(
        ChartLine(
            model.name,
            tuple(
                Spot(places[one.budget], found.mean, found.low, found.high)
                for one in budgets.found
                if (found := one.models.get(model.name))
            ),
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
