"""Sanity gates: what must be true before a verdict means anything, those that did not pass first."""

from __future__ import annotations

from selfattn.figures.gates import Gate
from selfattn.figures.record import Record
from selfattn.registry import register
from selfattn.report.blocks import Block, Column, Paragraph, Row, Table
from selfattn.report.drawing.numbers import NONE
from selfattn.report.verdict.names import named
from selfattn.report.words.messages import Said, message


@register.section("gates")
class Gates:
    """Every gate with its finding."""

    title = message("head.gates")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """One row a gate."""
        if not record.gates:
            return (Paragraph(message("gates.none")),)
        heads = ("gates.gate", "gates.whose", "gates.found", "gates.value", "gates.limit", "gates.reason")
        columns = tuple(Column(message(key), numeric=k in (3, 4)) for k, key in enumerate(heads))
        rows = tuple(_row(record, gate) for gate in sorted(record.gates, key=lambda gate: gate.passed))
        shown = max(10, sum(not gate.passed for gate in record.gates))
        return Paragraph(message("gates.text")), Table("gates", columns, rows, shown=shown)


def _row(record: Record, gate: Gate) -> Row:
    whose: Said = gate.model or message("gates.all")
    if gate.seed is not None and gate.model:
        whose = message("gates.seed", model=gate.model, seed=gate.seed)
    found = message("gates.passed" if gate.passed else "gates.failed")
    value, limit = (NONE if number is None else f"{number:.3g}" for number in (gate.value, gate.limit))
    cells = (named(record, "gate", gate.name), whose, found, value, limit, gate.reason)
    return Row(cells, tone="" if gate.passed else "bad")
