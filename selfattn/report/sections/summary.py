"""The table of the first screen, row by row: the same text for the page, for Markdown and for the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.figures.cost import MeanOverRuns
from selfattn.figures.quality import Estimate
from selfattn.figures.record import Model, Record
from selfattn.report.drawing.numbers import (
    NONE,
    amount,
    compact,
    estimate_text,
    interval_text,
    mean_text,
    p_text,
    value_text,
)
from selfattn.report.drawing.palette import Sign, signs
from selfattn.report.drawing.scale import Scale, quality_scale
from selfattn.report.render.grid import Column, Grid, Line
from selfattn.report.verdict.comparability import comparable
from selfattn.report.verdict.names import metric_kind, metric_name
from selfattn.report.verdict.ranking import quality, ranked, relation
from selfattn.report.verdict.verdict import best_of, standing
from selfattn.report.words.messages import Message, message

TIMES = ("train_seconds", "tokens_per_second", "predict_ms", "predict_batch_ms")


@dataclass(frozen=True)
class Row:
    """One model in the table of the first screen; figures are text, "–" where nothing was measured."""

    name: str
    sign: Sign
    estimate: Estimate | None
    mean: str
    interval: str
    standing: Message
    p: str
    parameters: str
    flops_per_token: str
    train_seconds: str
    predict_ms: str


@dataclass(frozen=True)
class Gap:
    """A figure that is missing, and why, with the models for which it is so."""

    models: tuple[str, ...]
    what: Message
    reason: Message
    all: bool

    @property
    def text(self) -> Message:
        """The gap as one line."""
        models = message("gap.all") if self.all else message("gap.models", names=", ".join(self.models))
        return message("gap", models=models, what=self.what, reason=self.reason)


def rows(record: Record) -> tuple[Row, ...]:
    """The rows of the table, the highest mean first."""
    order = ranked(record)
    sign = signs([model.name for model in record.models])
    best = best_of(record)
    return tuple(_row(record, model, sign[model.name], best) for model in order)


def _row(record: Record, model: Model, sign: Sign, best: Model) -> Row:
    kind, estimate = record.headline.kind, quality(record, model)
    test = None if model is best or not comparable(record, model, best) else relation(record, model, best).test
    return Row(
        name=model.name,
        sign=sign,
        estimate=estimate,
        mean=mean_text(estimate, kind),
        interval=interval_text(estimate, kind) if estimate else NONE,
        standing=standing(record, model),
        p=f"p\u00a0{p_text(test.p_holm)}" if test else "",
        parameters=compact(model.parameters),
        flops_per_token=compact(model.cost.training_flops_per_token),
        train_seconds=_mean(model.timing.train_seconds),
        predict_ms=_mean(model.timing.predict_ms),
    )


def record_scale(record: Record) -> Scale:
    """The one axis of the headline metric that all charts of a report share."""
    kind = record.headline.kind
    found = [estimate for model in record.models if (estimate := quality(record, model))]
    tops = [one.mean if kind == "share" or one.high is None else one.high for one in found]
    if kind == "points":
        tops += [p.valid for m in record.models for curve in m.curves for p in curve.points if p.valid is not None]
    return quality_scale(max(tops, default=None), record.test_items, kind)


def further_metrics(record: Record) -> Grid:
    """What was measured beside the headline metric."""
    names = dict.fromkeys(name for model in record.models for name in model.metrics)
    names.pop(record.headline.metric, None)
    columns = (Column(message("col.model"), numeric=False), *(Column(metric_name(record, name)) for name in names))
    lines = tuple(
        Line((model.name, *(_metric_text(record, name, model.metrics.get(name)) for name in names)), model.name)
        for model in ranked(record)
    )
    return Grid("further", columns, lines if names else ())


def _metric_text(record: Record, name: str, estimate: Estimate | None) -> str:
    """With its interval, or the range of the runs where there is none."""
    kind = metric_kind(record, name)
    if estimate is None:
        return NONE
    if kind and estimate.low is not None:
        return estimate_text(estimate, kind)

    def show(value: float) -> str:
        return value_text(value, kind) if kind else amount(value)

    text = show(estimate.mean)
    if len(estimate.runs) > 1:
        text += f"\u00a0({show(min(estimate.runs))}–{show(max(estimate.runs))})"
    return text


def gaps(record: Record) -> tuple[Gap, ...]:
    """Every figure of the first screen that the record does not hold, with the reason that it gives."""
    found: dict[tuple[str, str], tuple[list[str], Message]] = {}
    metric = record.headline.metric
    for model in record.models:
        missing = [] if quality(record, model) else [metric]
        missing += [name for name in TIMES if getattr(model.timing, name) is None]
        if model.cost.training_flops_per_token is None:
            missing.append("training_flops_per_token")
        if not any(point.valid is not None for curve in model.curves for point in curve.points):
            missing.append("curves")
        for what in missing:
            given = model.not_measured.get(what, "")
            reason = message("reason.given", text=given) if given else message("reason.none")
            found.setdefault((what, given), ([], reason))[0].append(model.name)
    return tuple(
        Gap(tuple(names), _what(record, what), reason, len(names) == len(record.models) > 1)
        for (what, _), (names, reason) in found.items()
    )


def _what(record: Record, name: str) -> Message:
    return metric_name(record) if name == record.headline.metric else message(f"what.{name}")


def origin(record: Record) -> tuple[str, ...]:
    """Where the record comes from, for the line above the question: task, locales or languages, day, commit."""
    locales = record.settings.get("locales")
    languages = [record.settings.get(f"{side}_language") for side in ("source", "target")]
    named = ", ".join(map(str, locales)) if isinstance(locales, list) else None
    named = " → ".join(map(str, languages)) if all(languages) else named
    parts = [record.task, named, record.created[:10]]
    commit = record.environment.get("commit")
    parts.append(str(commit)[:7] if commit else None)
    return tuple(part for part in parts if part)


def interval_note(record: Record) -> Message:
    """What the intervals of the report are."""
    if record.interval is None:
        return message("note.interval.none")
    over = message("over.items" if record.interval.over == "items" else "over.seeds")
    return message("note.interval", level=f"{100 * record.interval.level:g}", method=record.interval.method, over=over)


def standing_note(record: Record) -> Message:
    """What the words of the table mean."""
    return message("note.standing.tests" if record.pairs else "note.standing")


def _mean(measure: MeanOverRuns | None) -> str:
    return NONE if measure is None else amount(measure.mean)
