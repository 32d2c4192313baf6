"""The first screen: question, answer, badges and a row for each model; and how far the answer goes."""

from collections.abc import Sequence
from itertools import chain

from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, amount, compact, flatten, p_text
from selfattn.report.sections.quality import interval_note
from selfattn.report.sections.target import target_chart, target_summary
from selfattn.report.sections.tuning import trial_charts
from selfattn.report.verdict import ranking
from selfattn.report.verdict.ranking import headline_name, headline_unit, is_single, quality, ranked, record_scale
from selfattn.report.verdict.verdict import best_of, limits, standing, verdict
from selfattn.results.record import MeanOverRuns, Model, Record
from selfattn.words.messages import Message, message

_WIDTHS = ("dim", "hidden_dim")


@b.section("limits", "head.limits", after="rates")
def limits_section(record: Record) -> tuple[b.Block, ...]:
    """Return a sentence each; nothing where there is no answer."""
    return (b.Items(limits(record)),) if limits(record) else ()


def first_screen(record: Record) -> tuple[b.Block, ...]:
    """Return what the first screen shows below the verdict."""
    if record.target is not None:
        return target_chart(record, record.target), summary(record), *made_of(record)
    nines = message("note.nines") if record_scale(record).floor else None
    return (
        summary(record),
        *made_of(record),
        b.Paragraph(interval_note(record, brief=True), nines, _words_of_tests(record), note=True),
    )


def _words_of_tests(record: Record) -> Message | None:
    """Explain the words beside the models, which say nothing of tests where each was trained once."""
    if ranking.is_one_file(record):
        return message("note.standing.items") if len(record.models) > 1 else None
    return None if is_single(record) else message("note.standing")


def brief(record: Record) -> tuple[b.Block, ...]:
    """Return the same with the verdict and its limits, for the terminal."""
    open_points = limits(record)
    if record.target is not None:
        return verdict(record), summary(record), *made_of(record), b.Items(open_points)
    return (
        verdict(record),
        summary(record),
        *made_of(record),
        *trial_charts(record)[:1],
        b.Paragraph(interval_note(record, brief=True), _words_of_tests(record), note=True),
        b.Paragraph(message("terminal.limits") if open_points else None),
        b.Items(open_points),
    )


def summary(record: Record) -> b.Table:
    """Return a row for each model, the best one first."""
    if record.target is not None:
        return target_summary(record, record.target)
    metric = headline_name(record)
    unit = headline_unit(record)
    columns = [
        b.Column(message("col.model"), numeric=False),
        b.Column(message("col.quality", metric=metric, unit=unit)),
        b.Column(message("col.strip", metric=metric), axis=record_scale(record)),
        b.Column(message("col.standing"), numeric=False),
    ]
    costs = ("short.parameters", "unit.flops", "cost.train_seconds", "short.predict") if record.trained else ()
    columns += [b.Column(message(key)) for key in costs]
    rows = tuple(b.Row(_cells(record, model), model.name) for model in ranked(record))
    return b.Table("summary", tuple(columns), rows, "summary")


def made_of(record: Record) -> tuple[b.Table, ...]:
    """Return layers and width of each model beside the first table, and steps, batch and epochs of its trainings."""
    rows = [(model.name, _made_of(record, model)) for model in ranked(record)]
    if all(cell == NONE for cell in chain.from_iterable(cells for _, cells in rows)):
        return ()
    heads = map(message, ("made.layers", "made.width", "made.steps", "made.batch", "made.epochs"))
    return (b.model_table("made", heads, rows),)


def _made_of(record: Record, model: Model) -> tuple[str, ...]:
    config = flatten(model.config)
    layers = [value for name, value in config.items() if name.endswith("num_layers")]
    widths = [value for name, value in config.items() if name.rpartition(".")[2] in _WIDTHS]
    ends = [curve.points[-1] for curve in model.curves if curve.points]
    chosen = [trial.settings for trial in model.trials if trial.chosen and trial.budget is None]
    sizes = [settings["batch_size"] for settings in chosen if "batch_size" in settings]
    usual = record.settings.get("batch_size")
    return (
        " + ".join(layers) or NONE,
        " + ".join(dict.fromkeys(widths)) or NONE,
        _range([end.step for end in ends]),
        _range([size for size in sizes or [usual] if isinstance(size, int | float)]),
        _range([end.epoch for end in ends]),
    )


def _range(values: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{value:,g}" for value in (min(values), max(values))) if values else {NONE: None}
    return "–".join(ends)


def _cells(record: Record, model: Model) -> tuple[b.Cell, ...]:
    best = best_of(record)
    p = ""
    is_tested = ranking.is_one_file(record) or not is_single(record, model, best)
    if model is not best and is_tested and ranking.comparable(record, model, best):
        p = f"p\u00a0{p_text(ranking.pair_test(record, model, best).p_holm)}"
    cells = (
        model.name,
        b.quality_cell(quality(record, model), record.headline.kind),
        b.Strip(((model.name, quality(record, model)),)),
        b.Styled(standing(record, model), p),
    )
    if not record.trained:
        return cells
    return (
        *cells,
        compact(model.parameters),
        compact(model.cost.training_flops_per_token),
        _mean(model.timing.train_seconds),
        _mean(model.timing.predict_ms),
    )


def _mean(measure: MeanOverRuns | None) -> str:
    return NONE if measure is None else amount(measure.mean)
