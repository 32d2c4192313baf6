"""What things are called: in the task's own words, else in those of the catalogues, else by their name."""

from __future__ import annotations

from selfattn.figures.quality import Unit
from selfattn.figures.record import Record
from selfattn.report.words.catalogue import SOURCE, catalogue
from selfattn.report.words.messages import Message


def asked(record: Record, key: str, **values: str | int | Message) -> Message:
    """A message that the task of the record may have words of its own for."""
    words = record.subject.words
    return Message(key, values, {lang: texts[key] for lang, texts in words.items() if key in texts})


def named(record: Record, what: str, name: str) -> Message:
    """A `metric`, a `bucket` or a `gate` by its name in the record."""
    own = asked(record, f"{what}.{name}")
    return own if own.own or own.key in catalogue(SOURCE) else Message(what, {"name": name})


def metric_name(record: Record, name: str) -> Message:
    """What a metric is called."""
    return named(record, "metric", name)


def metric_kind(record: Record, name: str) -> Unit | None:
    """How a metric is shown; None for one that is shown as it is."""
    return record.headline.kind if name == record.headline.metric else record.units.get(name)


def headline_name(record: Record) -> Message:
    """What the metric is called that the verdict is about."""
    return metric_name(record, record.headline.metric)


def headline_unit(record: Record) -> Message:
    """What that metric is counted in."""
    return Message(f"unit.{record.headline.kind}")
