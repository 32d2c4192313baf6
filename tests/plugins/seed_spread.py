"""A report section as a plugin: how far the runs of a model lie apart, as a table and a chart."""

from selfattn.registry import register
from selfattn.report.blocks import Chart, ChartLine, Column, Paragraph, Row, Spot, Strip, Table, quality_cell
from selfattn.report.drawing.numbers import value_text
from selfattn.report.verdict.ranking import quality, ranked, record_scale
from selfattn.words.messages import phrase


@register.section("seed spread")
class SeedSpread:
    """Every seed by itself."""

    title = phrase(en="Seed by seed", ko="시드별 결과")
    after = "cost"

    def blocks(self, record):
        kind, scale = record.headline.kind, record_scale(record)
        measured = [(model, found) for model in ranked(record) if (found := quality(record, model)) and found.runs]
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
                    quality_cell(found, kind),
                    Strip(((model.name, found),)),
                    value_text(max(found.runs) - min(found.runs), kind),
                ),
                model.name,
            )
            for model, found in measured
        )
        lines = tuple(
            ChartLine(model.name, tuple(Spot(seed, run) for seed, run in zip(model.seeds, found.runs, strict=True)))
            for model, found in measured
        )
        return (
            Paragraph(phrase(en="What one seed would have said.", ko="시드 하나만 썼다면 나왔을 결과입니다.")),
            Table("seed-spread", columns, rows),
            Chart("seeds", phrase(en="By seed", ko="시드별"), lines, scale, phrase(en="seed", ko="시드")),
        )
