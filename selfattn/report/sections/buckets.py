"""The test items in parts: by format, by length, by field, ... with counts, and each model's quality on every part."""

from __future__ import annotations

from selfattn.figures.quality import Bucket, BucketGroup
from selfattn.figures.record import Record
from selfattn.registry import register
from selfattn.report.blocks import Block, Cell, Column, Heading, Paragraph, Quality, Row, Strip, Table
from selfattn.report.drawing.numbers import interval_text, mean_text
from selfattn.report.drawing.scale import Scale, quality_scale
from selfattn.report.verdict.names import metric_name, named
from selfattn.report.verdict.ranking import ranked, record_scale
from selfattn.report.words.messages import message


@register.section("buckets")
class Buckets:
    """Every division of the test that has parts."""

    title = message("head.buckets")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """A table a division; models stand with the best mean first."""
        found: list[Block] = []
        for k, group in enumerate(group for group in record.buckets if group.buckets):
            metric, unit = metric_name(record, group.metric), message(f"unit.{group.kind}")
            measured = message("col.quality", metric=metric, unit=unit)
            found.append(Heading(named(record, "bucket", group.name), f"bucket-{k}", measured))
            found += [Paragraph(group.note, note=True), _table(record, group, f"bucket-{k}")]
        return (Paragraph(message("buckets.text")), *found) if found else ()


def _table(record: Record, group: BucketGroup, name: str) -> Table:
    measured = {name for bucket in group.buckets for name in bucket.models}
    names = [model.name for model in ranked(record) if model.name in measured]
    columns = (
        Column(message("col.part"), numeric=False),
        Column(message("col.items")),
        Column(message("col.strip", metric=metric_name(record, group.metric)), axis=_scale(record, group)),
        *(Column(name, model=True) for name in names),
    )
    return Table(name, columns, tuple(_row(bucket, names, group) for bucket in group.buckets), "formats")


def _row(bucket: Bucket, names: list[str], group: BucketGroup) -> Row:
    entries = tuple((name, bucket.models.get(name)) for name in names)
    cells: list[Cell] = [bucket.name, f"{bucket.items:,}", Strip(entries)]
    for _, one in entries:
        cells.append(Quality(mean_text(one, group.kind), interval_text(one, group.kind) if one else ""))
    return Row(tuple(cells))


def _scale(record: Record, group: BucketGroup) -> Scale:
    """The axis of the headline metric where the parts are of that metric, else one of their own."""
    if group.metric == record.headline.metric:
        return record_scale(record)
    found = [estimate for bucket in group.buckets for estimate in bucket.models.values()]
    best = max((one.high if one.high is not None else one.mean for one in found), default=None)
    return quality_scale(best, 0, group.kind)
