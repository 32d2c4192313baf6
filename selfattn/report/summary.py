"""The table of the first screen, row by row: the same text for the page, for Markdown and for the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.report.numbers import (
    NONE,
    amount,
    compact,
    interval_text,
    measure_text,
    percent_number,
    percent_text,
    share_percent,
)
from selfattn.report.palette import Sign, signs
from selfattn.report.record import Estimate, Measure, Model, Record
from selfattn.report.scale import Scale, quality_scale
from selfattn.report.verdict import Outcomes, ranked, standing
from selfattn.report.wordlist import WORDS
from selfattn.report.words import Message, message

RATES = frozenset({"character_error_rate"})
COSTS = ("train_seconds", "tokens_per_second", "predict_ms", "predict_batch_ms")


@dataclass(frozen=True)
class Row:
    """One model in the table of the first screen; figures are text, "–" where nothing was measured."""

    name: str
    sign: Sign
    estimate: Estimate | None
    mean: str
    interval: str
    standing: Message
    parameters: str
    train_seconds: str
    tokens_per_second: str
    predict_ms: str


@dataclass(frozen=True)
class Gap:
    """A figure that is missing, and why."""

    model: str
    what: str
    reason: Message

    @property
    def text(self) -> Message:
        """The gap as one line."""
        return message("gap", model=self.model, what=message(f"what.{self.what}"), reason=self.reason)


def rows(record: Record, outcomes: Outcomes) -> tuple[Row, ...]:
    """The rows of the table, the highest mean first."""
    order = ranked(record)
    sign = signs([model.name for model in record.models])
    return tuple(
        Row(
            name=model.name,
            sign=sign[model.name],
            estimate=model.exact_match,
            mean=percent_number(model.exact_match),
            interval=interval_text(model.exact_match) if model.exact_match else NONE,
            standing=standing(model, order[0], outcomes),
            parameters=compact(model.parameters),
            train_seconds=_mean(model.timing.train_seconds),
            tokens_per_second=_mean(model.timing.tokens_per_second),
            predict_ms=_mean(model.timing.predict_ms),
        )
        for model in order
    )


def record_scale(record: Record) -> Scale:
    """The one axis of quality that all charts of a report share."""
    best = max((model.exact_match.mean for model in record.models if model.exact_match), default=None)
    return quality_scale(best, record.test_items)


def cost_cells(model: Model) -> dict[str, str]:
    """The costs of a model as text, with the range over runs, by their names in the record."""
    return {name: measure_text(getattr(model.timing, name)) for name in COSTS}


def further_metrics(record: Record) -> tuple[str, ...]:
    """Names of what was measured beside exact match."""
    names = dict.fromkeys(name for model in record.models for name in model.metrics)
    return tuple(name for name in names if name != "exact_match")


def metric_name(name: str) -> Message:
    """What a further metric is called: by its words where there are any, else by its name in the record."""
    return message("metric." + name) if "metric." + name in WORDS else message("metric", name=name)


def metric_text(name: str, estimate: Estimate | None) -> str:
    """A further metric as text, in percent where it is known to be a rate, with its interval or the range of runs."""
    if estimate is None:
        return NONE
    if name not in RATES:
        return measure_text(Measure(estimate.mean, estimate.runs))
    if estimate.low is not None:
        return percent_text(estimate)
    text = share_percent(estimate.mean, 2)
    if len(estimate.runs) > 1:
        text += f"\u00a0({share_percent(min(estimate.runs), 2)}–{share_percent(max(estimate.runs), 2)})"
    return text


def gaps(record: Record) -> tuple[Gap, ...]:
    """Every figure of quality and cost that the record does not hold, with the reason that it gives."""
    found = []
    for model in record.models:
        missing = [] if model.exact_match else ["exact_match"]
        missing += [name for name in COSTS if getattr(model.timing, name) is None]
        if not any(point.valid_exact_match is not None for curve in model.curves for point in curve.points):
            missing.append("curves")
        for what in missing:
            given = model.not_measured.get(what)
            reason = message("reason.given", text=given) if given else message("reason.none")
            found.append(Gap(model.name, what, reason))
    return tuple(found)


def origin(record: Record) -> tuple[str, ...]:
    """Where the record comes from, for the line above the question: task, locales, day, commit."""
    locales = record.settings.get("locales")
    parts = [record.task, ", ".join(map(str, locales)) if isinstance(locales, list) else None, record.created[:10]]
    commit = record.environment.get("commit")
    parts.append(str(commit)[:7] if commit else None)
    return tuple(part for part in parts if part)


def interval_note(record: Record) -> Message:
    """What the intervals of the report are."""
    if record.interval is None:
        return message("note.interval.none")
    over = message("over.items" if record.interval.over == "items" else "over.seeds")
    return message("note.interval", level=f"{100 * record.interval.level:g}", method=record.interval.method, over=over)


def _mean(measure: Measure | None) -> str:
    return NONE if measure is None else amount(measure.mean)
