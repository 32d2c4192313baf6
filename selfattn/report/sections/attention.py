"""Attention: which source tokens each model looks at while it writes."""

from __future__ import annotations

from selfattn.figures.record import Record
from selfattn.registry import register
from selfattn.report.blocks import AttentionExplorer, Block, Paragraph
from selfattn.report.verdict.ranking import ranked
from selfattn.report.words.messages import Message, message

DEMO = "demo.html"  # beside the report, where the models can run in a page


@register.section("attention")
class AttentionSection:
    """Examples with the maps of every model that has attention."""

    title = message("head.attention")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """The maps, and which models have none."""
        shown = {name for one in record.attention.examples for name, found in one.models.items() if found.maps}
        names = tuple(model.name for model in ranked(record) if model.name in shown)
        if not names:
            return (Paragraph(message("attention.nothing"), without_maps(record)),)
        page = (message("attention.demo"), DEMO) if record.demo else None
        text = Paragraph(message("attention.text"), without_maps(record), link=page)
        return text, AttentionExplorer(record.attention.examples, names)


def without_maps(record: Record) -> Message | None:
    """The sentence that names the models that have no attention to show."""
    names = [model.name for model in record.models if not model.attention]
    return message("attention.none", names=", ".join(names)) if names else None
