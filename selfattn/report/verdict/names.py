"""Display names of metrics, buckets and gates: the task's own, else the catalogues', else the name in the record."""

from __future__ import annotations

from selfattn.results.quality import Unit
from selfattn.results.record import Record
from selfattn.words.catalogue import SOURCE, catalogue
from selfattn.words.messages import Message


def in_task_words(record: Record, key: str, **values: str | int | Message) -> Message:
    """A message by its key, with the texts of the task (`Subject.words`) where the task has its own."""
    words = record.subject.words
    return Message(key, values, {lang: texts[key] for lang, texts in words.items() if key in texts})


def named(record: Record, what: str, name: str) -> Message:
    """The display name of a metric, a bucket or a gate.

    Args:
        record: may bring the task's own texts.
        what: `metric`, `bucket` or `gate`: the first part of the key.
        name: in the record.
    """
    found = in_task_words(record, f"{what}.{name}")
    return found if found.own or found.key in catalogue(SOURCE) else Message(what, {"name": name})


def metric_name(record: Record, name: str) -> Message:
    """The display name of a metric."""
    return named(record, "metric", name)


def metric_kind(record: Record, name: str) -> Unit | None:
    """The unit of a metric, the headline or another; None for a plain number."""
    return record.headline.kind if name == record.headline.metric else record.units.get(name)


def headline_name(record: Record) -> Message:
    """The display name of the metric that the verdict is about."""
    return metric_name(record, record.headline.metric)


def headline_unit(record: Record) -> Message:
    """The unit of that metric as it is shown, such as %."""
    return Message(f"unit.{record.headline.kind}")
