"""Attention against gold: best head and mean of heads of all models side by side, then every head."""

from __future__ import annotations

from dataclasses import replace

from selfattn.registry import register
from selfattn.report.blocks import Block, Column, Folded, Paragraph, Row, Table
from selfattn.report.drawing.numbers import NONE, share_text
from selfattn.report.sections.attention import without_maps
from selfattn.report.verdict.ranking import ranked
from selfattn.results.attention import HeadAlignment, ModelAlignment
from selfattn.results.record import Record
from selfattn.words.messages import Message, message

_FIGURES = ("gold_share", "aer", "shifted_gold_share", "shifted_aer", "entropy", "eos_share")


@register.section("alignment")
class Alignment:
    """Where attention looks, held against where the token comes from."""

    title = message("head.alignment")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """One table for all models, and folded away the heads of each."""
        measured = [(model.name, model.alignment) for model in ranked(record) if model.alignment]
        if not measured:
            return ()
        rows = [Row((name, which, *_figures(one)), name) for name, found in measured for which, one in _chosen(found)]
        diagonal = next((found.diagonal_aer for _, found in measured if found.diagonal_aer is not None), None)
        if diagonal is not None:  # the same for every model
            rows.append(Row((message("alignment.diagonal"), NONE, NONE, share_text(diagonal), *[NONE] * 4)))
        spans = any(one.gold_share is not None for _, found in measured for one in found.heads)
        columns = (Column(message("col.model"), numeric=False), *_columns("alignment.which", spans))
        note = message("alignment.note", error=message("alignment.error.spans" if spans else "alignment.error.links"))
        return (
            Paragraph(message("alignment.text", seed=record.models[0].seeds[0])),
            Table("alignment", columns, tuple(rows)),
            Paragraph(note, without_maps(record), note=True),
            *(_all_heads(*one, f"heads-{k}", spans) for k, one in enumerate(measured) if len(one[1].heads) > 1),
        )


def _all_heads(name: str, found: ModelAlignment, table: str, spans: bool) -> Folded:
    rows = tuple(Row((_at("alignment.one", one), *_figures(one))) for one in found.heads)
    return Folded(message("alignment.all", model=name), table, (Table(table, _columns("alignment.head", spans), rows),))


def _chosen(found: ModelAlignment) -> list[tuple[Message, HeadAlignment]]:
    """The best head, then the mean of each layer that has more than one."""
    if len(found.heads) == 1:
        return [(message("alignment.only"), found.heads[0])]
    by_place = {(one.layer, one.head): one for one in found.heads}
    if found.best_shifted is None or found.best_shifted == found.best:
        key = "alignment.best" if found.best_shifted is None else "alignment.best.both"
        best = [(_at(key, by_place[found.best]), by_place[found.best])] if found.best else []
    else:  # each with the figures of the step that it was chosen for
        reads = by_place[found.best_shifted]
        shown = replace(reads, gold_share=None, aer=None)
        best = [(_at("alignment.best.shifted", reads), shown)]
        if found.best:
            writes = by_place[found.best]
            shown = replace(writes, shifted_gold_share=None, shifted_aer=None)
            best.insert(0, (_at("alignment.best", writes), shown))
    layers = [one.layer for one in found.heads]
    means = [one for one in found.means if layers.count(one.layer) > 1]
    return best + [(_at("alignment.mean", one), one) for one in means]


def _at(key: str, one: HeadAlignment) -> Message:
    return message(key, layer=one.layer, head=one.head or 0)


def _columns(which: str, spans: bool) -> tuple[Column, ...]:
    """Against spans, which have no sure links, the error rate is one minus precision, and is called so."""
    names = [f"{name}.spans" if spans and name.endswith("aer") else name for name in _FIGURES]
    return (Column(message(which), numeric=False), *(Column(message(f"alignment.{name}")) for name in names))


def _figures(one: HeadAlignment) -> tuple[str, ...]:
    return tuple(_entropy(one) if name == "entropy" else share_text(getattr(one, name)) for name in _FIGURES)


def _entropy(one: HeadAlignment) -> str:
    if one.entropy is None:
        return share_text(one.entropy_share)
    part = "" if one.entropy_share is None else f"\u00a0({share_text(one.entropy_share, 0)})"
    return f"{one.entropy:.2f}{part}"
