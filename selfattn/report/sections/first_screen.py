"""The first screen: question, answer and badges, and one row a model; a shorter one for 80 columns."""

from __future__ import annotations

from dataclasses import fields

from selfattn.report.blocks import Block, Cell, Column, Items, Noted, Paragraph, Quality, Row, Stacked, Strip, Table
from selfattn.report.drawing.numbers import NONE, amount, compact, interval_text, mean_text, p_text
from selfattn.report.sections.statistics import interval_note, pair_table
from selfattn.report.verdict.comparability import comparable, obstacles
from selfattn.report.verdict.names import headline_name, headline_unit, metric_name
from selfattn.report.verdict.ranking import quality, ranked, record_scale, relation
from selfattn.report.verdict.verdict import LISTED, best_of, limits, standing, verdict
from selfattn.results.cost import MeanOverRuns, Timing
from selfattn.results.record import Model, Record
from selfattn.words.messages import Message, Said, message

TIMES = tuple(field.name for field in fields(Timing))
_PAIRS = 10  # of models, with their tests; in 80 columns, more are in the report


def first_screen(record: Record) -> tuple[Block, ...]:
    """Everything of the first screen."""
    nines = message("note.nines") if record_scale(record).floor else None
    note = Paragraph(interval_note(record), nines, standing_note(record), note=True)
    return verdict(record), summary(record), note, Items(gaps(record), "gaps")


def brief(record: Record) -> tuple[Block, ...]:
    """The same in 80 columns, with the tests of the headline metric and every obstacle."""
    tests = _pairs(record)
    note = Paragraph(interval_note(record), standing_note(record), note=True)
    return (
        verdict(record),
        narrow_summary(record),
        note,
        Paragraph(message("terminal.pairs") if tests else None),
        Items(tests),
        Paragraph(message("terminal.limits") if limits(record) else None),
        Items(limits(record)),
        Items(obstacles(record)[LISTED:], "bad"),
        Items(gaps(record), "gaps"),
    )


def summary(record: Record) -> Table:
    """One row a model, the best mean first."""
    metric, unit, times = headline_name(record), headline_unit(record), record.times
    short = message("col.quality", metric=metric, unit=unit)
    columns = (
        Column(message("col.model"), numeric=False),
        Column(metric, small=message("col.interval", unit=unit), label=short),
        Column(message("col.strip", metric=metric), axis=record_scale(record)),
        Column(message("col.standing" if record.headline.better == "higher" else "col.standing.low"), numeric=False),
        Column(message("col.parameters")),
        Column(message("col.flops"), small=message("unit.flops"), label=message("short.flops")),
        Column(message("col.train"), small=message(f"unit.s.{times}"), label=message(f"short.train.{times}")),
        Column(message("col.predict"), small="ms", label=message("short.predict")),
    )
    return Table("summary", columns, tuple(Row(_cells(record, one), one.name) for one in ranked(record)), "summary")


def _cells(record: Record, model: Model) -> tuple[Cell, ...]:
    best = best_of(record)
    test = None if model is best or not comparable(record, model, best) else relation(record, model, best).test
    return (
        model.name,
        _quality(record, model),
        Strip(((model.name, quality(record, model)),)),
        Stacked(standing(record, model), f"p\u00a0{p_text(test.p_holm)}" if test else ""),
        Noted(compact(model.parameters), f"{model.parameters:,}"),
        compact(model.cost.training_flops_per_token),
        _mean(model.timing.train_seconds),
        _mean(model.timing.predict_ms),
    )


def narrow_summary(record: Record) -> Table:
    """The same table in 80 columns."""
    columns = (
        Column(message("col.model"), numeric=False),
        Column(message("col.quality", metric=headline_name(record), unit=headline_unit(record)), numeric=False),
        Column("", axis=record_scale(record)),
        *(Column(message(f"terminal.{name}")) for name in ("parameters", "train", "predict")),
    )
    rows = []
    for model in ranked(record):
        name, _, strip, _, parameters, _, *times = _cells(record, model)
        mean = Stacked(_quality(record, model), standing(record, model))
        rows.append(Row((name, mean, strip, parameters, *times), model.name))
    return Table("summary", columns, tuple(rows), "summary")


def _quality(record: Record, model: Model) -> Quality:
    kind, estimate = record.headline.kind, quality(record, model)
    return Quality(mean_text(estimate, kind), interval_text(estimate, kind) if estimate else NONE)


def _mean(measure: MeanOverRuns | None) -> str:
    return NONE if measure is None else amount(measure.mean)


def _pairs(record: Record) -> tuple[Message, ...]:
    """The tests of the headline metric, a line each."""
    rows, lines = pair_table(record, record.headline.metric).rows, []
    for row in rows[:_PAIRS]:
        first, second, difference, _, p, word = (one for one in row.cells if isinstance(one, str | Message))
        lines.append(message("terminal.pair", first=first, second=second, difference=difference, p=p, word=word))
    if len(rows) > _PAIRS:
        lines.append(message("terminal.pairs.more", count=len(rows) - _PAIRS))
    return tuple(lines)


def gaps(record: Record) -> tuple[Message, ...]:
    """Every figure of the first screen that the record does not hold, with the reason that it gives."""
    found: dict[tuple[str, str], list[str]] = {}
    metric = record.headline.metric
    for model in record.models:
        missing = [] if quality(record, model) else [metric]
        missing += [name for name in TIMES if getattr(model.timing, name) is None]
        if model.cost.training_flops_per_token is None:
            missing.append("training_flops_per_token")
        if not any(point.valid is not None for curve in model.curves for point in curve.points):
            missing.append("curves")
        for name in missing:
            found.setdefault((name, model.not_measured.get(name, "")), []).append(model.name)
    sentences = []
    for (name, reason), names in found.items():
        all_of_them = len(names) == len(record.models) > 1
        models: Said = message("gap.all") if all_of_them else ", ".join(names)
        what = metric_name(record, name) if name == metric else message(f"what.{name}")
        sentences.append(message("gap", models=models, what=what, reason=reason or message("reason.none")))
    return tuple(sentences)


def standing_note(record: Record) -> Message:
    """What the words of the table mean."""
    return message("note.standing.tests" if record.pairs else "note.standing")
