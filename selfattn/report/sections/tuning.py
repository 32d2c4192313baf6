"""Tuning: quality against learning rate, the first picture of a report; and every trial, a part of fairness."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

from selfattn.registry import register
from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, amount, flatten, value_text
from selfattn.report.drawing.scale import Scale, quality_scale
from selfattn.report.verdict.conditions import amount_of_training, share
from selfattn.report.verdict.ranking import headline_name, headline_unit, ranked, rate_scores
from selfattn.results.record import Model, Record, TuningTrial
from selfattn.words.messages import TextLike, message

_MARKS = 6  # most labels on the axis of rates


@register.section("rates")
class Rates:
    """Quality against learning rate."""

    title = message("head.rates")

    def blocks(self, record: Record) -> tuple[b.Block, ...]:
        """Return a chart for each budget, the largest first; nothing where other settings were tuned, too."""
        charts = rate_charts(record)
        return (b.Paragraph(message("rates.text")), *charts) if charts else ()


def rate_charts(record: Record) -> tuple[b.Chart, ...]:
    """Draw validation scores against learning rate: mean and range over tuning seeds, the chosen rate ringed."""
    shares = [cell.budget for cell in record.budgets.cells[-2::-1]] if record.budgets else []
    return tuple(chart for budget in (None, *shares) if (chart := _rate_chart(record, budget)))


def _rate_chart(record: Record, budget: float | None) -> b.Chart | None:
    lines: list[b.ChartLine] = []
    for model in record.models:
        chosen = {trial.settings.get("lr") for trial in model.trials if trial.chosen and trial.budget == budget}
        spots = (
            b.Spot(rate, fmean(scores), min(scores), max(scores), rate in chosen)
            for rate, scores in rate_scores(record, model, budget).items()
        )
        lines.append(b.ChartLine(model.name, tuple(spots)))
    spots_of_all = [spot for line in lines for spot in line.spots]
    rates = sorted({spot.x for spot in spots_of_all})
    if len(rates) < 2:
        return None
    marks = tuple((rate, f"{rate:g}") for rate in rates[:: math.ceil(len(rates) / _MARKS)])
    across = Scale(None, 1.15 * rates[-1], "number", rates[0] / 1.15, powers=True, marks=marks)
    measured = {"metric": headline_name(record), "scale": headline_unit(record)}
    caption = message("rates.caption", **measured, training=amount_of_training(record, budget))
    items = record.test_items if record.headline.better == "higher" else 0
    scale = quality_scale(max(spot.y for spot in spots_of_all), items, record.headline.kind)
    name = "rates" if budget is None else f"rates-{budget:g}"
    return b.Chart(name, caption, tuple(lines), scale, message("rates.unit"), across=across)


def tuning_blocks(record: Record) -> tuple[b.Block, ...]:
    """Return how every model was tuned and to what, then all trials of every model."""
    tuned = [model for model in ranked(record) if model.trials]
    if not tuned:
        return (b.Paragraph(message("tuning.none")),)
    heads = (message(f"tuning.{key}") for key in ("trials", "seconds", "valid", "chosen"))
    declared = record.settings.get("tuning_space")
    space = flatten(declared) if isinstance(declared, Mapping) else {}
    text = message("tuning.text", space="; ".join(f"{name}: {value}" for name, value in space.items()) or NONE)
    edge = ", ".join(model.name for model in tuned if _at_edge(model))
    budgets = message("tuning.budgets") if any(trial.budget for model in tuned for trial in model.trials) else None
    return (
        b.Paragraph(text, budgets, message("tuning.edge", names=edge) if edge else None),
        b.model_table("tuned", heads, ((model.name, _tuned(record, model)) for model in tuned), words=1),
        *(
            b.Folded(message("tuning.all", model=model.name), f"trials-{k}", (_trials(record, model, f"trials-{k}"),))
            for k, model in enumerate(tuned)
        ),
    )


def _at_edge(model: Model) -> bool:
    """Return whether the chosen learning rate is the lowest or the highest that was tried."""
    rates: dict[float | None, dict[float, bool]] = {}
    for trial in model.trials:
        if isinstance(rate := trial.settings.get("lr"), float):
            rates.setdefault(trial.budget, {})[rate] = trial.chosen
    return any(len(tried) > 2 and (tried[min(tried)] or tried[max(tried)]) for tried in rates.values())


def _tuned(record: Record, model: Model) -> tuple[TextLike, ...]:
    seconds = [trial.seconds for trial in model.trials if trial.seconds is not None]
    known = amount(sum(seconds)) if len(seconds) == len(model.trials) else NONE
    chosen = [trial for trial in model.trials if trial.chosen and trial.budget is None]
    scores = [trial.valid for trial in chosen if trial.valid is not None]
    if not scores:
        return str(len(model.trials)), known, NONE, NONE
    text: TextLike = _settings(chosen[0]) or message("tuning.recipe")
    for budget, settings in {trial.budget: _settings(trial) for trial in model.trials if trial.chosen}.items():
        if budget:
            text = message("tuning.also", chosen=text, budget=share(budget), settings=settings)
    return str(len(model.trials)), known, value_text(fmean(scores), record.headline.kind), text


def _settings(trial: TuningTrial) -> str:
    return ", ".join(f"{name}\u00a0{_short(value)}" for name, value in flatten(trial.settings).items())


def _trials(record: Record, model: Model, name: str) -> b.Table:
    """Return all trials of a model, the best on validation items first."""
    names = dict.fromkeys(name for trial in model.trials for name in flatten(trial.settings))
    budgets = any(trial.budget for trial in model.trials)
    most = record.budgets.cells[-1].budget if record.budgets else 1.0
    turn = -1 if record.headline.better == "higher" else 1
    rows = []
    for trial in sorted(model.trials, key=lambda trial: math.inf if trial.valid is None else turn * trial.valid):
        text = NONE if trial.valid is None else value_text(trial.valid, record.headline.kind)
        settings = flatten(trial.settings)
        cells = (
            message("tuning.is_chosen", value=text) if trial.chosen else text,
            *(_short(settings.get(name, NONE)) for name in names),
            *([share(trial.budget or most)] if budgets else []),
            str(trial.seed),
            NONE if trial.loss is None else f"{trial.loss:.3f}",
            NONE if trial.seconds is None else amount(trial.seconds),
        )
        rows.append(b.Row(cells))
    keys = (*(["budget"] if budgets else []), "seed", "loss", "seconds")
    heads: list[TextLike] = [*names, *(message(f"tuning.{key}") for key in keys)]
    return b.Table(name, (b.Column(message("tuning.valid"), numeric=False), *map(b.Column, heads)), tuple(rows))


def _short(value: str) -> str:
    """Return a drawn number in three digits, any other value as it is."""
    try:
        return f"{float(value):.3g}" if "." in value or "e" in value else value
    except ValueError:
        return value
