"""The first screen: question, answer, badges and a row for each model; and how far the answer goes."""

from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, amount, compact, p_text
from selfattn.report.sections.quality import interval_note
from selfattn.report.sections.training import rate_charts
from selfattn.report.verdict import ranking
from selfattn.report.verdict.ranking import headline_name, headline_unit, is_single, quality, ranked, record_scale
from selfattn.report.verdict.verdict import best_of, limits, standing, verdict
from selfattn.results.record import MeanOverRuns, Model, Record
from selfattn.words.messages import message


@b.section("limits", after="rates")
def limits_section(record: Record) -> tuple[b.Block, ...]:
    """Return a sentence each; nothing where there is no answer."""
    return (b.Items(limits(record)),) if limits(record) else ()


def first_screen(record: Record) -> tuple[b.Block, ...]:
    """Return what the first screen shows below the verdict."""
    nines = message("note.nines") if record_scale(record).floor else None
    return summary(record), b.Paragraph(interval_note(record, brief=True), nines, message("note.standing"), note=True)


def brief(record: Record) -> tuple[b.Block, ...]:
    """Return the same with the verdict and its limits, for the terminal."""
    open_points = limits(record)
    return (
        verdict(record),
        summary(record),
        *rate_charts(record)[:1],
        b.Paragraph(interval_note(record, brief=True), message("note.standing"), note=True),
        b.Paragraph(message("terminal.limits") if open_points else None),
        b.Items(open_points),
    )


def summary(record: Record) -> b.Table:
    """Return a row for each model, the best mean first."""
    metric = headline_name(record)
    columns = [
        b.Column(message("col.model"), numeric=False),
        b.Column(message("col.quality", metric=metric, unit=headline_unit(record))),
        b.Column(message("col.strip", metric=metric), axis=record_scale(record)),
        b.Column(message("col.standing"), numeric=False),
    ]
    costs = ("short.parameters", "unit.flops", "cost.train_seconds", "short.predict") if record.trained else ()
    columns += [b.Column(message(key)) for key in costs]
    rows = tuple(b.Row(_cells(record, model), model.name) for model in ranked(record))
    return b.Table("summary", tuple(columns), rows, "summary")


def _cells(record: Record, model: Model) -> tuple[b.Cell, ...]:
    best = best_of(record)
    p = ""
    if model is not best and not is_single(record) and ranking.comparable(record, model, best):
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
