"""Where models differ: test items on which they do not all say the same, with what is wrong in every answer."""

from __future__ import annotations

from selfattn.figures.record import Record
from selfattn.registry import register
from selfattn.report.blocks import Answer, Block, Column, Paragraph, Row, Stacked, Table
from selfattn.report.verdict.ranking import ranked
from selfattn.report.words.messages import message


@register.section("differences")
class Differences:
    """Answers side by side."""

    title = message("head.differences")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """One row an item; models stand with the best mean first."""
        if not record.differences:
            return (Paragraph(message("differences.none")),)
        names = [model.name for model in ranked(record)]
        heads = (Column(message("col.source"), numeric=False), Column(message("col.target"), numeric=False))
        columns = (*heads, *(Column(name, numeric=False, model=True) for name in names))
        rows = tuple(
            Row(
                (
                    Stacked(one.source, one.format, quoted=True),
                    Stacked(one.target, quoted=True),
                    *(Answer(one.predictions.get(name), one.target) for name in names),
                )
            )
            for one in record.differences
        )
        text = message("differences.text", count=len(rows))
        return Paragraph(text), Table("differences", columns, rows, "differences", shown=12)
