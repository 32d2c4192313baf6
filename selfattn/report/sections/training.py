"""Training: quality against learning rate, budget, and what a training spends; and what the tuning tried.

Of the tuning: the expected best score by number of trials, which settings matter, and every trial.
"""

import math
from collections.abc import Callable, Sequence
from itertools import chain
from statistics import fmean, stdev
from typing import Any

import numpy as np

from selfattn.evaluation.variances import t_quantile
from selfattn.report import blocks as b
from selfattn.report.numbers import NONE, Scale, amount, compact, difference_text, flatten, value_text
from selfattn.report.ranking import (
    amount_of_training,
    caption_words,
    difference_unit,
    headline_name,
    ranked,
    record_scale,
    share,
    trial_score,
)
from selfattn.report.verdict import at_edge
from selfattn.results.plan import Axis, Budgets, parse_axis
from selfattn.results.quality import Better, Point, Unit, is_estimable
from selfattn.results.record import Model, Record, TuningTrial
from selfattn.words.messages import Message, TextLike, message

_PARTS = 3  # of a range
_MARKS = 6  # most labels on the axis of trials


def trial_charts(record: Record) -> tuple[b.Chart, ...]:
    """Draw the expected best validation score by number of trials, a chart for each budget, the largest first."""
    if record.tuning is None:
        return ()
    shares = [cell.budget for cell in record.budgets.cells[-2::-1]] if record.budgets else []
    return b.drawn(_trial_chart(record, budget) for budget in (None, *shares))


def _trial_chart(record: Record, budget: float | None) -> b.Chart:
    lines: list[b.ChartLine] = []
    longest = 1
    for model in record.models:
        scores = [trial_score(record, trial) for trial in _trials_at(model, budget)]
        with_score = [score for score in scores if score is not None]
        best = expected_best(with_score, record.headline.better) if with_score else []
        spots = tuple(b.Spot(float(number), value) for number, value in enumerate(best, 1))
        lines.append(b.ChartLine(model.name, spots))
        longest = max(longest, len(best))
    step = max(1, longest // _MARKS)
    numbers = sorted({1, *range(step, longest + 1, step)})
    marks = tuple((float(number), str(number)) for number in numbers)
    across = Scale(None, float(max(2, longest)), "number", 1.0, marks=marks)
    caption = message("trials.caption", **caption_words(record), training=amount_of_training(record, budget))
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


def _trials_at(model: Model, budget: float | None) -> list[TuningTrial]:
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
            for label, scores in _parts(record, _trials_at(model, None), axis):
                mean_text = value_text(fmean(scores), record.headline.kind) if scores else NONE
                rows.setdefault((name, label), {})[model.name] = f"{mean_text} ({len(scores)})"
    names = [model.name for model in record.models]
    body = (b.Row((*head, *(cells.get(name, NONE) for name in names))) for head, cells in rows.items())
    return b.Table("sensitivity", columns, tuple(body))


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


def expected_best(scores: Sequence[float], better: Better = "higher") -> list[float]:
    r"""Return the expected best score of 1, 2, ... trials, up to as many as there are (Dodge et al. 2019, section 3).

    With the empirical distribution of the scores in place of the true one, and independent trials,

    .. math:: E[V^*_n] = \sum_v v \, \bigl(\hat P(V \le v)^n - \hat P(V < v)^n\bigr).

    For many trials this is too low, since no better score than the best one seen can be drawn (Tang et al. 2020); its
    squared error is smaller than that of the unbiased estimate (Dodge et al. 2021).

    Args:
        scores: of all trials, each once; at least one.
        better: whether higher or lower scores are better.

    Example:
        >>> expected_best([0.0, 1.0]), expected_best([1.0, 3.0], "lower")
        ([0.5, 0.75], [2.0, 1.5])
    """
    sign = 1.0 if better == "higher" else -1.0
    values, counts = np.unique(sign * np.asarray(scores, dtype=np.float64), return_counts=True)
    below = np.cumsum(counts) / len(scores)
    before = np.concatenate([[0.0], below[:-1]])
    return [sign * float(values @ (below**n - before**n)) for n in range(1, len(scores) + 1)]


@b.section("rates", "head.rates")
def rates_section(record: Record) -> tuple[b.Block, ...]:
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


def tuning_blocks(record: Record) -> tuple[b.Block, ...]:
    """Return how every model was tuned and to what, then all trials of every model."""
    tuned = [model for model in ranked(record) if model.trials]
    if not tuned:
        return (b.Paragraph(message("tuning.none")),)
    heads = map(message, ("tuning.trials", "tuning.seconds", "tuning.valid", "tuning.chosen"))
    settings: dict[str, str] = {}
    for name, axes in record.tuning.space.items() if record.tuning else ():
        owner = "" if record.tuning and record.tuning.is_common else f"{name} "
        settings |= {f"{owner}{setting}": text for setting, text in axes.items()}
    text = message("tuning.text", space="; ".join(f"{name}: {value}" for name, value in settings.items()) or NONE)
    edges = "; ".join(f"{model.name}: {names}" for model in tuned if (names := at_edge(record, model)))
    return (
        b.Paragraph(text, message("tuning.edges", what=edges) if edges else None),
        b.model_table("tuned", heads, ((model.name, _tuned(record, model)) for model in tuned), words=1),
        *(
            b.Folded(message("tuning.all", model=model.name), f"trials-{k}", (_trials(record, model, f"trials-{k}"),))
            for k, model in enumerate(tuned)
        ),
    )


def _tuned(record: Record, model: Model) -> tuple[TextLike, ...]:
    seconds = [trial.seconds for trial in model.trials if trial.seconds is not None]
    duration = amount(sum(seconds)) if len(seconds) == len(model.trials) else NONE
    chosen: dict[float | None, list[str]] = {}
    for trial in model.trials:
        if trial.chosen:
            chosen.setdefault(trial.budget, []).append(_settings(trial))
    texts = {budget: "; ".join(dict.fromkeys(settings)) for budget, settings in chosen.items()}
    text: TextLike = texts.pop(None, NONE)
    for budget, settings in texts.items():
        text = message("tuning.also", chosen=text, budget=share(budget or 1.0), settings=settings)
    scores = [trial.valid for trial in model.trials if trial.chosen and not trial.budget and trial.valid is not None]
    valid = value_text(fmean(scores), record.headline.kind) if scores else NONE
    return str(len(model.trials)), duration, valid, text


def _settings(trial: TuningTrial) -> str:
    return ", ".join(f"{name} {value}" for name, value in flatten(trial.settings).items())


def _trials(record: Record, model: Model, name: str) -> b.Table:
    """Return all trials of a model, the best on validation items first."""
    main_budget = record.budgets.cells[-1].budget if record.budgets else 1.0
    sign = -1 if record.headline.better == "higher" else 1
    rows = []
    for trial in sorted(model.trials, key=lambda trial: math.inf if trial.valid is None else sign * trial.valid):
        text = NONE if trial.valid is None else value_text(trial.valid, record.headline.kind)
        valid = message("tuning.is_chosen", value=text) if trial.chosen else text
        rows.append(b.Row((valid, _settings(trial), share(trial.budget or main_budget), str(trial.seed))))
    heads = (message(key) for key in ("tuning.valid", "col.setting", "tuning.budget", "tuning.seed"))
    return b.Table(name, tuple(b.Column(head, numeric=k > 1) for k, head in enumerate(heads)), tuple(rows))


@b.section("budgets", "head.budgets")
def budgets_section(record: Record) -> tuple[b.Block, ...]:
    """Return a chart and a table; nothing where there is one budget."""
    budgets = record.budgets
    if budgets is None:
        return ()
    main = budgets.cells[-1]
    spent = main.steps if budgets.unit == "steps" else main.examples or 0
    full = {"steps": f"{main.steps:,}"} | {budgets.unit: f"{round(spent / main.budget):,}"}
    return (
        b.Paragraph(message(f"budgets.{budgets.unit}", **full)),
        _budget_chart(record, budgets),
        _budget_table(record, budgets),
        b.Paragraph(message("budgets.intervals", level=f"{100 * budgets.level:g}"), note=True),
    )


def _budget_chart(record: Record, budgets: Budgets) -> b.Chart:
    """Draw quality against the budget, whose marks are the budgets themselves."""
    cells = [(float(cell.examples or cell.steps), cell) for cell in budgets.cells]
    lines = []
    for model in record.models:
        estimates = [(place, cell.models.get(model.name)) for place, cell in cells]
        spots = (b.Spot(place, score.mean, score.low, score.high) for place, score in estimates if score)
        lines.append(b.ChartLine(model.name, tuple(spots)))
    marks = tuple((place, compact(place)) for place, _ in cells)
    across = Scale(None, marks[-1][0], "number", marks[0][0], powers=True, marks=marks)
    caption = message("budgets.caption", **caption_words(record))
    unit = message(f"budgets.unit.{budgets.unit}")
    return quality_chart(record, "budgets", caption, lines, unit, show=compact, across=across)


def _budget_table(record: Record, budgets: Budgets) -> b.Table:
    """Return a row for each budget: what was spent, what every model reaches, and the difference of the pair."""
    kind = record.headline.kind
    heads = map(message, ("budgets.budget", "budgets.col.steps", "budgets.col.tokens"))
    columns = [*map(b.Column, heads), *(b.Column(model.name, model=True) for model in record.models)]
    if budgets.pair:
        first, second = budgets.pair
        unit = difference_unit(record)
        columns.append(b.Column(message("budgets.difference", first=first, second=second, unit=unit)))
    rows = []
    for cell in budgets.cells:
        scores = (b.quality_cell(cell.models.get(model.name), kind) for model in record.models)
        difference: b.Cell = difference_text(cell.difference, kind) if cell.difference else NONE
        if cell.difference and not is_estimable(cell.difference, kind):
            difference = message("gap.wide.cell", count=min(len(score.runs) for score in cell.models.values()))
        spent = amount_of_training(record, cell.budget), f"{cell.steps:,}", compact(cell.tokens)
        rows.append(b.Row((*spent, *scores, *([difference] if budgets.pair else []))))
    return b.Table("budgets", tuple(columns), tuple(rows))


# What training spends: its value at a point of a curve, and that value as text.
_SPENT: dict[str, tuple[Callable[[Point], float | None], Callable[[float], str]]] = {
    "step": (lambda point: point.step, "{:,.0f}".format),
    "tokens": (lambda point: point.tokens, compact),
    "seconds": (lambda point: point.seconds, amount),
    "flops": (lambda point: point.flops, compact),
}


@b.section("learning", "head.learning")
def learning_section(record: Record) -> tuple[b.Block, ...]:
    """Return a chart for each quantity that the record holds; nothing where there is no curve."""
    charts = b.drawn(_chart(record, name) for name in _SPENT)
    if not charts:
        return ()
    items = record.settings.get("curve_items")
    on_part = any(map(_is_on_part, record.models))
    part = message("learning.part", items=items) if isinstance(items, int) and on_part else None
    by_tokens = message("learning.by_tokens") if any(map(_is_by_tokens, record.models)) else None
    bands = message("learning.band") if any(len(model.curves) > 1 for model in record.models) else None
    return (
        b.Paragraph(message("learning.text", metric=headline_name(record)), part, by_tokens, bands),
        b.Charts("against", message("learning.against"), charts),
        b.Paragraph(message("learning.schedule") if record.target is None else None, note=True),
    )


def _chart(record: Record, name: str) -> b.Chart:
    of, show = _SPENT[name]
    unit = message(f"spent.{name}")
    kind = record.headline.kind
    caption = message("learning.caption", **caption_words(record), unit=unit)
    lines = [b.ChartLine(model.name, mean_curve(model, of, kind)) for model in record.models]
    return quality_chart(record, name, caption, lines, unit, show=show, choice=message(f"against.{name}"))


def mean_curve(model: Model, of: Callable[[Point], float | None], kind: Unit) -> tuple[b.Spot, ...]:
    """Return the mean over runs, as far as every run goes.

    Runs that were validated at the same steps are averaged there. Others, whose batches differ, are averaged after the
    same number of target tokens, each interpolated between its validations: a line joins means of the same runs.

    The band is a 95 % interval for the mean (Student's t); with two runs it goes from the lower to the higher.

    Args:
        model: with its curves.
        of: returns the horizontal value of a point; points without one are left out.
        kind: unit of the quality; bands end at 0 and, where it has an upper end, there.
    """
    curves = [[point for point in run if of(point) is not None] for run in _drawn_points(model)]
    runs = [run for run in curves if run]
    if not runs:
        return ()
    by_tokens = _is_by_tokens(model)
    places = [[float(point.tokens or 0) if by_tokens else float(point.step) for point in run] for run in runs]
    start = max(place[0] for place in places)
    end = min(place[-1] for place in places)
    top = {"share": 1.0, "points": 100.0}.get(kind, math.inf)
    spots = []
    for at in dict.fromkeys(min(max(place, start), end) for place in min(places, key=len)):
        across = []
        values = []
        for place, run in zip(places, runs, strict=True):
            across.append(float(np.interp(at, place, [of(point) or 0.0 for point in run])))
            values.append(float(np.interp(at, place, [point.valid or 0.0 for point in run])))
        mean = fmean(values)
        low = min(values) if len(values) == 2 else None
        high = max(values) if len(values) == 2 else None
        if len(values) > 2:
            half = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
            low = max(0.0, mean - half)
            high = min(top, mean + half)
        spots.append(b.Spot(fmean(across), mean, low, high))
    return tuple(spots)


def _is_on_part(model: Model) -> bool:
    """Return whether most points were measured between validations, on a part of the items."""
    points = chain.from_iterable(curve.points for curve in model.curves)
    losses = [point.valid_loss for point in points if point.valid is not None]
    return 2 * losses.count(None) > len(losses)


def _drawn_points(model: Model) -> list[list[Point]]:
    """Return the points of each run that one line may join: validations, or the points between them with the last."""
    on_part = _is_on_part(model)
    runs = []
    for curve in model.curves:
        points = [point for point in curve.points if point.valid is not None]
        last = points[-1:]
        runs.append([point for point in points if (point.valid_loss is None) == on_part or point in last])
    return runs


def _is_by_tokens(model: Model) -> bool:
    """Return whether the runs of a model were validated at different steps, and are averaged by tokens."""
    runs = [run for run in _drawn_points(model) if run]
    if any(point.tokens is None for point in chain.from_iterable(runs)):
        return False
    steps = [[point.step for point in run] for run in runs]
    shortest = min(steps, key=len, default=[])
    return any(run[: len(shortest)] != shortest for run in steps)
