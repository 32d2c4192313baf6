"""A report section as a plugin: how far the runs of a model lie apart, as a table and a chart."""

from selfattn.plugin import (
    Chart,
    ChartLine,
    Column,
    Paragraph,
    Row,
    Spot,
    Strip,
    Table,
    phrase,
    quality,
    quality_cell,
    ranked,
    record_scale,
    register,
    value_text,
)


@register.section("seed spread")
class SeedSpread:
    """Every seed by itself."""

    title = phrase(en="Seed by seed", ko="시드별 결과")
    after = "cost"

    def blocks(self, record):
        kind, scale = record.headline.kind, record_scale(record)
        measured = [
            (model, estimate) for model in ranked(record) if (estimate := quality(record, model)) and estimate.runs
        ]
        if not measured:
            return ()
        columns = (
            Column(phrase(en="model", ko="모델"), numeric=False),
            Column(phrase(en="mean", ko="평균")),
            Column("", axis=scale),
            Column(phrase(en="largest less smallest", ko="최대 − 최소")),
        )
        rows = tuple(
            Row(
                (
                    model.name,
                    quality_cell(estimate, kind),
                    Strip(((model.name, estimate),)),
                    value_text(max(estimate.runs) - min(estimate.runs), kind),
                ),
                model.name,
            )
            for model, estimate in measured
        )
        lines = tuple(
            ChartLine(model.name, tuple(Spot(seed, run) for seed, run in zip(model.seeds, estimate.runs, strict=True)))
            for model, estimate in measured
        )
        return (
            Paragraph(phrase(en="What one seed would have said.", ko="시드 하나만 썼다면 나왔을 결과입니다.")),
            Table("seed-spread", columns, rows),
            Chart("seeds", phrase(en="By seed", ko="시드별"), lines, scale, phrase(en="seed", ko="시드")),
        )
