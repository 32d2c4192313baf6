"""Attention: which source tokens each model looks at while it writes."""

from __future__ import annotations

import math

from selfattn.registry import register
from selfattn.report.blocks import AttentionExplorer, Block, Paragraph, Quality, model_table
from selfattn.report.drawing.numbers import NONE
from selfattn.report.verdict.ranking import ranked
from selfattn.results.quality import Estimate
from selfattn.results.record import Record
from selfattn.words.messages import Message, message

DEMO = "demo.html"  # beside the report, where the models can run in a page
_AGREEMENT = ("blocking", "gradient", "between")


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
        return text, AttentionExplorer(record.attention.examples, names), *_agreement(record)


def _agreement(record: Record) -> tuple[Block, ...]:
    """How far attention agrees with what outputs depend on: a line for each model of which it is known."""
    found = [(model.name, model.agreement) for model in ranked(record) if model.agreement]
    if not found:
        return ()
    rows = [(name, [_correlation(getattr(one, key)) for key in _AGREEMENT]) for name, one in found]
    text = message("agreement.text", items=found[0][1].items, seed=record.models[0].seeds[0])
    return Paragraph(text), model_table("agreement", [message(f"agreement.{key}") for key in _AGREEMENT], rows)


def _correlation(estimate: Estimate | None) -> Quality | str:
    """Two decimals, the ends of the interval rounded outward."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return NONE
    low, high = math.floor(100 * estimate.low) / 100, math.ceil(100 * estimate.high) / 100
    return Quality(f"{estimate.mean:.2f}", f"[{low:.2f},\u00a0{high:.2f}]")


def without_maps(record: Record) -> Message | None:
    """The sentence that names the models that have no attention to show."""
    names = [model.name for model in record.models if not model.attention]
    return message("attention.none", names=", ".join(names)) if names else None
