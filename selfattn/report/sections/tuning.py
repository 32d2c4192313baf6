"""Tuning: the expected best score by number of trials, and which settings matter."""

from collections.abc import Sequence
from itertools import chain
from statistics import fmean
from typing import Any

from selfattn.evaluation.statistics.tuning_curve import expected_best
from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, value_text
from selfattn.report.drawing.scale import Scale
from selfattn.report.verdict.conditions import amount_of_training
from selfattn.report.verdict.ranking import headline_name, measured, record_scale, trial_score
from selfattn.results.plan import Axis, parse_axis
from selfattn.results.record import Model, Record, TuningTrial
from selfattn.words.messages import Message, message

_PARTS = 3  # of a range
_MARKS = 6  # most labels on the axis of trials


def settings_blocks(record: Record) -> tuple[b.Block, ...]:
    """Return what trials brought, and which settings matter; nothing without tuning."""
    charts = trial_charts(record)
    if record.tuning is None or record.target is not None or not charts:
        return ()
    how = message("trials.text", trials=record.tuning.trials, tunings=record.tuning.tunings)
    luck = message("trials.units") if record.tuning.tunings > 1 else message("trials.one")
    apart = None if record.tuning.is_common else message("badge.spaces")
    return (
        b.Paragraph(how, luck, apart),
        *charts,
        b.Paragraph(message("trials.expected"), note=True),
        b.Heading(message("sensitivity.head"), "sensitivity"),
        b.Paragraph(message("sensitivity.text", metric=headline_name(record))),
        sensitivity(record),
    )


def trial_charts(record: Record) -> tuple[b.Chart, ...]:
    """Draw the expected best validation score by number of trials, a chart for each budget, the largest first."""
    if record.tuning is None:
        return ()
    shares = [cell.budget for cell in record.budgets.cells[-2::-1]] if record.budgets else []
    charts = (_trial_chart(record, budget) for budget in (None, *shares))
    return tuple(chart for chart in charts if any(line.spots for line in chart.lines))


def _trial_chart(record: Record, budget: float | None) -> b.Chart:
    lines: list[b.ChartLine] = []
    most = 1
    for model in record.models:
        scores = [trial_score(record, trial) for trial in _trials(model, budget)]
        known = [score for score in scores if score is not None]
        best = expected_best(known, record.headline.better) if known else []
        spots = tuple(b.Spot(float(number), value) for number, value in enumerate(best, 1))
        lines.append(b.ChartLine(model.name, spots))
        most = max(most, len(best))
    step = max(1, most // _MARKS)
    numbers = sorted({1, *range(step, most + 1, step)})
    marks = tuple((float(number), str(number)) for number in numbers)
    across = Scale(None, float(max(2, most)), "number", 1.0, marks=marks)
    caption = message("trials.caption", **measured(record), training=amount_of_training(record, budget))
    name = "trials" if budget is None else f"trials-{budget:g}"
    return quality_chart(record, name, caption, lines, message("trials.unit"), across=across)


def quality_chart(
    record: Record, name: str, caption: Message, lines: Sequence[b.ChartLine], unit: Message, **options: Any
) -> b.Chart:
    """Draw lines in the metric that decides.

    Args:
        record: of the comparison.
        name: see :class:`selfattn.report.blocks.Chart`, as all that follow.
        caption: see there.
        lines: see there.
        unit: see there.
        options: see there.
    """
    spots = chain.from_iterable(line.spots for line in lines)
    scale = record_scale(record, [spot.y for spot in spots])
    height = message("axis.nines") if scale.floor else ""  # captions name the metric
    return b.Chart(name, caption, tuple(lines), scale, unit, height=height, **options)


def _trials(model: Model, budget: float | None) -> list[TuningTrial]:
    return [trial for trial in model.trials if trial.budget == budget]


def sensitivity(record: Record) -> b.Table:
    """Return the mean validation score of all trials in each part of each setting's range."""
    heads = (b.Column(message("col.setting"), numeric=False), b.Column(message("sensitivity.part"), numeric=False))
    columns = (*heads, *(b.Column(model.name, model=True) for model in record.models))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    spaces = record.tuning.space if record.tuning else {}
    for model in record.models:
        for name, text in spaces.get(model.name, {}).items():
            axis = parse_axis(f"{name}={text}")
            for label, scores in _parts(record, _trials(model, None), axis):
                shown = value_text(fmean(scores), record.headline.kind) if scores else NONE
                rows.setdefault((name, label), {})[model.name] = f"{shown} ({len(scores)})"
    listed: list[b.Row] = []
    for (name, label), cells in rows.items():
        listed.append(b.Row((name, label, *(cells.get(model.name, NONE) for model in record.models))))
    return b.Table("sensitivity", columns, tuple(listed))


def _parts(record: Record, trials: Sequence[TuningTrial], axis: Axis) -> list[tuple[str, list[float]]]:
    """Divide trials by the listed values of a setting, or by the thirds of its range."""
    count = len(axis.values) or _PARTS
    scores: list[list[float]] = [[] for _ in range(count)]
    for trial in trials:
        value = trial.settings.get(axis.name)
        score = trial_score(record, trial)
        if isinstance(value, int | float) and score is not None:
            scores[min(count - 1, int(axis.place(float(value)) * count))].append(score)
    labels = [f"{value:g}" for value in axis.values]
    for part in range(0 if axis.values else _PARTS):
        low = axis.at(part / _PARTS)
        high = axis.at((part + 1) / _PARTS)
        labels.append(f"{low:.2g}–{high:.2g}")
    return list(zip(labels, scores, strict=True))
