"""The first screen: question, answer, badges and a row for each model; and how far the answer goes."""

from dataclasses import fields, replace

from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, amount, compact, p_text
from selfattn.report.sections.quality import interval_note
from selfattn.report.sections.training import rate_charts
from selfattn.report.verdict import ranking
from selfattn.report.verdict.ranking import headline_name, headline_unit, is_single, quality, ranked, record_scale
from selfattn.report.verdict.verdict import LISTED, best_of, limits, standing, verdict
from selfattn.results.record import MeanOverRuns, Model, Record, Timing
from selfattn.words.messages import Message, TextLike, message

TIMES = tuple(field.name for field in fields(Timing))


@b.section("limits", after="rates")
def limits_section(record: Record) -> tuple[b.Block, ...]:
    """Return a sentence each; nothing where there is no answer."""
    return (b.Items(limits(record)),) if limits(record) else ()


def first_screen(record: Record) -> tuple[b.Block, ...]:
    """Return what the first screen shows below the verdict."""
    nines = message("note.nines") if record_scale(record).floor else None
    note = b.Paragraph(interval_note(record, brief=True), nines, message("note.standing"), note=True)
    return summary(record), note, b.Items(gaps(record), note=True)


def brief(record: Record) -> tuple[b.Block, ...]:
    """Return the same in 80 columns with the verdict, its limits and every obstacle."""
    open_points = limits(record)
    return (
        verdict(record),
        narrow_summary(record),
        *rate_charts(record)[:1],
        b.Paragraph(interval_note(record, brief=True), message("note.standing"), note=True),
        b.Paragraph(message("terminal.limits") if open_points else None),
        b.Items(open_points),
        b.Items(ranking.obstacles(record)[LISTED:]),
        b.Items(gaps(record), note=True),
    )


def summary(record: Record) -> b.Table:
    """Return a row for each model, the best mean first."""
    metric, unit, times = headline_name(record), headline_unit(record), record.times
    short = message("col.quality", metric=metric, unit=unit)
    columns = (
        b.Column(message("col.model"), numeric=False),
        b.Column(metric, small=message("col.interval", unit=unit), label=short),
        b.Column(message("col.strip", metric=metric), axis=record_scale(record)),
        b.Column(message("col.standing"), numeric=False),
        b.Column(message("col.parameters")),
        b.Column(message("col.flops"), small=message("unit.flops"), label=message("unit.flops")),
        b.Column(message("col.train"), small=message(f"unit.s.{times}"), label=message(f"cost.train_seconds.{times}")),
        b.Column(message("col.predict"), small="ms", label=message("short.predict")),
    )
    rows = tuple(b.Row(_cells(record, model), model.name) for model in ranked(record))
    return b.Table("summary", columns, rows, "summary")


def _cells(record: Record, model: Model) -> tuple[b.Cell, ...]:
    best, score = best_of(record), quality(record, model)
    test = None if is_single(record) or model is best else ranking.pair_test(record, model, best)
    is_judged = test and score and ranking.comparable(record, model, best)
    return (
        model.name,
        b.quality_cell(score, record.headline.kind),
        b.Strip(((model.name, score),)),
        b.Styled(standing(record, model), f"p\u00a0{p_text(test.p_holm)}" if test and is_judged else ""),
        b.Styled(compact(model.parameters), note=f"{model.parameters:,}"),
        compact(model.cost.training_flops_per_token),
        _mean(model.timing.train_seconds),
        _mean(model.timing.predict_ms),
    )


def narrow_summary(record: Record) -> b.Table:
    """Return the same table in 80 columns: each mean above its standing, costs under short heads."""
    columns = tuple(b.Column(message(f"terminal.{name}")) for name in ("parameters", "train", "predict"))
    head, metric, strip, *_ = summary(record).columns
    rows = []
    for model in ranked(record):
        name, score, drawn, _, parameters, _, *times = _cells(record, model)
        assert isinstance(score, b.Styled)
        mean = b.Styled(f"{score.text} {score.small}", standing(record, model))
        rows.append(b.Row((name, mean, drawn, parameters, *times), model.name))
    return b.Table("summary", (head, replace(metric, numeric=False), strip, *columns), tuple(rows), "summary")


def _mean(measure: MeanOverRuns | None) -> str:
    return NONE if measure is None else amount(measure.mean)


def gaps(record: Record) -> tuple[Message, ...]:
    """Return every value of the first screen that the record does not hold, with the reason it gives."""
    models_without: dict[tuple[str, str], list[str]] = {}
    metric = record.headline.metric
    for model in record.models:
        values: dict[str, object] = {metric: quality(record, model)} | vars(model.timing)
        values["training_flops_per_token"] = model.cost.training_flops_per_token
        points = (point for curve in model.curves for point in curve.points)
        values["curves"] = next((point for point in points if point.valid is not None), None)
        for name in (name for name, value in values.items() if value is None):
            models_without.setdefault((name, model.not_measured.get(name, "")), []).append(model.name)
    sentences = []
    for (name, reason), names in models_without.items():
        models: TextLike = message("gap.all") if len(names) == len(record.models) > 1 else ", ".join(names)
        what = ranking.named(record, "metric", name) if name == metric else message(f"what.{name}")
        sentences.append(message("gap", models=models, what=what, reason=reason or message("reason.none")))
    return tuple(sentences)
