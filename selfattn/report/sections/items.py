"""Test items: in parts (by format, by length, by field, ...) with each model's quality, and where models differ."""

from __future__ import annotations

from selfattn.registry import register
from selfattn.report import blocks as b
from selfattn.report.drawing.scale import Scale, quality_scale
from selfattn.report.verdict.ranking import named, ranked, record_scale
from selfattn.results.quality import Bucket, BucketGroup
from selfattn.results.record import Record
from selfattn.words.messages import message


@register.section("buckets")
class Buckets:
    """Every division of the test that has parts."""

    title = message("head.buckets")

    def blocks(self, record: Record) -> tuple[b.Block, ...]:
        """A table a division; models stand with the best mean first."""
        blocks: list[b.Block] = []
        for k, group in enumerate(group for group in record.buckets if group.buckets):
            metric, unit = named(record, "metric", group.metric), message(f"unit.{group.kind}")
            measured = message("col.quality", metric=metric, unit=unit)
            blocks.append(b.Heading(named(record, "bucket", group.name), f"bucket-{k}", measured))
            blocks += [b.Paragraph(group.note, note=True), _table(record, group, f"bucket-{k}")]
        return (b.Paragraph(message("buckets.text")), *blocks) if blocks else ()


def _table(record: Record, group: BucketGroup, name: str) -> b.Table:
    measured = {name for bucket in group.buckets for name in bucket.models}
    names = [model.name for model in ranked(record) if model.name in measured]
    columns = (
        b.Column(message("col.part"), numeric=False),
        b.Column(message("col.items")),
        b.Column(message("col.strip", metric=named(record, "metric", group.metric)), axis=_scale(record, group)),
        *(b.Column(name, model=True) for name in names),
    )
    return b.Table(name, columns, tuple(_row(bucket, names, group) for bucket in group.buckets), "formats")


def _row(bucket: Bucket, names: list[str], group: BucketGroup) -> b.Row:
    entries = tuple((name, bucket.models.get(name)) for name in names)
    means = (b.quality_cell(score, group.kind) for _, score in entries)
    return b.Row((bucket.name, f"{bucket.items:,}", b.Strip(entries), *means))


def _scale(record: Record, group: BucketGroup) -> Scale:
    """The axis of the headline metric where the parts are of that metric, else one of their own."""
    if group.metric == record.headline.metric:
        return record_scale(record)
    scores = [score for bucket in group.buckets for score in bucket.models.values()]
    best = max((score.mean if score.high is None else score.high for score in scores), default=None)
    return quality_scale(best, 0, group.kind)


@register.section("differences")
class Differences:
    """Answers side by side."""

    title = message("head.differences")

    def blocks(self, record: Record) -> tuple[b.Block, ...]:
        """One row an item; models stand with the best mean first."""
        if not record.differences:
            return (b.Paragraph(message("differences.none")),)
        names = [model.name for model in ranked(record)]
        heads = (b.Column(message("col.source"), numeric=False), b.Column(message("col.target"), numeric=False))
        columns = (*heads, *(b.Column(name, numeric=False, model=True) for name in names))
        rows = tuple(
            b.Row(
                (
                    b.Styled(item.source, item.format, quoted=True),
                    b.Styled(item.target, quoted=True),
                    *(b.MarkedAnswer(item.predictions.get(name), item.target) for name in names),
                )
            )
            for item in record.differences
        )
        text = message("differences.text", count=len(rows))
        return b.Paragraph(text), b.Table("differences", columns, rows, "differences", shown=12)
