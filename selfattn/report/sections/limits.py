"""Limits: what belongs to the answer beside the few sentences of the first screen, and what it leaves open."""

from __future__ import annotations

from selfattn.registry import register
from selfattn.report.blocks import Block, Items
from selfattn.report.verdict.verdict import limits
from selfattn.results.record import Record
from selfattn.words.messages import message


@register.section("limits")
class Limits:
    """How far the answer goes."""

    title = message("head.limits")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """One sentence each; none where there is no answer."""
        found = limits(record)
        return (Items(found),) if found else ()
