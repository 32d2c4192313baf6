"""The test items in parts: by format, by length, by field, ... with counts, and each model's quality on every part."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.figures.buckets import Bucket, BucketGroup
from selfattn.figures.quality import Estimate
from selfattn.figures.record import Record
from selfattn.report.drawing.numbers import estimate_text, interval_text, mean_text
from selfattn.report.drawing.scale import Scale, quality_scale
from selfattn.report.render.grid import Column, Grid, Line
from selfattn.report.sections.summary import record_scale
from selfattn.report.verdict.names import metric_name, named
from selfattn.report.verdict.ranking import ranked
from selfattn.report.words.messages import Message, message


@dataclass(frozen=True)
class Entry:
    """One model on one part, as text and as it was measured."""

    model: str
    estimate: Estimate | None
    mean: str
    interval: str


@dataclass(frozen=True)
class BucketLine:
    """One part of the items."""

    name: str
    items: str
    cells: tuple[Entry, ...]


@dataclass(frozen=True)
class Part:
    """One way to divide the items.

    Args:
        id: an identifier.
        title: its heading.
        metric: what is measured.
        unit: of what is measured.
        note: how items come into the parts; empty where nothing was said.
        scale: the axis of all its parts.
        lines: the parts.
    """

    id: str
    title: Message
    metric: Message
    unit: Message
    note: str
    scale: Scale
    lines: tuple[BucketLine, ...]


def parts(record: Record) -> tuple[Part, ...]:
    """Every division of the record that has parts; models stand with the highest mean first."""
    groups = [group for group in record.buckets if group.buckets]
    return tuple(_part(record, group, f"bucket-{k}") for k, group in enumerate(groups))


def _part(record: Record, group: BucketGroup, identifier: str) -> Part:
    measured = {name for bucket in group.buckets for name in bucket.models}
    names = [model.name for model in ranked(record) if model.name in measured]
    lines = tuple(_line(bucket, names, group) for bucket in group.buckets)
    title = named(record, "bucket", group.name)
    unit = message(f"unit.{group.kind}")
    return Part(identifier, title, metric_name(record, group.metric), unit, group.note, _scale(record, group), lines)


def _line(bucket: Bucket, names: list[str], group: BucketGroup) -> BucketLine:
    cells = []
    for name in names:
        estimate = bucket.models.get(name)
        interval = interval_text(estimate, group.kind) if estimate else ""
        cells.append(Entry(name, estimate, mean_text(estimate, group.kind), interval))
    return BucketLine(bucket.name, f"{bucket.items:,}", tuple(cells))


def _scale(record: Record, group: BucketGroup) -> Scale:
    """The axis of the headline metric where the parts are of that metric, else one of their own."""
    if group.metric == record.headline.metric:
        return record_scale(record)
    found = [estimate for bucket in group.buckets for estimate in bucket.models.values()]
    best = max((one.high if one.high is not None else one.mean for one in found), default=None)
    return quality_scale(best, 0, group.kind)


def part_grid(record: Record, group: BucketGroup) -> Grid:
    """One way to divide the items as a table without drawings."""
    measured = {name for bucket in group.buckets for name in bucket.models}
    names = [model.name for model in ranked(record) if model.name in measured]
    heads = (Column(message("col.part"), numeric=False), Column(message("col.items")))
    columns = (*heads, *(Column(name, model=True) for name in names))
    lines = tuple(
        Line((bucket.name, f"{bucket.items:,}", *(estimate_text(bucket.models.get(n), group.kind) for n in names)))
        for bucket in group.buckets
    )
    return Grid(f"bucket-{group.name}", columns, lines)
